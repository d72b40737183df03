"""pgvector's `vector` in PostgreSQL's binary formats, whole blocks at a time.

A vector is sent as int16 dimensions, int16 zero, then float4 values, all big-endian (pgvector, vector_send).
A row of a binary COPY is an int16 count of columns, then for each an int32 length and its bytes.
"""

import struct
from typing import Any

import numpy as np

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)


def row_layout(dimension: int) -> np.dtype[Any]:
    """The bytes of one COPY row (id int4, embedding vector) as a NumPy type."""
    return np.dtype(
        [
            ("columns", ">i2"),
            ("id_length", ">i4"),
            ("id", ">i4"),
            ("vector_length", ">i4"),
            ("dimension", ">i2"),
            ("unused", ">i2"),
            ("values", ">f4", (dimension,)),
        ]
    )


class RowEncoder:
    """Encodes blocks of up to `block_rows` rows into one buffer that is used again and again."""

    def __init__(self, dimension: int, block_rows: int) -> None:
        """Fill in all that is the same in every row."""
        self._rows = np.zeros(block_rows, dtype=row_layout(dimension))
        self._rows["columns"] = 2
        self._rows["id_length"] = 4
        self._rows["vector_length"] = 4 + 4 * dimension
        self._rows["dimension"] = dimension

    def encode(self, first_id: int, block: np.ndarray[Any, Any]) -> memoryview:
        """Return the rows of `block`, shape (rows, dimension), valid until the next call."""
        rows = self._rows[: len(block)]
        rows["id"] = np.arange(first_id, first_id + len(block))
        rows["values"] = block
        return rows.view(np.uint8).data


class VectorEncoder:
    """Encodes one vector after the other as a binary query parameter, in the same buffer."""

    def __init__(self, dimension: int) -> None:
        """Write the header, which is the same for all."""
        self._buffer = bytearray(struct.pack(">HH", dimension, 0) + bytes(4 * dimension))
        self._values = np.frombuffer(self._buffer, dtype=">f4", offset=4)

    def encode(self, vector: np.ndarray[Any, Any]) -> bytearray:
        """Return the bytes of `vector`, shape (dimension,), valid until the next call."""
        self._values[:] = vector
        return self._buffer


def text_vector(vector: np.ndarray[Any, Any]) -> str:
    """One vector as a literal of SQL, without the quotes."""
    return "[" + ",".join(map(str, np.asarray(vector, dtype=np.float32).tolist())) + "]"
