"""What members of a group are given to do and what they report: plain data between processes."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

ARRIVAL = struct.Struct("dq")  # when a query is due, in s from the start, and its number


@dataclass(frozen=True)
class InOrder:
    """Closed loop: the queries that one client sends, by their numbers.

    It stops after the last number of `order`, or goes through it again until `seconds` have passed, if given.
    """

    order: np.ndarray  # (queries,), int
    seconds: float | None
    own: np.ndarray  # places in the order whose answers are kept, ascending
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
class MemberReport:
    """What a member reports besides what it has written into its book.

    `result` is a client's sample of answers, or the numbers of the changes that a writer made in vain.
    """

    count: int  # of queries or changes
    result: Any
    cpu_seconds: float


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
