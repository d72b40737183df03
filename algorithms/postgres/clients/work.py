"""What clients are told and what they tell: plain data that goes from one process to the other."""

import struct
from dataclasses import dataclass

import numpy as np

ARRIVAL = struct.Struct("dq")  # when a query is due, in s from the start, and its number


@dataclass(frozen=True)
class Member:
    """A client that is ready: its process here, that of its backend, and its session's settings and plan."""

    process: int
    backend: int
    settings: dict[str, str]  # those that are not the server's built-in defaults
    plan: str  # JSON


@dataclass(frozen=True)
class InOrder:
    """Closed loop: the queries that one client sends, by their numbers.

    It stops after the last number of `order`, or goes through it again until `seconds` have passed, if given.
    """

    order: np.ndarray  # (queries,), int
    seconds: float | None
    keeps_ids: bool
    most: int  # queries that there is room for in the book


@dataclass(frozen=True)
class WhenDue:
    """Open loop: the client takes one arrival after the other from the file that all of them read."""

    until: float  # s from the start; nothing is sent later
    keeps_ids: bool
    most: int


@dataclass(frozen=True)
class Done:
    """What a client reports beside what it has written into its book."""

    queries: int
    ids: dict[int, list[int]]
    cpu_seconds: float


@dataclass(frozen=True)
class Answers:
    """What one client measured: when each query was due and sent and had its answer, and what that was.

    `numbers`, `sent` and `answered` are (queries,), in the order of asking, times in s on the clock of
    time.perf_counter, which all processes of a machine share; `due` is alike, or None in a closed loop. `ids`
    has the answer to each number that was asked, the first time, if the client was to keep them.
    `cpu_seconds` is what the client itself has taken meanwhile.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    ids: dict[int, list[int]]
    cpu_seconds: float
