"""What passes between a group and its members: their work, their readings of the clock, their reports."""

import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

ARRIVAL = struct.Struct("dq")  # when a query is due, in s from the start, and its number
_READINGS = 5  # of a query: sent, answered, due, number, rows


@dataclass(frozen=True)
class InOrder:
    """Closed loop: the queries that one client sends, by their numbers.

    It stops after the last number of `order`, or goes through it again until `seconds` have passed, if given.
    """

    order: np.ndarray  # (queries,), int
    seconds: float | None
    own: np.ndarray  # ascending places in the order; the answers to the queries there are kept
    slots: int  # of the even sample of answers
    room: int  # queries that the book has room for


@dataclass(frozen=True)
class WhenDue:
    """Open loop: the client takes one arrival after the other from the file that all of them read.

    Where the answer is to be kept, the number of an arrival is the complement of the query's (~number).
    """

    until: float  # s from the start; nothing is sent later
    slots: int  # of the even sample of answers
    room: int


@dataclass(frozen=True)
class UntilEnd:
    """One writer's work: to take changes until `seconds` s after the start, or until its book is full."""

    seconds: float
    room: int  # changes that the book has room for


@dataclass(frozen=True)
class MemberReport:
    """What a member reports besides what it has written into its book.

    `result` is a client's sample of answers with their payload, or the numbers of the changes that a
    writer made in vain.
    """

    count: int  # of queries or changes
    result: Any
    cpu_seconds: float


@dataclass(frozen=True)
class MemberFailure:
    """What a process sends before it ends early: which of its members failed, if one did, and why."""

    member: int | None  # its place among those of the process
    reason: str


@dataclass(frozen=True)
class ClientRun:
    """What one client measured: when each query was due, sent and answered, and its answer.

    `numbers`, `sent` and `answered` are (queries,), in the order of sending, times in s on the clock of
    time.perf_counter, which all processes of a machine share; `due` is alike, or None in a closed loop.
    `rows` is the number of rows of each answer, or None where that is not known. `ids`, (sampled, most rows),
    -1 for none, are answers to the queries whose numbers are `sampled`, of which each stands for as many as
    its weight says. `cpu_seconds` is what the client itself has used meanwhile.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    rows: np.ndarray | None
    sampled: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    cpu_seconds: float


_NONE = np.empty(0, np.int64)
NO_SAMPLE = (_NONE, _NONE.reshape(0, 0), _NONE)  # of answers: the numbers, ids and weights


@dataclass(frozen=True)
class WriterRun(ClientRun):
    """What one writer did, in the order of doing: five arrays of one length, and no rows.

    `numbers` are the places of the changes among all that were handed over; `due` is NaN, or None in all,
    where a change was due at once. `done` is False where no row was changed.
    """

    done: np.ndarray


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

    @classmethod
    def new(cls) -> "Book":
        """Make one, without any room yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("ann-book"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def make_room(self, queries: int) -> None:
        """Make it as large as this number of queries needs; to be done before the others open it."""
        os.ftruncate(self.file, 0)
        os.ftruncate(self.file, max(queries, 1) * _READINGS * 8)

    def writer(self, queries: int) -> "memoryview[float]":
        """Open it: sent and answered of each query, then due and number of each, then its rows.

        Each of the three parts has room for all queries, and begins where the one before it ends.
        """
        return memoryview(mmap.mmap(self.file, max(queries, 1) * _READINGS * 8)).cast("d")

    def read(self, room: int, queries: int) -> Readings:
        """Return what was written of that many queries."""
        values = np.asarray(self.writer(room))
        times = values[: 2 * queries].reshape(-1, 2).copy()
        arrivals = values[2 * room : 2 * (room + queries)].reshape(-1, 2).copy()
        rows = values[4 * room : 4 * room + queries].astype(np.int64)
        return Readings(times[:, 0], times[:, 1], arrivals[:, 0], arrivals[:, 1].astype(np.int64), rows)

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()


def write_parameters(file: int, queries: Any, encode: Callable[[Any], tuple[Any, ...]]) -> None:
    """Write the parameters of all queries, which `encode` returns, into a file.

    It has how many parameters a query has, how many there are in all, where the bytes of each end, all of
    them int64, and the bytes.
    """
    parameters = [bytes(value) for query in queries for value in encode(query)]
    ends = np.cumsum([len(parameter) for parameter in parameters], dtype=np.int64)
    of_each = len(parameters) // max(len(queries), 1)
    write_all(file, np.concatenate([[of_each, len(ends)], ends]).tobytes())
    write_all(file, b"".join(parameters))


def read_parameters(file: int) -> Sequence[tuple[memoryview, ...]]:
    """Return what was written, each as the parameters of a statement; the memory is that of the file."""
    content = np.memmap(f"/dev/fd/{file}", np.uint8, "r")
    of_each, count = content[:16].view(np.int64).tolist()
    ends = content[16 : 16 + 8 * count].view(np.int64).tolist()
    whole = content.data[16 + 8 * count :]
    every = iter([whole[start:end] for start, end in zip([0, *ends], ends, strict=False)])
    return [*zip(*[every] * of_each, strict=True)]


def write_all(file: int, content: bytes) -> None:
    """Write the whole of it, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
