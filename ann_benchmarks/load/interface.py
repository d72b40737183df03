"""What the framework asks of clients, whoever they are: processes of a database plug-in, threads, pgbench."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Answers(Protocol):
    """What one client measured in a run, in the order of asking: four arrays of one length, and the ids.

    Times are seconds on a clock that all clients share. `due` is None in a closed loop; in an open one it is
    when each query should have been sent. `ids` has the neighbours of each number that was asked, the first
    time, where they are kept.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    ids: Mapping[int, Sequence[int]]
    cpu_seconds: float  # of the client itself


class Clients(Protocol):
    """So many clients, connected and ready. After an error they have ended and are of no more use."""

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to ask the queries numbered in orders[i], one after the other.

        With `seconds`, each goes through its order again and again for so long.
        """

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Open loop: query numbers[i] is to be asked due[i] s after the start, by whichever client is free.

        What no client has taken `patience` s after the last was due is not asked any more.
        """

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""

    def answers(self) -> Sequence[Answers]:
        """Return what each client measured in the last run; to be called once after each."""

    def close(self) -> None:
        """End all of them."""


@dataclass(frozen=True)
class ClientAnswers:
    """Answers of the framework's own clients."""

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    ids: dict[int, Any]
    cpu_seconds: float
