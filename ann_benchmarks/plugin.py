"""Everything that the framework uses of an algorithm, typed, and what happens where a plug-in lacks it.

`Plugin` and `PluginClass` are the only places that look for a plug-in's optional methods. The protocols say
what such methods return. docs/plugins.md lists them for those who write a plug-in; a test compares the two.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ann_benchmarks.common.errors import UserError

# Methods, class methods and class attributes that a plug-in may have besides those of BaseANN.
OPTIONAL = (
    *("set_query_arguments", "supports_prepared_queries", "streams_training_set", "query_verbose"),
    *("prepare_query", "run_prepared_query", "get_prepared_query_results", "time_queries"),
    *("prepare_batch_query", "run_batch_query", "get_batch_latencies"),
    *("open_clients", "clients_opener", "drivers", "clients_by", "search_range"),
    *("set_load_options", "set_build_options", "serve_only", "set_phase_listener"),
    *("watch_server", "open_monitor", "cool", "recover", "open_writable", "learns_from_rows"),
    *("installed_versions", "use_version", "install_version", "simulated_server"),
    *("install_local", "local_target", "local_state", "instead_of_installing"),
)


class Answers(Protocol):
    """What one client measured in a run, in the order of sending: four arrays of one length, and the ids.

    Times are seconds on a clock that all clients share. `due` is None in a closed loop; in an open one it is
    when each query should have been sent. `ids` has the answer to the first query of each number, where the
    client was to keep them.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    ids: Mapping[int, Sequence[int]]
    cpu_seconds: float  # of the client itself


class Clients(Protocol):
    """A number of clients, connected and ready. After an error they have ended and are of no more use."""

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to send the queries numbered in orders[i], one after the other.

        With `seconds`, each goes through its order again and again for that time.
        """

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
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


class WritableTable(Protocol):
    """A table with its index, which is dropped when it is closed."""

    def open_writers(self, writers: int, beside_queries: bool = False) -> Writers:
        """Start this many."""

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
    """Observes a server in each run, and reports it afterwards."""

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


class SearchRange(Protocol):
    """The query parameter that a search for a recall varies, with its values, ascending in effort."""

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]]  # of set_query_arguments, for a value


@dataclass(frozen=True)
class PreparedQueries:
    """A query in three steps, of which the second is timed."""

    prepare: Callable[[Any, int], Any]
    run: Callable[[], Any]
    results: Callable[[], Any]


class Plugin:
    """An algorithm as the framework uses it; `algorithm` is the plug-in's own object.

    Methods of BaseANN are passed on. Each optional one says here what happens without it.
    """

    def __init__(self, algorithm: Any) -> None:
        """Take the constructed algorithm."""
        self.algorithm = algorithm

    @property
    def query(self) -> Callable[[Any, int], Any]:
        """The plug-in's own method: nothing lies between the framework's clock and the algorithm."""
        query: Callable[[Any, int], Any] = self.algorithm.query
        return query

    def get_batch_results(self) -> Any:
        """Return the last batch's ids, one sequence a query."""
        return self.algorithm.get_batch_results()

    def get_additional(self) -> dict[str, Any]:
        """Return what else to store."""
        return dict(self.algorithm.get_additional())

    def get_memory_usage(self) -> float | None:
        """Return the memory in use now in KiB, None if unknown."""
        usage: float | None = self.algorithm.get_memory_usage()
        return usage

    def done(self) -> None:
        """Release what the algorithm holds."""
        self.algorithm.done()

    def __str__(self) -> str:
        return str(self.algorithm)

    @property
    def class_name(self) -> str:
        """The name of the plug-in's class, for messages."""
        return type(self.algorithm).__name__

    def has(self, name: str) -> bool:
        """Whether the plug-in has an optional method or attribute."""
        return self._optional(name) is not None

    def _optional(self, name: str, default: Any = None) -> Any:
        assert name in OPTIONAL, name
        return getattr(self.algorithm, name, default)

    # Building

    def fit(self, train: Any) -> None:
        """Build the index over the rows."""
        self.algorithm.fit(train)

    @property
    def streams_training_set(self) -> bool:
        """Whether fit takes the rows as they lie on disk; otherwise it is given one array."""
        return bool(self._optional("streams_training_set", False))

    def set_load_options(self, threads: int | None, chunk_rows: int | None) -> None:
        """Pass on what the user requested for loading; without the method, it means nothing."""
        if (threads or chunk_rows) and (set_options := self._optional("set_load_options")):
            set_options(threads, chunk_rows)

    def set_build_options(self, rebuild: bool, prewarm: bool) -> None:
        """Request a new index, or one that stays cold; without the method, fit builds anew anyway."""
        if (rebuild or not prewarm) and (set_options := self._optional("set_build_options")):
            set_options(rebuild, prewarm)

    def serve_only(self) -> None:
        """Have fit find an index that another process built; without the method, fit builds one."""
        if serve := self._optional("serve_only"):
            serve()

    def supports_prepared_queries(self) -> None:
        """Call the method of this name once before fit, as ann-benchmarks does; its result means nothing."""
        if prepares := self._optional("supports_prepared_queries"):
            prepares()

    def set_phase_listener(self, enter: Callable[[str], object]) -> None:
        """Have fit report its phases; without the method, all of it is one."""
        if set_listener := self._optional("set_phase_listener"):
            set_listener(enter)

    # Queries

    def set_query_arguments(self, *arguments: Any) -> None:
        """Set the arguments of a point; UserError where the plug-in takes none."""
        if (set_arguments := self._optional("set_query_arguments")) is None:
            raise UserError(f"{self.class_name} has no method set_query_arguments: leave query_args out")
        set_arguments(*arguments)

    @property
    def search_range(self) -> Callable[[int], SearchRange | None]:
        """What returns the argument to search for a recall of n neighbours; None without a choice."""
        found: Callable[[int], SearchRange | None] = self._optional("search_range", lambda count: None)
        return found

    @property
    def time_queries(self) -> Callable[[Any, int], tuple[Any, Any]] | None:
        """What times its own queries and returns the seconds and ids of each; None: the framework does."""
        found: Callable[[Any, int], tuple[Any, Any]] | None = self._optional("time_queries")
        return found

    @property
    def prepared(self) -> PreparedQueries | None:
        """A query in three steps; None: query is timed as a whole."""
        if (prepare := self._optional("prepare_query")) is None:
            return None
        return PreparedQueries(
            prepare, self._optional("run_prepared_query"), self._optional("get_prepared_query_results")
        )

    def prepare_batch(self, queries: Any, count: int) -> Callable[[], Any]:
        """Prepare a batch; return what is timed, which is all of it without prepare_batch_query."""
        if prepare := self._optional("prepare_batch_query"):
            prepare(queries, count)
            run: Callable[[], Any] = self._optional("run_batch_query")
            return run
        return lambda: self.algorithm.batch_query(queries, count)

    def batch_latencies(self, seconds: float, queries: int) -> list[float]:
        """Return the seconds of each query of the last batch; without the method, the mean of all."""
        if latencies := self._optional("get_batch_latencies"):
            return list(latencies())
        return [seconds / queries] * queries

    # Clients

    @property
    def drivers(self) -> Sequence[str]:
        """Other programs that can make the load, for --driver; none by default."""
        return tuple(self._optional("drivers", ()))

    @property
    def clients_by(self) -> str:
        """How query is called by several clients without open_clients: by "threads" or "processes"."""
        return str(self._optional("clients_by", "threads"))

    @property
    def open_clients(self) -> Callable[..., Clients] | None:
        """What starts clients of its own; None: the framework's call query."""
        found: Callable[..., Clients] | None = self._optional("open_clients")
        return found

    @property
    def clients_opener(self) -> Callable[[Any, int], Callable[[int], Any]] | None:
        """What returns a function that starts clients on another machine; None: they cannot."""
        found: Callable[[Any, int], Callable[[int], Any]] | None = self._optional("clients_opener")
        return found

    # The server behind it

    def watch_server(self) -> Watch:
        """Return what observes the server in runs; without the method, nothing does."""
        watch: Watch = self._optional("watch_server", NoWatch)()
        return watch

    def open_monitor(self) -> ServerMonitor | None:
        """Return what reports on the server; without the method, the machine alone is sampled."""
        monitor: ServerMonitor | None = self._optional("open_monitor", lambda: None)()
        return monitor

    def cool(self) -> bool:
        """Empty all caches; without the method, the caches stay as they are. Return whether it was done."""
        if cool := self._optional("cool"):
            cool()
        return self.has("cool")

    def recover(self) -> None:
        """Be ready for the next point after one has failed; see `can_recover`."""
        self._optional("recover")()

    @property
    def can_recover(self) -> bool:
        """Whether a failed point leaves the others; without recover, it ends the definition."""
        return self.has("recover")

    def open_writable(self, train: Any, rows: int, has_key: bool, autovacuum: bool) -> WritableTable:
        """Return a table of its own to write to; UserError where the plug-in has none."""
        if (open_writable := self._optional("open_writable")) is None:
            raise UserError(f"{self.class_name} cannot be written to: leave --workload out")
        table: WritableTable = open_writable(train, rows, has_key, autovacuum)
        return table

    def learns_from_rows(self, rows: int) -> bool:
        """Whether an index for this many rows has to see some when it is made; by default it does not."""
        return bool(self._optional("learns_from_rows", lambda rows: False)(rows))

    @property
    def reports_extra(self) -> bool:
        """Whether it has query_verbose, which ann-benchmarks stores as expect_extra."""
        return self.has("query_verbose")


class PluginClass:
    """What a plug-in offers before anything is constructed; `constructor` is its class or function."""

    def __init__(self, constructor: Any) -> None:
        """Take the class."""
        self.constructor = constructor

    def _optional(self, name: str, default: Any = None) -> Any:
        assert name in OPTIONAL, name
        return getattr(self.constructor, name, default)

    def construct(self, arguments: Sequence[Any]) -> Plugin:
        """Construct the algorithm with a definition's build arguments."""
        return Plugin(self.constructor(*arguments))

    def installed_versions(self) -> dict[str, str]:
        """Return the versions of what it uses, tried out; without the method, none are known."""
        return dict(self._optional("installed_versions", dict)())

    def use_version(self, version: str) -> None:
        """Use a version of what it measures that is installed here; UserError where there is one only."""
        if (use := self._optional("use_version")) is None:
            raise UserError(
                f"{self.constructor.__name__} has one version here, and a tag names another: leave it out, or"
                " leave --local out, as tags are also of images"
            )
        use(version)

    @property
    def can_be_installed(self) -> bool:
        """Whether install.py --local has something to do."""
        return self._optional("install_local") is not None

    def install_local(self, archive: Path) -> str:
        """Install the release in an archive; return a line that says so."""
        return str(self._optional("install_local")(archive))

    def install_version(self, version: str, archive: Path | None) -> str:
        """Install a version next to the one that is here; return a line that says so."""
        return str(self._optional("install_version")(version, archive))

    def local_target(self) -> dict[str, str]:
        """Return what a release has to be for."""
        return dict(self._optional("local_target")())

    def local_state(self) -> str:
        """Return a line that says what is installed."""
        return str(self._optional("local_state")())

    @property
    def instead_of_installing(self) -> str:
        """What the user can do where nothing can be installed."""
        return str(self._optional("instead_of_installing", ""))

    def simulated_server(self, restart_command: str | None) -> Any:
        """Return the server that tiers simulate (tiers/server.py); UserError where it has none."""
        if (server := self._optional("simulated_server")) is None:
            raise UserError(f"{self.constructor.__name__} runs no server: leave --tiers out")
        return server(restart_command)


def client_facts(clients: Clients) -> dict[str, Any]:
    """Return what clients store next to a run; nothing where they have no facts()."""
    return dict(getattr(clients, "facts", dict)())


def stated_throughput(clients: Clients) -> float | None:
    """Return the queries per second that a driver states of its last run; None: they are counted."""
    rate = getattr(clients, "queries_per_second", None)
    return None if rate is None or math.isnan(rate) else float(rate)
