"""The type of a table's column: what differs between pgvector's types, and nowhere else."""

from typing import Any

from .bit import BitColumn
from .column import METRICS, Column, Metric, RowEncoder, row_of_an_array
from .fixed import FixedColumn
from .sets import SetColumn
from .sparse import MOST_INDEXED_VALUES, SparseColumn, is_sparse
from .vector import VectorColumn

__all__ = [
    "METRICS", "MOST_INDEXED_VALUES", "BitColumn", "Column", "FixedColumn", "Metric", "RowEncoder",
    "SetColumn", "SparseColumn", "VectorColumn", "column_of", "is_sparse", "row_of_an_array",
]  # fmt: skip


def column_of(train: Any, metric: str) -> Column:
    """Return the column for a training set: rows of numbers or bits, (rows, dimension), or a list of sets."""
    if is_sparse(train):
        return SparseColumn.of(train)
    if isinstance(train, list):
        return SetColumn.of(train)
    return (BitColumn if metric in BitColumn.metrics else VectorColumn)(train.shape[1])
