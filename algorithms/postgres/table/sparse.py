"""pgvector's `sparsevec`, which stores the values that are not 0.

It is sent as int32 dimensions, int32 number of values, int32 zero, then the places as int32, from 0 and
ascending, and then the values as float4, none of them 0; all big-endian (pgvector's sparsevec_send).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import PostgresError
from .column import ALONE, Beside, Column, row_of_an_array

MOST_VALUES = 16_000  # of a sparsevec
MOST_INDEXED_VALUES = 1_000  # the limit of an HNSW index
_HEAD = np.dtype(
    [
        ("columns", ">i2"), ("id_length", ">i4"), ("id", ">i4"), ("length", ">i4"),
        ("dimension", ">i4"), ("count", ">i4"), ("unused", ">i4"),
    ]
)  # fmt: skip


def is_sparse(X: Any) -> bool:
    """Whether rows are in compressed form, as scipy.sparse.csr_matrix has them: indptr, indices, data."""
    return getattr(X, "indptr", None) is not None


@dataclass(frozen=True)
class SparseColumn(Column):
    """Sparse vectors with `mean_values` values that are not 0 on average, and at most `most_values`."""

    dimension: int
    mean_values: float
    most_values: int
    type_name: str = "sparsevec"
    most_dimensions: ClassVar[int] = 1_000_000_000
    metrics: ClassVar[tuple[str, ...]] = ("euclidean", "angular", "ip", "manhattan")

    @classmethod
    def fit(cls, X: Any) -> "SparseColumn":
        """Return the column for rows; PostgresError for a row with more values than the type holds."""
        counts = np.diff(X.indptr)
        most = int(counts.max(initial=0))
        if most > MOST_VALUES:
            raise PostgresError(
                f"row {int(np.argmax(counts))} (from 0) has {most:,} values that are not 0, a sparsevec holds"
                f" up to {MOST_VALUES:,}: keep the largest ones of each row"
            )
        return cls(int(X.shape[1]), float(counts.mean()) if len(counts) else 0.0, most)

    @property
    def value_bytes(self) -> int:
        return round(16 + 8 * self.mean_values)

    @property
    def is_plain(self) -> bool:
        """Whether the longest value fits a page."""
        return self.most_values <= MOST_INDEXED_VALUES - 1

    def source_bytes(self, train: Any) -> int:
        return self.value_bytes

    def row_encoder(
        self, rows: int, where: Callable[[int], str] = row_of_an_array, beside: Beside = ALONE
    ) -> "SparseRowEncoder":
        return SparseRowEncoder(self, where, beside)

    def parameter_encoder(self) -> Callable[[Any], bytes]:
        def encode(query: Any) -> bytes:
            count = len(query.indices)
            if count > MOST_VALUES:
                raise PostgresError(
                    f"a query has {count:,} values that are not 0, a sparsevec holds up to {MOST_VALUES:,}:"
                    " keep its largest ones"
                )
            head = struct.pack(">iii", self.dimension, count, 0)
            return head + query.indices.astype(">i4").tobytes() + query.data.astype(">f4").tobytes()

        return encode

    def literal(self, row: Any) -> str:
        """Write a query as pgvector does: places from 1, then the dimension."""
        pairs = zip(row.indices.tolist(), row.data.tolist(), strict=True)
        return "{" + ",".join(f"{place + 1}:{value}" for place, value in pairs) + f"}}/{self.dimension}"


class SparseRowEncoder:
    """Encodes blocks of rows that have `indptr`, `indices` and `data`."""

    def __init__(self, column: SparseColumn, where: Callable[[int], str], beside: Beside) -> None:
        self._dimension, self._where, self._columns = column.dimension, where, 2 + beside.columns
        self._ends: list[int] = []  # of the rows of the last block, in bytes

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the rows; all of their parts have an even length, so that they are put in place by twos."""
        counts = np.diff(block.indptr)
        self._check(first_id, block.data, counts)
        head = np.zeros(len(counts), _HEAD)
        head["columns"], head["id_length"], head["dimension"] = self._columns, 4, self._dimension
        head["id"] = np.arange(first_id, first_id + len(counts))
        head["length"], head["count"] = 12 + 8 * counts, counts
        words = head.view("u2").reshape(len(counts), _HEAD.itemsize // 2)
        ends = np.cumsum(words.shape[1] + 4 * counts)
        self._ends = (2 * ends).tolist()
        starts = ends - 4 * counts
        out = np.empty(int(ends[-1]) if len(ends) else 0, "u2")
        out[(starts - words.shape[1])[:, np.newaxis] + np.arange(words.shape[1])] = words
        within = np.arange(len(block.data)) - np.repeat(block.indptr[:-1] - block.indptr[0], counts)
        places = (np.repeat(starts, counts) + 2 * within)[:, np.newaxis] + np.arange(2)
        out[places] = block.indices.astype(">i4").view("u2").reshape(-1, 2)
        values = places + np.repeat(2 * counts, counts)[:, np.newaxis]
        out[values] = block.data.astype(">f4").view("u2").reshape(-1, 2)
        return out.view(np.uint8).data

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return each row by itself."""
        content = self.encode(first_id, block)
        return [content[start:end] for start, end in zip([0, *self._ends], self._ends, strict=False)]

    def _check(self, first_id: int, data: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> None:
        bad = ~np.isfinite(data) | (data == 0)
        if bad.any():
            number = int(np.argmax(bad))
            row = int(np.searchsorted(np.cumsum(counts), number, "right"))
            raise PostgresError(
                f"{self._where(first_id + row)} stores {data[number]}, which a sparsevec cannot hold: mend or"
                " remove the value"
            )
