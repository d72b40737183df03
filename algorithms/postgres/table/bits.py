"""PostgreSQL's `bit`, which pgvector compares by Hamming's and Jaccard's distance; sets of integers are bits.

A value is sent as an int32 count of bits, then the bits, the first one the most significant of its byte.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..errors import PostgresError
from .fixed import FixedColumn


@dataclass(frozen=True)
class BitColumn(FixedColumn):
    """Rows of bools, or of numbers that are 0 where a bit is."""

    dimension: int
    type_name: str = field(default="bit", init=False)
    most_dimensions: ClassVar[int] = 83_886_080
    metrics: ClassVar[tuple[str, ...]] = ("hamming", "jaccard")

    @property
    def parameter(self) -> str:
        """The query with its length: `bit` alone is one bit."""
        return f"$1::{self.declared}"

    @property
    def layout(self) -> np.dtype[Any]:
        """The number of bits, and bytes."""
        return np.dtype([("bits", ">i4"), ("values", np.uint8, (-(-self.dimension // 8),))])

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        """Fill in the number of bits."""
        out["bits"] = self.dimension

    def values_of(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows, (n, dimension), eight bits to a byte."""
        return np.packbits(np.asarray(block, dtype=bool), axis=1)

    def bits_of(self, row: Any) -> np.ndarray[Any, Any]:
        """Return a query as bools, (dimension,)."""
        return np.asarray(row, dtype=bool)

    def parameter_encoder(self) -> Callable[[Any], bytes]:
        """Return what encodes a query."""
        head, bits_of = self.dimension.to_bytes(4, "big"), self.bits_of
        return lambda row: head + np.packbits(bits_of(row)).tobytes()

    def literal(self, row: Any) -> str:
        """Write a query as zeros and ones."""
        return "".join(np.where(self.bits_of(row), "1", "0"))


# A query may have items that no row has. They count in a union, and so in the distance: each takes a bit.
SPARE_BITS = 64


@dataclass(frozen=True, eq=False)
class SetColumn(BitColumn):
    """A bit for each item that the rows have, in ascending order, then the spare bits."""

    items: np.ndarray[Any, Any]  # distinct, ascending

    @classmethod
    def fit(cls, train: Sequence[Any]) -> "SetColumn":
        """Return the column for these sets, arrays of integers."""
        items = np.unique(np.concatenate([np.asarray(row) for row in train]))
        return cls(len(items) + SPARE_BITS, items)

    def rows(self, train: Any) -> "SetRows":
        """Return sets as rows of bools."""
        return SetRows(self, train)

    def bits_of(self, row: Any) -> np.ndarray[Any, Any]:
        """Return a set as bools; PostgresError for more items that no row has than there are spare bits."""
        items = np.unique(np.asarray(row))
        places = np.searchsorted(self.items, items)
        known = self.items[np.minimum(places, len(self.items) - 1)] == items
        unknown = len(items) - np.count_nonzero(known)
        if unknown > SPARE_BITS:
            raise PostgresError(
                f"a query has {unknown} items that no row has, which the column has {SPARE_BITS} bits for: "
                "leave such queries out"
            )
        bits = np.zeros(self.dimension, dtype=bool)
        bits[places[known]] = True
        bits[len(self.items) : len(self.items) + unknown] = True
        return bits


class SetRows:
    """Sets as rows of bools, read by range."""

    dtype = np.dtype(bool)

    def __init__(self, column: SetColumn, sets: Sequence[Any]) -> None:
        """Take the sets, arrays of integers; nothing is converted yet."""
        self._column, self._sets = column, sets
        self.shape = (len(sets), column.dimension)

    def __len__(self) -> int:
        return len(self._sets)

    def __getitem__(self, numbers: slice) -> np.ndarray[Any, Any]:
        rows = [self._column.bits_of(row) for row in self._sets[numbers]]
        return np.array(rows, dtype=bool).reshape(-1, self._column.dimension)

    def fingerprint(self) -> str:
        """Hash all sets."""
        digest = hashlib.blake2b(b"sets", digest_size=16)
        lengths = np.array([len(row) for row in self._sets], dtype=np.int64)
        digest.update(lengths.data)
        for row in self._sets:
            digest.update(np.ascontiguousarray(row, dtype=np.int64).data)
        return digest.hexdigest()
