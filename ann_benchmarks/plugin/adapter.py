"""Everything that the framework uses of an algorithm, typed, and what happens where a plug-in lacks it.

`Plugin` and `PluginClass` are the only ones that look for a plug-in's optional methods. plugin_class.py
names them, and protocols.py says what they return.
"""

from collections.abc import Callable, Mapping
from multiprocessing.pool import ThreadPool
from typing import Any

from ann_benchmarks.common.errors import UserError

from . import protocols
from .plugin_class import needed, optional, require


class Plugin:
    """An algorithm as the framework uses it; `algorithm` is the plug-in's own object.

    Methods of BaseANN are passed on. Each optional one says here what happens without it.
    """

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.query_arguments: tuple[Any, ...] = ()  # those set last
        # All queries go this way instead of its own; what a plug-in has for several at once is not used.
        self._way: Callable[[Any, int], Any] | None = None
        self._batch: list[Any] = []  # the answers to the last one that went this way

    @property
    def query(self) -> Callable[[Any, int], Any]:
        """The plug-in's own method: nothing lies between the framework's clock and the algorithm.

        Filtered queries go the way that they were given.
        """
        query: Callable[[Any, int], Any] = self._way or self.algorithm.query
        return query

    def get_batch_results(self) -> Any:
        """Return the last batch's ids, one sequence a query."""
        return self._batch if self._way else self.algorithm.get_batch_results()

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
        return optional(self.algorithm, name, default)

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

    @property
    def has_found_index(self) -> bool:
        """Whether the last fit has found an index that an earlier run has built; by default it has not."""
        return bool(self._optional("has_found_index", False))

    # Filters

    def require(self, need: str) -> None:
        """Raise UserError where it cannot have what is named in NEEDS."""
        require(self.algorithm, self.class_name, need)

    def take_filters(self, attributes: Mapping[str, Any]) -> None:
        """Hand over the rows' attributes before fit: each query has a vector and a filter from then on.

        A plug-in with filtered_query gets every query by that, and without it as it gets others.
        """
        self.require("filters")
        if set_attributes := self._optional("set_row_attributes"):
            set_attributes(attributes)
        if (filtered := self._optional("filtered_query")) is not None:
            self._way = lambda query, count: filtered(query.vector, query.filter, count)

    def take_query_filters(self, matches: Mapping[Any, int]) -> None:
        """Name the filters that queries will have, each with the number of rows that pass, before fit.

        Without the method, what is built does not depend on them.
        """
        if set_filters := self._optional("set_query_filters"):
            set_filters(matches)

    def set_payload(self, payload: str) -> None:
        """Have queries return the text or the vector of each row, too; UserError where they cannot."""
        self.require("payload")
        self._optional("set_payload")(payload)

    def set_query_arguments(self, *arguments: Any) -> None:
        """Set the arguments of a point; UserError where the plug-in takes none."""
        if (set_arguments := self._optional("set_query_arguments")) is None:
            raise UserError(f"{self.class_name} has no method set_query_arguments: leave query_args out")
        set_arguments(*arguments)
        self.query_arguments = arguments

    @property
    def search_range(self) -> Callable[[int], protocols.SearchedArgument | None]:
        """What returns the argument to search for a recall of n neighbours; None without a choice."""
        found: Callable[[int], protocols.SearchedArgument | None] = self._optional(
            "search_range", lambda count: None
        )
        return found

    def is_exact(self, count: int) -> bool:
        """Whether every answer of n neighbours is exact, as its search_range says; else it is not known."""
        return self.has("search_range") and self.search_range(count) is None

    @property
    def time_queries(self) -> Callable[[Any, int], tuple[Any, Any]] | None:
        """What times its own queries and returns the seconds and ids of each; None: the framework does."""
        found: Callable[[Any, int], tuple[Any, Any]] | None = self._optional("time_queries")
        return None if self._way else found

    @property
    def prepared(self) -> protocols.PreparedQueries | None:
        """A query in three steps; None: query is timed as a whole."""
        if self._way or (prepare := self._optional("prepare_query")) is None:
            return None
        names = ("run_prepared_query", "get_prepared_query_results")
        return protocols.PreparedQueries(
            prepare, *(needed(self.algorithm, name, "prepare_query") for name in names)
        )

    def prepare_batch(self, queries: Any, count: int) -> Callable[[], Any]:
        """Prepare a batch; return what is timed, which is all of it without prepare_batch_query."""
        if (way := self._way) is not None:
            return lambda: self._answer_at_once(way, queries, count)
        if prepare := self._optional("prepare_batch_query"):
            prepare(queries, count)
            run: Callable[[], Any] = needed(self.algorithm, "run_batch_query", "prepare_batch_query")
            return run
        return lambda: self.algorithm.batch_query(queries, count)

    def _answer_at_once(self, way: Callable[[Any, int], Any], queries: Any, count: int) -> None:
        """Answer a batch on one thread a core, as BaseANN does."""
        with ThreadPool() as pool:
            self._batch = pool.map(lambda query: way(query, count), queries)

    def batch_latencies(self, seconds: float, queries: int) -> list[float]:
        """Return the seconds of each query of the last batch; without the method, the mean of all."""
        if self._way is None and (latencies := self._optional("get_batch_latencies")):
            return list(latencies())
        return [seconds / queries] * queries

    # Clients

    def check_clients(self, clients: int) -> None:
        """Raise UserError for more clients than the plug-in can have here; without most_clients, none are."""
        most: int | None = self._optional("most_clients", lambda: None)()
        if most is not None and clients > most:
            raise UserError(f"{self.class_name} can have {most:,} clients here, not {clients:,}: give fewer")

    @property
    def open_clients(self) -> Callable[..., protocols.Clients] | None:
        """What starts clients of its own; None: the framework's call query."""
        found: Callable[..., protocols.Clients] | None = self._optional("open_clients")
        return None if self._way else found

    # The server behind it

    def watch_server(self) -> protocols.Watch:
        """Return what observes the server in runs; without the method, nothing does."""
        watch: protocols.Watch = self._optional("watch_server", protocols.NoWatch)()
        return watch

    def open_monitor(self) -> protocols.ServerMonitor | None:
        """Return what reports on the server; without the method, the machine alone is sampled."""
        monitor: protocols.ServerMonitor | None = self._optional("open_monitor", lambda: None)()
        return monitor

    def cool(self) -> bool:
        """Empty all caches; without the method, the caches stay as they are. Return whether it was done."""
        if cool := self._optional("cool"):
            cool()
        return self.has("cool")

    def use_settings(self, settings: Mapping[str, str]) -> None:
        """Have its server run with these settings; UserError where a plug-in runs none."""
        if use := self._optional("use_settings"):
            use(settings)
        elif settings:
            raise UserError(f"{self.class_name} has no server's settings: leave --setting out")

    def set_servers(self, kind: str, arguments: Mapping[str, Any]) -> None:
        """Have these servers answer queries; "": one alone. UserError where a plug-in has no others."""
        if kind:
            self.require(kind)
            self._optional("set_servers")(kind, **arguments)

    def rest(self) -> None:
        """Let other contenders work between two turns; without the method, it stays as it is."""
        if rest := self._optional("rest"):
            rest()

    def resume(self) -> bool:
        """Be ready for the next turn after a rest; return whether others may have emptied its caches.

        Without the method it is ready, and they have not.
        """
        resume = self._optional("resume")
        return bool(resume()) if resume else False

    def recover(self) -> None:
        """Be ready for the next point after one has failed; see `can_recover`."""
        self._optional("recover")()

    @property
    def can_recover(self) -> bool:
        """Whether a failed point leaves the others; without recover, it ends the definition."""
        return self.has("recover")

    def open_writable(self, train: Any, rows: int, has_key: bool) -> protocols.Writable:
        """Return a table of its own to write to; UserError where the plug-in has none."""
        if (open_writable := self._optional("open_writable")) is None:
            raise UserError(f"{self.class_name} cannot be written to: leave --workload out")
        if (table := open_writable(train, rows, has_key)) is None:
            raise UserError(f"open_writable of {self.class_name} returned no table")
        writable: protocols.Writable = table
        return writable

    def learns_from_rows(self, rows: int) -> bool:
        """Whether an index for this many rows has to see some when it is made; by default it does not."""
        return bool(self._optional("learns_from_rows", lambda rows: False)(rows))
