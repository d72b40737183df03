"""pgvector's types in PostgreSQL's binary formats, whole blocks at a time.

A `vector` is sent as int16 dimensions, int16 zero, then float4 values, a `halfvec` with float2 values, all
big-endian (pgvector's vector_send, halfvec_send). A row of a binary COPY is an int16 count of columns, then
for each an int32 length and its bytes.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import PostgresError

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)
ELEMENTS: dict[str, np.dtype[Any]] = {"vector": np.dtype(np.float32), "halfvec": np.dtype(np.float16)}


def row_layout(dimension: int, column_type: str = "vector") -> np.dtype[Any]:
    """The bytes of one COPY row (id int4, embedding of the column's type) as a NumPy type."""
    return np.dtype(
        [
            ("columns", ">i2"),
            ("id_length", ">i4"),
            ("id", ">i4"),
            ("vector_length", ">i4"),
            ("dimension", ">i2"),
            ("unused", ">i2"),
            ("values", ELEMENTS[column_type].newbyteorder(">"), (dimension,)),
        ]
    )


def row_of_an_array(row: int) -> str:
    """Name a row for an error."""
    return f"row {row} (from 0)"


class RowEncoder:
    """Encodes blocks of up to `block_rows` rows into one buffer that is used again and again."""

    def __init__(
        self,
        dimension: int,
        block_rows: int,
        column_type: str = "vector",
        where: Callable[[int], str] = row_of_an_array,
    ) -> None:
        """Fill in all that is the same in every row; `where` names a row, by its id, for an error."""
        self._type, self._where = column_type, where
        element = ELEMENTS[column_type]
        self._rows = np.zeros(block_rows, dtype=row_layout(dimension, column_type))
        self._rows["columns"] = 2
        self._rows["id_length"] = 4
        self._rows["vector_length"] = 4 + element.itemsize * dimension
        self._rows["dimension"] = dimension
        self._values = np.empty((block_rows, dimension), dtype=element)
        self._bits = self._values.view(f"u{element.itemsize}")
        # Shifted by the sign bit, all finite numbers are below infinity, and NaN is above it.
        self._infinity = (np.full(1, np.inf, element).view(self._bits.dtype) << 1)[0]

    def encode(self, first_id: int, block: np.ndarray[Any, Any]) -> memoryview:
        """Return the rows of `block`, shape (rows, dimension) of any real type, valid until the next call.

        Raises PostgresError for a value that the column cannot hold, so that the server never sees it.
        """
        values = self._values[: len(block)]
        with np.errstate(over="ignore"):  # found below
            values[:] = block
        if np.max(self._bits[: len(block)] << 1, initial=0) >= self._infinity:
            self._refuse(first_id, block, values)
        rows = self._rows[: len(block)]
        rows["id"] = np.arange(first_id, first_id + len(block))
        rows["values"] = values
        return rows.view(np.uint8).data

    def _refuse(self, first_id: int, block: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        row, column = np.argwhere(~np.isfinite(values))[0]
        value, place = block[row, column], self._where(first_id + int(row))
        if np.isfinite(value):
            most = np.finfo(values.dtype).max
            remedy = "scale the vectors" if self._type == "vector" else "use vector, or scale the vectors"
            raise PostgresError(f"{place} has {value}, a {self._type} holds up to {most:g}: {remedy}")
        kind = "NaN" if np.isnan(value) else "infinity"
        raise PostgresError(f"{place} has {kind}, which a {self._type} cannot hold: mend or remove the row")


class VectorEncoder:
    """Encodes one vector after the other as a binary query parameter, in the same buffer."""

    def __init__(self, dimension: int) -> None:
        """Write the header, which is the same for all."""
        element = ELEMENTS["vector"].newbyteorder(">")
        self._buffer = bytearray(struct.pack(">HH", dimension, 0) + bytes(element.itemsize * dimension))
        self._values = np.frombuffer(self._buffer, dtype=element, offset=4)

    def encode(self, vector: np.ndarray[Any, Any]) -> bytearray:
        """Return the bytes of `vector`, shape (dimension,), valid until the next call."""
        self._values[:] = vector
        return self._buffer


def text_vector(vector: np.ndarray[Any, Any]) -> str:
    """One vector as a literal of SQL, without the quotes."""
    return "[" + ",".join(map(str, np.asarray(vector, dtype=np.float32).tolist())) + "]"
