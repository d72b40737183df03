"""The interface to vectors that may be larger than memory: rows by range."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
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

    def where(self, row: int) -> str:
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
    def ndim(self) -> int:
        """Always 2."""
        return 2

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
            row = int(key) + (len(self) if key < 0 else 0)
            if not 0 <= row < len(self):
                raise IndexError(f"row {key} of {len(self)}")
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
    """Rows that are in memory, or that NumPy has mapped."""

    def __init__(self, array: np.ndarray, label: str = "the vectors") -> None:
        self._array = array
        self.label, self.shape, self.dtype = label, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return a view."""
        return self._array[start:stop]

    def mapped(self) -> np.ndarray | None:
        """Return the array itself."""
        return self._array


class LockedRows(Rows):
    """Rows whose files are read under a lock, and opened anew by a pickled copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.__dict__.update(self._closed())

    def _closed(self) -> dict[str, Any]:
        """Return the attributes that hold open files, as they are when none is open."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files when whoever is reading them has finished."""
        with self._lock:
            self.__dict__.update(self._closed())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **self._closed(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


class RowsOfOthers(Rows):
    """Rows that are read from others: all of them, unless a subclass says otherwise."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.label, self.shape, self.dtype, self.paths = rows.label, rows.shape, rows.dtype, rows.paths

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows as the others do."""
        return self._rows.read(start, stop)

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return rows as the others do."""
        return self._rows.take(numbers)

    def mapped(self) -> np.ndarray | None:
        """Return the others' map."""
        return self._rows.mapped()

    def fingerprint(self) -> str:
        """Return that of the others."""
        return self._rows.fingerprint()

    def where(self, row: int) -> str:
        """Say which row this is, as the others do."""
        return self._rows.where(row)

    def close(self) -> None:
        """Close the others' files."""
        self._rows.close()


class FirstRows(RowsOfOthers):
    """The first rows of others."""

    def __init__(self, rows: Rows, count: int) -> None:
        super().__init__(rows)
        self.shape = (count, rows.shape[1])

    def mapped(self) -> np.ndarray | None:
        """Return the beginning of the others' map."""
        rows = self._rows.mapped()
        return None if rows is None else rows[: len(self)]

    def fingerprint(self) -> str:
        """Return that of the others, with the number of rows."""
        whole = self._rows.fingerprint()
        return f"first {len(self)} of {whole}" if whole else ""


def checked(rows: Rows, metric: str = "") -> Rows:
    """Return the same rows; every read of them raises UserError for NaN, infinity or, if angular, zeros."""
    if isinstance(rows, CheckedRows) and rows.metric == metric:
        return rows
    return CheckedRows(rows, metric)


class CheckedRows(RowsOfOthers):
    """Rows that are checked when they are read; the map is not."""

    def __init__(self, rows: Rows, metric: str) -> None:
        super().__init__(rows)
        self.metric = metric

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows that are good."""
        block = self._rows.read(start, stop)
        self._check(block, lambda row: start + row)
        return block

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return rows that are good."""
        block = self._rows.take(numbers)
        self._check(block, lambda row: int(numbers[row]))
        return block

    def _check(self, block: np.ndarray, number: Callable[[int], int]) -> None:
        for start, bad in _bad_rows(block, self.metric == "angular"):
            row = int(np.argmax(bad))
            vector = block[start + row]
            wrong = ~np.isfinite(vector)
            if wrong.any():
                found = f"has {'NaN' if np.isnan(vector).any() else 'infinity'} as number {np.argmax(wrong)}"
                expected = "(from 0) where a finite number is expected"
            else:
                found, expected = "is all zeros", "where angular needs a direction"
            raise UserError(
                f"{self.where(number(start + row))} {found} {expected}; correct or remove the row"
            )


def _bad_rows(block: np.ndarray, angular: bool) -> Iterator[tuple[int, np.ndarray]]:
    """Give (first row, which rows are bad) of each piece that has bad rows."""
    size = max(1, PIECE_BYTES // max(1, block.shape[1] * block.itemsize))
    for start in range(0, len(block), size):
        piece = block[start : start + size]
        if _doubtful(piece, angular):
            bad = ~np.isfinite(piece).all(axis=1)
            if angular:
                bad |= ~piece.any(axis=1)
            if bad.any():
                yield start, bad


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
