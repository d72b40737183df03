"""Several writers of one table: started together, run together, and ended together."""

import mmap
import os
import socket
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..clients.group import MOST_A_SECOND, ProcessGroup
from ..clients.work import NO_SAMPLE, WriterRun
from . import loop
from .loop import UntilEnd, WriteAccess
from .stream import Feed, record_layout

READINGS_BYTES = 40  # of a change, in a book


class WriterPool(ProcessGroup):
    """A number of processes, each with a connection that has the statements prepared."""

    noun = "writer"

    def __init__(self, access: WriteAccess, writers: int) -> None:
        """Start them, and return when all are ready."""
        self._open_books: list[tuple[mmap.mmap, memoryview[float]]] = []
        self._counts: list[int] = []
        self._has_due = False
        self._room = 0
        ours, stream = socket.socketpair()
        self._turns: tuple[int, ...] = os.pipe()
        os.write(self._turns[1], b".")
        self._feed = Feed(ours, stream, record_layout(access.dimension, access.column_type), writers)
        files = [stream.fileno(), *self._turns]
        super().__init__(writers, loop.become_writers, [files[0], self._turns], files, access)

    def prepare_changes(self, changes: Iterable[Any], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, each by whichever writer is free; returns when all are ready.

        `changes` gives blocks with arrays of one length: `due` (s from the start, ascending; None: at once),
        `kinds` (0 inserts, 1 updates, 2 deletes), `ids` and `vectors`, (n, dimension). They are encoded by a
        thread of this process, ahead of the writers. `most` is how many there are at most; none is begun
        `seconds` s after the start.
        """
        self._has_due = has_due
        self._room = max(min(most, round(seconds * MOST_A_SECOND) + 1), 1)
        self._close_books()
        self._prepare([UntilEnd(seconds, self._room)] * len(self))
        for book in self._books:
            memory = mmap.mmap(book.file, self._room * READINGS_BYTES)
            self._open_books.append((memory, memoryview(memory).cast("d")))
        self._counts = [0] * len(self)
        self._feed.start(changes)

    def run(self, start: float | None = None) -> None:
        """Start the run, and wait until all have come to an end."""
        super().run(start)
        with self._all_or_none():
            self._feed.stop()

    def count(self) -> int:
        """How many changes are made so far in this run; from any one thread."""
        for place, (_, book) in enumerate(self._open_books):
            at = self._counts[place]
            while at < self._room and book[2 * at + 1]:
                at += 1
            self._counts[place] = at
        return sum(self._counts)

    def written(self) -> list[WriterRun]:
        """Return what each writer did in the last run; to be called once after each."""
        self._close_books()
        runs = []
        for book, work, report in self._reports():
            read = book.read(work.room, report.count)
            done = ~np.isin(read.numbers, report.result)
            due = read.due if self._has_due else None
            times = due, read.sent, read.answered
            runs.append(WriterRun(read.numbers, *times, None, *NO_SAMPLE, report.cpu_seconds, done))
        return runs

    def end(self) -> None:
        """End all of them: a writer ends when its pipe does."""
        self._close_books()
        self._feed.close()
        turns, self._turns = self._turns, ()
        for end in turns:
            os.close(end)
        super().end()

    def _close_books(self) -> None:
        open_books, self._open_books = self._open_books, []
        for memory, book in open_books:
            book.release()
            memory.close()
