"""The interface to vectors that may be larger than memory: rows by range."""

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

BLOCK_BYTES = 4 * 2**20  # `blocks` and `take` read so much at once
GAP_BYTES = 2**15  # a gap between rows that is read along with them: about as fast as another read
PIECE_BYTES = 2**20  # checked at once: it stays in the processor's cache


class Rows(ABC):
    """Vectors on disk, (rows, dimension); in memory is only what was read last.

    Indexed as an array is by a row number, a slice or an array of row numbers; what comes back is an array of
    its own. Raises UserError, with the file and the row, when a file turns out to be damaged. Objects can be
    pickled: the copy opens the files anew.
    """

    label: str  # what errors call it: the path, and what of the file is meant
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2
    paths: tuple[Path, ...] = ()  # the files; none for rows in memory

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows `start` to `stop`, 0 <= start <= stop <= rows, as (stop - start, dimension)."""

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers, in any order, repeated or not: (len(numbers), dimension)."""
        distinct, position = np.unique(numbers, return_inverse=True)
        found = np.empty((len(distinct), self.shape[1]), self.dtype)
        row_bytes = max(1, self.shape[1] * self.dtype.itemsize)
        is_far = np.diff(distinct) > max(1, GAP_BYTES // row_bytes)
        is_next_block = np.diff(distinct // max(1, BLOCK_BYTES // row_bytes)) > 0
        starts = [0, *(np.flatnonzero(is_far | is_next_block) + 1), len(distinct)]
        for start, stop in pairwise(starts) if len(distinct) else ():
            first, last = int(distinct[start]), int(distinct[stop - 1])
            found[start:stop] = self.read(first, last + 1)[distinct[start:stop] - first]
        return found[position]

    def mapped(self) -> np.ndarray | None:
        """Return a copy-on-write memory map of all rows; None where the storage has no such form."""
        return None

    def row_name(self, row: int) -> str:
        """Say which row this is in which file, for an error."""
        return f"{self.label} row {row} (from 0)"

    def fingerprint(self) -> str:
        """Return what tells these rows from others without reading them; "" where only the rows can."""
        return ""

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Give (number of the first row, rows) for all rows, `size` of them or about 4 MiB at a time."""
        size = size or max(1, BLOCK_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        for start in range(0, len(self), size):
            yield start, self.read(start, min(start + size, len(self)))

    def close(self) -> None:
        """Close the files; a later read opens them again."""
        return

    @property
    def nbytes(self) -> int:
        """Size of all rows as an array."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.read(start, max(start, stop))
            return self.take(np.arange(start, stop, step))
        if isinstance(key, int | np.integer):
            row = range(len(self))[int(key)]
            vector: np.ndarray = self.read(row, row + 1)[0]
            return vector
        numbers = np.asarray(key)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise IndexError("index rows by a number, a slice or an array of numbers")
        return self.take(numbers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Give all rows as one array: a memory map where there is one, else in memory."""
        rows = self.mapped()
        if rows is None:
            rows = self.read(0, len(self))
        return rows if dtype is None else rows.astype(dtype, copy=False)


class ArrayRows(Rows):
    """Rows that are in memory, or that NumPy has mapped; or any others that are sliced as an array is."""

    def __init__(self, array: Any, label: str = "the vectors") -> None:
        self._array = array
        self.label, self.shape, self.dtype = label, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self._array[start:stop])

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return rows by numbers, which only an array takes in any order."""
        return super().take(numbers) if self.mapped() is None else self._array[numbers]

    def mapped(self) -> np.ndarray | None:
        return self._array if isinstance(self._array, np.ndarray) else None


class JoinedRows(Rows):
    """Rows of several files end to end, of one dimension and element type; empty parts may be anything."""

    def __init__(self, parts: Sequence[Rows]) -> None:
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
        self.paths = tuple(path for part in filled for path in part.paths)

    def read(self, start: int, stop: int) -> np.ndarray:
        number = self._number(start)
        pieces: list[np.ndarray] = []
        while start < stop or not pieces:
            first, end = self._starts[number], min(stop, self._starts[number + 1])
            pieces.append(self._parts[number].read(start - first, end - first))
            number, start = number + 1, end
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def take(self, numbers: np.ndarray) -> np.ndarray:
        numbers = np.asarray(numbers)
        found = np.empty((len(numbers), self.shape[1]), self.dtype)
        part_of = np.searchsorted(self._starts, numbers, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            found[here] = self._parts[number].take(numbers[here] - self._starts[number])
        return found

    def fingerprint(self) -> str:
        """Return a digest of those of the parts, if each has one, as Parquet files do."""
        parts = [part.fingerprint() for part in self._parts]
        return hashlib.blake2b("".join(parts).encode(), digest_size=16).hexdigest() if all(parts) else ""

    def row_name(self, row: int) -> str:
        number = self._number(row)
        return self._parts[number].row_name(row - self._starts[number])

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def _number(self, row: int) -> int:
        return min(bisect_right(self._starts, row), len(self._parts)) - 1


class FirstRows(Rows):
    """The first rows of others, all of them without `count`; checked as they are read if there is a metric.

    A checked read raises UserError for NaN, infinity or, if the metric is angular, a row of zeros. The map is
    not checked.
    """

    def __init__(self, rows: Rows, count: int | None = None, metric: str | None = None) -> None:
        self._rows, self._metric = rows, metric
        self.label, self.dtype, self.paths = rows.label, rows.dtype, rows.paths
        self.shape = (len(rows) if count is None else count), rows.shape[1]

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._good(self._rows.read(start, stop), range(start, stop))

    def take(self, numbers: np.ndarray) -> np.ndarray:
        return self._good(self._rows.take(numbers), numbers)

    def mapped(self) -> np.ndarray | None:
        rows = self._rows.mapped()
        return None if rows is None else rows[: len(self)]

    def fingerprint(self) -> str:
        """Return that of the others, with the number of rows unless it is that of all."""
        whole = self._rows.fingerprint()
        return f"first {len(self)} of {whole}" if whole and len(self) < len(self._rows) else whole

    def row_name(self, row: int) -> str:
        return self._rows.row_name(row)

    def close(self) -> None:
        self._rows.close()

    def _good(self, block: np.ndarray, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        for row in [] if self._metric is None else _bad_rows(block, self._metric == "angular"):
            vector = block[row]
            wrong = ~np.isfinite(vector)
            if wrong.any():
                found = f"has {'NaN' if np.isnan(vector).any() else 'infinity'} as number {np.argmax(wrong)}"
                expected = "(from 0) where a finite number is expected"
            else:
                found, expected = "is all zeros", "where angular needs a direction"
            name = self.row_name(int(numbers[row]))
            raise UserError(f"{name} {found} {expected}; correct or remove the row")
        return block


def checked(rows: Rows, metric: str = "") -> Rows:
    """Return the same rows; every read of them is checked for this metric."""
    return FirstRows(rows, metric=metric)


def _bad_rows(block: np.ndarray, angular: bool) -> Iterator[int]:
    """Give the first bad row of each piece of a block that has one."""
    size = max(1, PIECE_BYTES // max(1, block.shape[1] * block.itemsize))
    for start in range(0, len(block), size):
        piece = block[start : start + size]
        if _doubtful(piece, angular):
            bad = ~np.isfinite(piece).all(axis=1)
            if angular:
                bad |= ~piece.any(axis=1)
            if bad.any():
                yield start + int(np.argmax(bad))


def _doubtful(piece: np.ndarray, angular: bool) -> bool:
    """Say in one quick pass whether a row may be bad; squares overflow, or vanish, in good rows too."""
    if piece.dtype.kind != "f":
        return angular
    if piece.dtype.itemsize == 2:  # without arithmetic: processors have little of it for float16
        bits = piece.view(np.uint16)
        return bool((bits & 0x7C00 == 0x7C00).any() or (angular and not (bits & 0x7FFF).any(axis=1).all()))
    with np.errstate(all="ignore"):
        if not angular:
            return not np.isfinite(np.einsum("ij,ij->", piece, piece))
        squares = np.einsum("ij,ij->i", piece, piece)
        return not (np.isfinite(squares) & (squares > 0)).all()
