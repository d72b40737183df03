"""What the methods of plug-ins return: clients and their answers, writers, and who observes a server."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = [
    "Answers", "Changes", "Clients", "NoWatch", "PreparedQueries",
    "SearchedArgument", "ServerMonitor", "Watch", "Writable", "Writers", "Writes", "client_facts",
    "server_processes",
]  # fmt: skip


class Answers(Protocol):
    """What one client measured in a run, in the order of sending: arrays of one length, and a sample of ids.

    Times are seconds on a clock that all clients share. `due` is None in a closed loop; in an open one it is
    when each query should have been sent. `rows` is the number of ids of each answer, None where that is not
    known. Where the client was to keep ids, `ids`, (sampled, most ids), -1 for none, are answers to the
    queries whose numbers are `sampled`. Each stands for as many answers of this client as its weight says.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    rows: np.ndarray | None
    sampled: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    cpu_seconds: float  # of the client itself


class Clients(Protocol):
    """A number of clients, connected and ready. After an error they have ended and are of no more use."""

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to send the queries numbered in orders[i], one after the other.

        With `seconds`, each goes through its order again and again for that time.
        """

    def prepare_arrivals(self, due: np.ndarray, numbers: np.ndarray, patience: float) -> None:
        """Open loop: query numbers[i] is to be sent due[i] s after the start, by whichever client is free.

        What no client has taken `patience` s after the last was due is not sent.
        """

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""

    def answers(self) -> Sequence[Answers]:
        """Return what each client measured in the last run; to be called once after each."""

    def close(self) -> None:
        """End all of them."""


@dataclass(frozen=True)
class Changes:
    """Changes to make, in their order; arrays of one length.

    `due` is in s from the start, ascending, or None for as soon as a writer is free. `kinds` are numbers of
    load.workload.KINDS, `ids` those of the rows, `vectors` (n, dimension) their new values, which mean
    nothing for a row to delete.
    """

    due: np.ndarray | None
    kinds: np.ndarray
    ids: np.ndarray
    vectors: np.ndarray


class Writes(Answers, Protocol):
    """What one writer did, with the places of its changes among all as `numbers`."""

    done: np.ndarray  # whether each change found its row


class Writers(Protocol):
    """A number of writers, connected and ready. After an error they have ended and are of no more use."""

    def prepare_changes(self, changes: Iterable[Changes], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, `most` of them at most, until `seconds` s after the start."""

    def run(self, start: float | None = None) -> None:
        """Start all at that moment of perf_counter, and wait until all have come to an end."""

    def count(self) -> int:
        """Return how many changes are made so far in this run."""

    def written(self) -> Sequence[Writes]:
        """Return what each writer did in the last run; to be called once after each."""

    def abort(self) -> None:
        """End them now, from whichever thread."""

    def close(self) -> None:
        """End all of them."""


class Writable(Protocol):
    """A table with its index, which is dropped when it is closed."""

    def open_writers(self, writers: int, beside_queries: bool = False) -> Writers:
        """Start this many."""

    def checkpoint(self) -> None:
        """Have the server write all pages, where it is ours."""

    def vacuum(self) -> float:
        """Vacuum table and index; return the seconds."""

    def reindex(self) -> float | None:
        """Build the index anew; return the seconds, None without an index."""

    def sizes(self) -> dict[str, float]:
        """Return index_size and table_size in KiB."""

    def statistics(self) -> dict[str, Any]:
        """Return what the server counts, such as dead_rows."""

    def close(self) -> None:
        """Drop it."""


class Watch(Protocol):
    """Observes a server in each run, and reports it afterwards.

    It may have `processes()`, which returns in a run the ids of the server's processes on this machine, their
    children left out, or None where the server is elsewhere or not found.
    """

    def running(self) -> AbstractContextManager[None]:
        """Go around the timed part."""

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what was observed, for each of this many queries."""

    def close(self) -> None:
        """End it."""


class NoWatch:
    """Nobody observes what a plug-in does in a run."""

    def running(self) -> AbstractContextManager[None]:
        """Go around the timed part."""
        return nullcontext()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """End it."""


class ServerMonitor(Protocol):
    """Reports on a server from the start of a job to its end, and never raises."""

    levels: frozenset[str]  # names of what is as it is; all else is counted since something began

    def sample(self) -> dict[str, float]:
        """Return what is known now, by names such as postgresql.wal_bytes; empty without a server."""

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, as far as known."""

    def close(self) -> None:
        """End it."""


class SearchedArgument(Protocol):
    """The query parameter that a search for a recall varies, with its values, ascending in effort."""

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]]  # of set_query_arguments, for a value


@dataclass(frozen=True)
class PreparedQueries:
    """A query in three steps; the second is timed."""

    prepare: Callable[[Any, int], Any]
    run: Callable[[], Any]
    results: Callable[[], Any]


def client_facts(clients: Clients) -> dict[str, Any]:
    """Return what clients store next to a run; nothing where they have no facts()."""
    return dict(getattr(clients, "facts", dict)())


def server_processes(watch: Watch) -> Sequence[int] | None:
    """Return the ids of the observed server's processes, without their children; empty without a server.

    None: they are not known, also where the watch has no processes().
    """
    if isinstance(watch, NoWatch):
        return ()
    processes: Callable[[], Sequence[int] | None] | None = getattr(watch, "processes", None)
    return None if processes is None else processes()
