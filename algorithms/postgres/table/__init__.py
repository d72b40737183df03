"""The type of a table's column: what differs between pgvector's types, and nowhere else."""

from typing import Any

from ..errors import PostgresError
from .attributed import AttributedColumn, attribute_kinds, partition_name
from .column import METRICS, BitColumn, Column, VectorColumn, row_of_an_array
from .kinds import KINDS, ColumnKind, NamedAttribute, NamedAttributes, SmallLabelsKind, quoted

__all__ = [
    "KINDS", "METRICS", "AttributedColumn", "BitColumn", "Column", "ColumnKind",
    "NamedAttribute", "NamedAttributes", "SmallLabelsKind", "VectorColumn",
    "attribute_kinds", "column_of", "partition_name", "quoted", "row_of_an_array",
]  # fmt: skip


def column_of(train: Any, metric: str) -> Column:
    """Return the column for a training set of numbers or bits, (rows, dimension); PostgresError for sets."""
    if isinstance(train, list):
        raise PostgresError("pgvector has no sets: take a dataset of vectors or bits")
    return (BitColumn if metric in BitColumn.metrics else VectorColumn)(train.shape[1])
