"""Several writers of one table, started together, told together, and gone together."""

import mmap
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..clients.book import Book
from ..clients.group import MOST_A_SECOND, ProcessGroup
from . import process
from .feed import Feed
from .process import Report, Until, Writing
from .records import record_layout

READINGS_BYTES = 32  # of a change, in a book


@dataclass(frozen=True)
class Written:
    """What one writer did, in the order of doing: five arrays of one length.

    `numbers` are the places of the changes among all that were handed over; `due` is NaN, or None in all,
    where a change was due at once. Times are in s on the clock of time.perf_counter, which all processes of
    a machine share. `done` is False where no row was changed. `ids` is what clients that ask have instead.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    done: np.ndarray
    ids: Mapping[int, Any]
    cpu_seconds: float  # of the writer itself


class Writers(ProcessGroup):
    """So many processes, each with a connection that has the statements prepared."""

    noun = "writer"

    def __init__(self, writing: Writing, writers: int) -> None:
        """Start them, and return when all are ready."""
        self._seen: list[tuple[mmap.mmap, memoryview[float]]] = []
        self._counts: list[int] = []
        self._has_due = False
        self._most = 0
        ours, stream = socket.socketpair()
        self._turns: tuple[int, ...] = os.pipe()
        os.write(self._turns[1], b".")
        self._feed = Feed(ours, stream, record_layout(writing.dimension, writing.column_type), writers)
        files = [stream.fileno(), *self._turns]
        super().__init__(writers, process.become_writers, [files[0], self._turns], files, writing)

    def prepare_changes(self, changes: Iterable[Any], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, each of them by whichever writer is free; returns when all wait for it.

        `changes` gives blocks with arrays of one length: `due` (s from the word, ascending; None: at once),
        `kinds` (0 inserts, 1 updates, 2 deletes), `ids` and `vectors`, (n, dimension). They are encoded by a
        thread of this process, ahead of the writers. `most` is how many there are at most; none is begun
        `seconds` s after the word.
        """
        self._has_due = has_due
        self._most = max(min(most, round(seconds * MOST_A_SECOND) + 1), 1)
        self._forget()
        with self._all_or_none():
            for book in self._books:
                book.make_room(self._most)
            self._tell([Until(seconds, self._most)] * len(self))
            self._receive(None)
        for book in self._books:
            memory = mmap.mmap(book.file, self._most * READINGS_BYTES)
            self._seen.append((memory, memoryview(memory).cast("d")))
        self._counts = [0] * len(self)
        self._feed.start(changes)

    def run(self, start: float | None = None) -> None:
        """Give the word, and wait until all have come to an end."""
        super().run(start)
        with self._all_or_none():
            self._feed.stop()

    def count(self) -> int:
        """How many changes are made so far in this run; from any one thread."""
        for place, (_, book) in enumerate(self._seen):
            at = self._counts[place]
            while at < self._most and book[2 * at + 1]:
                at += 1
            self._counts[place] = at
        return sum(self._counts)

    def written(self) -> list[Written]:
        """Return what each writer did in the last run; to be called once after each."""
        self._forget()
        with self._all_or_none():
            reports: list[Report] = self._receive(None)
        return [self._of(book, report) for book, report in zip(self._books, reports, strict=True)]

    def _of(self, book: Book, report: Report) -> Written:
        sent, answered, due, numbers = book.read(self._most, report.changes)
        done = ~np.isin(numbers, report.missed)
        return Written(numbers, due if self._has_due else None, sent, answered, done, {}, report.cpu_seconds)

    def _forget(self) -> None:
        seen, self._seen = self._seen, []
        for memory, book in seen:
            book.release()
            memory.close()

    def end(self) -> None:
        """End all of them: a writer ends when its pipe does."""
        self._forget()
        self._feed.close()
        turns, self._turns = self._turns, ()
        for end in turns:
            os.close(end)
        super().end()
