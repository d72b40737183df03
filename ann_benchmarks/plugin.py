"""What the framework asks of clients, whoever they are: processes of a database plug-in, threads, pgbench."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
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


"""What the framework asks of a table that can be written to, and of those who write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Changes:
    """Changes to make, in their order; arrays of one length.

    `due` is in s from the start, ascending, or None for as soon as somebody is free. `kinds` are numbers of
    request.KINDS, `ids` those of the rows, `vectors` (n, dimension) what they get; nobody looks at that of a
    row to delete.
    """

    due: np.ndarray | None
    kinds: np.ndarray
    ids: np.ndarray
    vectors: np.ndarray


class Written(Protocol):
    """What one writer did: as Answers of clients that ask, and whether each change found its row.

    `numbers` are the places of the changes among all that were handed over.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    done: np.ndarray
    ids: Mapping[int, Any]
    cpu_seconds: float


class Writers(Protocol):
    """So many writers, connected and ready. After an error they have ended and are of no more use."""

    def prepare_changes(self, changes: Iterable[Changes], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, `most` of them at most, until `seconds` s after the start."""

    def run(self, start: float | None = None) -> None:
        """Start all at that moment of perf_counter, and wait until all have come to an end."""

    def count(self) -> int:
        """How many changes are made so far in this run."""

    def written(self) -> Sequence[Written]:
        """Return what each writer did in the last run; to be called once after each."""

    def abort(self) -> None:
        """End them now, from whichever thread."""

    def close(self) -> None:
        """End all of them."""


class Table(Protocol):
    """A table with its index, which is dropped when it is closed."""

    def open_writers(self, writers: int, beside_queries: bool = False) -> Writers:
        """Start so many."""

    def checkpoint(self) -> None:
        """Have the server write all pages, where it is ours."""

    def vacuum(self) -> float:
        """Vacuum table and index; return the seconds."""

    def reindex(self) -> float | None:
        """Build the index anew; return the seconds, None where there is none."""

    def sizes(self) -> dict[str, float]:
        """Return index_size and table_size in KiB."""

    def statistics(self) -> dict[str, Any]:
        """Return what the server counts, such as dead_rows."""

    def close(self) -> None:
        """Drop it."""


class Watch(Protocol):
    """Sees what happens in each run, and says it afterwards."""

    def running(self) -> AbstractContextManager[None]:
        """Go around the timed part."""

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what was seen, for each of so many queries."""

    def close(self) -> None:
        """End it."""


class SearchRange(Protocol):
    """Which query parameter a plug-in offers for a search, and with which values, ascending in effort."""

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]]  # of set_query_arguments, for a value
