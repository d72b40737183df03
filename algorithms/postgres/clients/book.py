"""The memory that a member writes its readings of the clock into, and that its parent reads."""

import mmap
import os
import tempfile
from typing import NamedTuple

import numpy as np

_READINGS = 5  # of a query: sent, answered, due, number, rows


class Readings(NamedTuple):
    """What a book has of each query, each (queries,): times in s, and the rows of its answer."""

    sent: np.ndarray
    answered: np.ndarray
    due: np.ndarray
    numbers: np.ndarray
    rows: np.ndarray


class Book:
    """Memory of two processes, by a file that has no name: nothing is left of it, however they end.

    Its pages are there when they are first written to, so that room for more queries than come costs nothing.
    """

    def __init__(self, file: int) -> None:
        """Take the file descriptor of a book that is there."""
        self.file = file
        self._memory: mmap.mmap | None = None

    @classmethod
    def new(cls) -> "Book":
        """Make one, without any room yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("ann-book"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def make_room(self, queries: int) -> None:
        """Make it as large as this number of queries needs; to be done before the others open it."""
        self._unmap()
        os.ftruncate(self.file, 0)
        os.ftruncate(self.file, max(queries, 1) * _READINGS * 8)

    def writer(self, queries: int) -> "memoryview[float]":
        """Open it for writing: sent and answered of each query, then due and number of each, then its rows.

        Each of the three parts has room for all queries, and begins where the one before it ends.
        """
        return memoryview(self._map(queries)).cast("d")

    def read(self, room: int, queries: int) -> Readings:
        """Return what was written of that many queries."""
        values = np.frombuffer(self._map(room))
        times = values[: 2 * queries].reshape(-1, 2).copy()
        arrivals = values[2 * room : 2 * (room + queries)].reshape(-1, 2).copy()
        rows = values[4 * room : 4 * room + queries].astype(np.int64)
        del values  # which would keep the memory mapped
        self._unmap()
        return Readings(times[:, 0], times[:, 1], arrivals[:, 0], arrivals[:, 1].astype(np.int64), rows)

    def close(self) -> None:
        """Close the file."""
        self._unmap()
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        if self.file >= 0:
            os.close(self.file)

    def _map(self, queries: int) -> mmap.mmap:
        self._unmap()
        self._memory = mmap.mmap(self.file, max(queries, 1) * _READINGS * 8)
        return self._memory

    def _unmap(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
