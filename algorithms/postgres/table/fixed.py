"""The types of columns: pgvector's `vector` and `halfvec`, and `bit`.

A `vector` is sent as int16 dimensions, int16 zero, then float4 values, a `halfvec` with float2 values, all
big-endian (pgvector's vector_send, halfvec_send). A `bit`, which pgvector compares by Hamming's and Jaccard's
distance, is an int32 count of bits, then the bits, the first one the most significant of its byte.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..errors import PostgresError
from .column import Column

_ELEMENTS: dict[str, np.dtype[Any]] = {"vector": np.dtype(np.float32), "halfvec": np.dtype(np.float16)}


@dataclass(frozen=True)
class VectorColumn(Column):
    """Values of 4 bytes, or of 2 as `halfvec`."""

    dimension: int
    type_name: str = "vector"
    most_dimensions: ClassVar[int] = 16_000
    metrics: ClassVar[tuple[str, ...]] = ("euclidean", "angular", "ip", "manhattan")

    @property
    def element(self) -> np.dtype[Any]:
        """The type of one value."""
        return _ELEMENTS[self.type_name]

    @property
    def layout(self) -> np.dtype[Any]:
        values = self.element.newbyteorder(">")
        return np.dtype([("dimension", ">i2"), ("unused", ">i2"), ("values", values, (self.dimension,))])

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        out["dimension"] = self.dimension

    def checker(self, rows: int, where: Callable[[int], str]) -> Callable[[int, Any], np.ndarray[Any, Any]]:
        """Return what refuses infinity, NaN, and what is too large for the type."""
        native = np.empty((rows, self.dimension), self.element)  # in the machine's own order of bytes
        bits = native.view(f"u{self.element.itemsize}")
        # Shifted by the sign bit, all finite numbers are below infinity, and NaN is above it.
        infinity = (np.full(1, np.inf, self.element).view(bits.dtype) << 1)[0]

        def checked(first: int, block: Any) -> np.ndarray[Any, Any]:
            values = native[: len(block)]
            with np.errstate(over="ignore"):  # found below
                values[:] = block
            if np.max(bits[: len(block)] << 1, initial=0) >= infinity:
                row, column = np.argwhere(~np.isfinite(values))[0]
                raise self._refusal(block[row, column], where(first + int(row)))
            return values

        return checked

    def _refusal(self, value: Any, place: str) -> PostgresError:
        kind = self.type_name
        if np.isfinite(value):
            remedy = "scale the vectors" if kind == "vector" else "use vector, or scale the vectors"
            most = np.finfo(self.element).max
            return PostgresError(f"{place} has {value}, a {kind} holds up to {most:g}: {remedy}")
        name = "NaN" if np.isnan(value) else "infinity"
        return PostgresError(f"{place} has {name}, which a {kind} cannot hold: correct or remove the row")

    def parameter_encoder(self) -> Callable[[Any], bytearray]:
        """Return what encodes one vector after the other, in the same buffer."""
        element = self.element.newbyteorder(">")
        buffer = bytearray(struct.pack(">HH", self.dimension, 0) + bytes(element.itemsize * self.dimension))
        values = np.frombuffer(buffer, dtype=element, offset=4)

        def encode(vector: Any) -> bytearray:
            values[:] = vector
            return buffer

        return encode

    def literal(self, row: Any) -> str:
        """Write a vector, (dimension,), of any real type."""
        return "[" + ",".join(map(str, np.asarray(row, dtype=np.float32).tolist())) + "]"


@dataclass(frozen=True)
class BitColumn(Column):
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
        return np.dtype([("bits", ">i4"), ("values", np.uint8, (-(-self.dimension // 8),))])

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        out["bits"] = self.dimension

    def values_of(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows, (n, dimension), eight bits to a byte."""
        return np.packbits(np.asarray(block, dtype=bool), axis=1)

    def parameter_encoder(self) -> Callable[[Any], bytes]:
        head = self.dimension.to_bytes(4, "big")
        return lambda row: head + np.packbits(np.asarray(row, dtype=bool)).tobytes()

    def literal(self, row: Any) -> str:
        """Write a query as zeros and ones."""
        return "".join(np.where(np.asarray(row, dtype=bool), "1", "0"))
