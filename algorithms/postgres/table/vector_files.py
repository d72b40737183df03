"""Files of vectors, written from values in PostgreSQL's binary form while they arrive: NPY."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

_FLUSHED = 4096  # rows
_NPY_HEADER = 128  # bytes; NumPy's own, padded, leave room for any number of rows
OTHER_DIMENSION, NO_ANGLE = "of another dimension", "of zeros, which have no angle"


class DenseWriter:
    """Writes an NPY file of rows whose number is not known yet; the first row gives the dimension."""

    type: Any = np.float32
    head = 4  # bytes before the numbers; all rows have those of the first

    def __init__(self, folder: Path, needs_angles: bool) -> None:
        self.path = folder / "vectors.npy"
        self._file: IO[bytes] = self.path.open("wb")
        self._file.write(bytes(_NPY_HEADER))
        self._needs_angles = needs_angles
        self._alike: tuple[int, bytes] | None = None  # length and head of all values
        self._rows, self._dimension = 0, 0
        self._pending: list[bytes] = []

    def take(self, value: bytes) -> str:
        """Take a value; where it cannot be used, return why, after "rows"."""
        if reason := self._refusal(value):
            return reason
        alike = len(value), value[: self.head]
        self._alike = self._alike or alike
        if alike != self._alike:
            return OTHER_DIMENSION
        if self._needs_angles and self._is_zero(value):
            return NO_ANGLE
        self._pending.append(value)
        self._rows += 1
        if len(self._pending) == _FLUSHED:
            self._flush()
        return ""

    def close(self) -> int:
        """Write what is left, and the header; return the number of rows."""
        if self._rows:
            self._flush()
            shape = self._rows, self._dimension
            descr = np.lib.format.dtype_to_descr(np.dtype(self.type))
            text = repr({"descr": descr, "fortran_order": False, "shape": shape})
            self._file.seek(0)
            self._file.write(b"\x93NUMPY\x01\x00" + (_NPY_HEADER - 10).to_bytes(2, "little"))
            self._file.write(text.ljust(_NPY_HEADER - 11).encode() + b"\n")
        self._file.close()
        return self._rows

    def _flush(self) -> None:
        block = np.frombuffer(b"".join(self._pending), np.uint8).reshape(len(self._pending), -1)
        decoded = np.ascontiguousarray(self._decode(block), self.type)
        self._dimension = decoded.shape[1]
        self._file.write(decoded.tobytes())
        self._pending.clear()

    def _refusal(self, value: bytes) -> str:
        return ""

    def _is_zero(self, value: bytes) -> bool:
        return not any(value[self.head :])

    def _decode(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the vectors of values, (rows, bytes), as (rows, dimension)."""
        return np.ascontiguousarray(block[:, 4:]).view(">f4")


class _HalfWriter(DenseWriter):
    type = np.float16

    def _decode(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.ascontiguousarray(block[:, 4:]).view(">f2")


class _BitWriter(DenseWriter):
    type = np.bool_

    def _decode(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        bits = int.from_bytes(block[0, :4].tobytes(), "big")
        return np.unpackbits(block[:, 4:], axis=1, count=bits).astype(bool)


class _ArrayWriter(DenseWriter):
    """Arrays of one dimension: a length stands before each number, and one without a number is refused."""

    width = 4
    head = 12  # dimensions, whether there are nulls, the type of the elements

    def _refusal(self, value: bytes) -> str:
        dimensions, has_nulls = (int.from_bytes(value[start : start + 4], "big") for start in (0, 4))
        if dimensions != 1:
            return "that are empty arrays, or arrays of arrays"
        return "with a missing number" if has_nulls else ""

    def _is_zero(self, value: bytes) -> bool:
        return not self._decode(np.frombuffer(value, np.uint8)[None]).astype(self.type).any()

    def _decode(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        cells = np.ascontiguousarray(block[:, 20:]).reshape(len(block), -1, 4 + self.width)
        return np.ascontiguousarray(cells[:, :, 4:]).view(f">f{self.width}")[:, :, 0]


class _DoubleArrayWriter(_ArrayWriter):
    width = 8


# By the type of the column.
WRITERS: Mapping[str, Callable[[Path, bool], DenseWriter]] = {
    "vector": DenseWriter,
    "halfvec": _HalfWriter,
    "bit": _BitWriter,
    "varbit": _BitWriter,
    "_float4": _ArrayWriter,
    "_float8": _DoubleArrayWriter,
}
