"""PostgreSQL's `bit`, which pgvector compares by Hamming's and Jaccard's distance.

A value is sent as an int32 count of bits, then the bits, the first one the most significant of its byte.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

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
