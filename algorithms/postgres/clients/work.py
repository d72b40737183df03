"""What clients are told and what they tell: plain data that goes from one process to the other."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Member:
    """A client that is ready: its process here, that of its backend, and its session's settings."""

    process: int
    backend: int
    settings: dict[str, str]  # those that are not the server's built-in defaults


@dataclass(frozen=True)
class Asked:
    """The queries that one client sends, by their numbers.

    It stops after the last number of `order`, or goes through it again until `seconds` have passed, if given.
    """

    order: np.ndarray  # (queries,), int
    seconds: float | None = None


@dataclass(frozen=True)
class Answers:
    """What one client measured: when it sent each query and had its answer, and what it was told.

    `numbers`, `sent` and `answered` are (queries,), in the order of asking, times in s on the clock of
    time.perf_counter, which all processes of a machine share. `ids` has the answer to each number that was
    asked, the first time. `cpu_seconds` is what the client itself has taken meanwhile.
    """

    numbers: np.ndarray
    sent: np.ndarray
    answered: np.ndarray
    ids: dict[int, list[int]]
    cpu_seconds: float
