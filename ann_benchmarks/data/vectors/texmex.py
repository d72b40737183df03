"""The formats fvecs, bvecs and ivecs: each row begins with its dimension."""

from bisect import bisect_left
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from .reading import OffsetFile, reading, row_range
from .rows import BLOCK_BYTES, Rows

TEXMEX_TYPES = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
PREFIX = 4  # bytes of the dimension, an int32


class TexmexRows(Rows):
    """Rows that each have their dimension before them, the same in all."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._stored = np.dtype(dtype)
        self.dtype = self._stored.newbyteorder("=")
        self.label, self.paths = str(path), (path.absolute(),)
        self._file = OffsetFile(path)
        with reading(path):
            size = path.stat().st_size
            dimension = self._prefix(0) if size >= PREFIX else 0
        if dimension <= 0:
            raise UserError(
                f"cannot read {path}: it does not begin with the dimension of row 0; is it whole?"
            )
        self._row_bytes = PREFIX + dimension * self._stored.itemsize
        rows, rest = divmod(size, self._row_bytes)
        self.shape = (rows, dimension)
        if rest:
            self._explain(rest)

    def _prefix(self, offset: int) -> int:
        found = np.zeros(1, "<i4")
        self._file.read_into(found, offset)
        return int(found[0])

    def _explain(self, rest: int) -> None:
        """Tell a row of another dimension from a last row that is cut short."""
        rows, dimension = self.shape
        # After a row of another length none begins where it should, so that the first can be bisected.
        with reading(self.label):
            odd = bisect_left(
                range(rows), True, key=lambda row: self._prefix(row * self._row_bytes) != dimension
            )
        if odd < rows:
            raise self._uneven(odd, self._prefix(odd * self._row_bytes))
        raise UserError(
            f"cannot read {self.where(rows)}: it has {rest} bytes where the rows before it have "
            f"{self._row_bytes}; the file is cut short, fetch it again"
        )

    def _uneven(self, row: int, found: int) -> UserError:
        return UserError(
            f"{self.where(row)} says that it has {found} numbers where row 0 has {self.shape[1]}; "
            "every vector must have the same length"
        )

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, without their prefixes."""
        rows = np.empty((stop - start, self.shape[1]), self._stored)
        size = max(1, BLOCK_BYTES // self._row_bytes)
        for first in range(start, stop, size):
            last = min(first + size, stop)
            rows[first - start : last - start] = self._read_block(first, last)
        return rows.astype(self.dtype, copy=False)

    def _read_block(self, start: int, stop: int) -> np.ndarray:
        raw = np.empty((stop - start, self._row_bytes), np.uint8)
        with reading(row_range(self.label, start, stop)):
            got = self._file.read_into(raw, start * self._row_bytes)
        if got < raw.nbytes:
            raise UserError(
                f"cannot read {self.where(start + got // self._row_bytes)}: the file ends before it, though "
                f"it had {len(self):,} rows when it was opened; fetch it again"
            )
        prefixes = raw[:, :PREFIX].copy().view("<i4")[:, 0]
        wrong = prefixes != self.shape[1]
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._uneven(start + row, int(prefixes[row]))
        return raw[:, PREFIX:].view(self._stored)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
