"""Vectors in many files, end to end."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

from .rows import LockedRows, Rows

OPEN_PARTS = 64  # fewer than the files that a process may have open


class JoinedRows(LockedRows):
    """Rows of several parts, of one dimension and element type; empty parts may be anything."""

    _recent: dict[int, None]  # parts that are open, the longest ago first

    def __init__(self, parts: Sequence[Rows]) -> None:
        super().__init__()
        filled = [part for part in parts if len(part)] or parts[:1]
        if not filled:
            raise UserError("vectors in parts need at least one part")
        first = filled[0]
        for part in filled:
            if part.shape[1] != first.shape[1] or part.dtype != first.dtype:
                raise UserError(
                    f"{part.label} has rows of {part.shape[1]} {part.dtype} where {first.label} has "
                    f"{first.shape[1]} {first.dtype}; all parts must agree"
                )
        self._parts = list(filled)
        self._starts = [0, *accumulate(len(part) for part in filled)]
        self.shape, self.dtype = (self._starts[-1], first.shape[1]), first.dtype
        others = len(filled) - 1
        self.label = f"{first.label} and {others} more" if others else first.label
        self.paths = tuple(path for part in filled for path in getattr(part, "paths", ()))

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        number = self._number(start)
        if stop <= self._starts[number + 1]:
            return self._read_part(number, start, stop)
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        at = start
        while at < stop:
            end = min(stop, self._starts[number + 1])
            rows[at - start : end - start] = self._read_part(number, at, end)
            number, at = number + 1, end
        return rows

    def _read_part(self, number: int, start: int, stop: int) -> np.ndarray:
        first = self._starts[number]
        return self._opened(number).read(start - first, stop - first)

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers, each part read once."""
        numbers = np.asarray(numbers)
        found = np.empty((len(numbers), self.shape[1]), self.dtype)
        part_of = np.searchsorted(self._starts, numbers, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            found[here] = self._opened(int(number)).take(numbers[here] - self._starts[number])
        return found

    def mapped(self) -> np.ndarray | None:
        """Return the map of a single part."""
        return self._parts[0].mapped() if len(self._parts) == 1 else None

    def fingerprint(self) -> str:
        """Return a digest of those of the parts, if each has one, as Parquet files do."""
        parts = ""
        for part in self._parts:
            if not (own := part.fingerprint()):
                return ""
            parts += own
        return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()

    def where(self, row: int) -> str:
        """Say which row of which part this is."""
        number = self._number(row)
        return self._parts[number].where(row - self._starts[number])

    def close(self) -> None:
        """Close the files of all parts."""
        for part in self._parts:
            part.close()

    def _closed(self) -> dict[str, Any]:
        return {"_recent": {}}

    def _number(self, row: int) -> int:
        return min(bisect_right(self._starts, row), len(self._parts)) - 1

    def _opened(self, number: int) -> Rows:
        """Return a part that is about to be read; what was read longest ago is closed."""
        with self._lock:
            self._recent.pop(number, None)
            self._recent[number] = None
            if len(self._recent) > OPEN_PARTS:
                oldest = next(iter(self._recent))
                del self._recent[oldest]
                self._parts[oldest].close()
        return self._parts[number]
