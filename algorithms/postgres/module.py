"""The plug-in that a PostgreSQL access method completes with what is its own.

A subclass describes which extension it needs, which index it builds and which settings a query has; loading,
building, reuse, measuring and bookkeeping are in the parts. docs/plugins.md shows one of a screenful.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg

from .arguments import one_of
from .errors import PostgresError
from .index.building import BuildOptions, Index, IndexHooks, SearchRange, try_preparing
from .index.divisions import DivisionMaker
from .index.fitting import IndexedTable
from .index.querying import QueriedTable
from .index.table_indexes import CHOICES
from .servers import Server, TieredServers
from .servers.caches import warm_index
from .servers.releases import InstallableExtension
from .servers.whereabouts import check_parking
from .statistics.watch import PostgresStatistics
from .table import KINDS, Column, SmallLabelsKind, column_of
from .table.attributed import TEXT, VECTOR
from .table.conditions import labels_column
from .table.loading import LoadOptions
from .writing.table import WritableTable

__all__ = ["Index", "PostgresANN", "SearchRange"]


class PostgresANN(InstallableExtension, QueriedTable):
    """An approximate index of PostgreSQL behind ann-benchmarks' plug-in interface."""

    extension = "vector"
    metrics: tuple[str, ...] = ("euclidean", "angular", "ip")  # of the index
    streams_training_set = True

    def __init__(self, metric: str) -> None:
        if metric not in self.metrics:
            known = ", ".join(self.metrics)
            raise PostgresError(f"{type(self).__name__} has no metric '{metric}': it has {known}")
        self.metric = metric
        self._hooks = IndexHooks(self.create_index, self.index, self.note_of_build, self.prewarm)
        super().__init__(IndexedTable(self.required_extension(), metric, self._hooks))
        self._build_options = BuildOptions()
        self._statistics: PostgresStatistics | None = None

    # What a subclass describes

    def index(self, rows: int, dimension: int) -> Index | None:
        """Return the index to build for this number of rows, or raise PostgresError where it cannot be built.

        `self.server`, `self.connection` and `self.versions` are those of the server. None without an
        index: every query scans all rows.
        """
        raise NotImplementedError

    def column_of(self, X: Any) -> Column:
        """Return the column that holds rows such as those of X, (rows, dimension)."""
        return column_of(X, self.metric)

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Create the index, by this statement or otherwise; return facts worth keeping.

        What is done here is timed, in one transaction with all that records the index. `name` and `table`
        have their schema; `self.training_set` is what the table was loaded from.
        """
        self.connection.execute(statement)
        return {}

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Return facts worth keeping in a message that the server sent `seconds` s after the build began."""
        return {}

    def prewarm(self, index: str) -> str | None:
        """Bring the index into the server's memory, before the first query; return how, None: not at all."""
        return warm_index(self.connection, index)

    def learns_from_rows(self, rows: int) -> bool:
        """Whether an index for this number of rows needs some when it is made, as for its clusters."""
        return False

    def search_range(self, count: int) -> SearchRange | None:
        """Return which query argument to search for a recall of `count` neighbours, and its values.

        None: every query is exact.
        """
        return None

    def scanned_share(self) -> float | None:
        """Return which share of all rows a query reads by its arguments; None where these do not say it."""
        return None

    @classmethod
    def simulated_server(cls) -> Any:
        """Return the servers that tiers give less memory, CPUs and I/O."""
        return TieredServers()

    # What a subclass uses

    def use_attribute_index(self, choice: str) -> None:
        """Have indexes of the attributes, too: none; auto, as serves each; btree or gin alone."""
        choice = one_of("attribute_index", choice, CHOICES)
        self._build_options = replace(self._build_options, attribute_index=choice)

    def use_division(self, divide: DivisionMaker | None) -> None:
        """Have several indexes of vectors in place of one; `divide` says which, None: one."""
        self._build_options = replace(self._build_options, divide=divide)

    def use_small_labels(self) -> None:
        """Have labels in columns of smallint[], in a table that other indexes do not use."""
        kinds = {**KINDS, "labels": SmallLabelsKind()}
        self._build_options = replace(self._build_options, kinds=kinds)

    def labels_of_filters(self) -> str:
        """Return the one column of labels that the queries' filters compare, in SQL."""
        return labels_column(self._build_options.attributes, self._build_options.matches)

    @property
    def server(self) -> Server:
        """The server, from fit on."""
        return self._indexed.current.server

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection that the index is built or warmed over."""
        return self._indexed.current.connection

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the server and of the extensions that the index depends on."""
        return self._indexed.current.versions

    @property
    def column(self) -> Column:
        """The column of the table, from fit on."""
        return self._indexed.current.column

    @property
    def training_set(self) -> Any:
        """The rows that the index is built from, (rows, dimension), read by range; None after the build."""
        return self._indexed.current.training_set

    @property
    def table_name(self) -> str | None:
        """The name of the table, with its schema; None before it is there."""
        return self._indexed.current.names()[0]

    @property
    def has_found_index(self) -> bool:
        """Whether the last fit has found the index as an earlier run has built it."""
        return bool(self._indexed.facts().get("index_reused"))

    @property
    def index_name(self) -> str | None:
        """The name of the index, with its schema; None before it is there, or without one."""
        return self._indexed.current.names()[1]

    # What the framework calls

    def fit(self, X: Any) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.done()
        self._indexed.make(X, self.column_of(X), self._build_options)

    def get_memory_usage(self) -> float:
        """Size of the index in KiB, 0 before it is built."""
        return self._indexed.index_kib

    def most_clients(self) -> int | None:
        """Return how many connections the server takes, or this machine's files allow; None: not known."""
        return self._indexed.most_clients()

    def set_row_attributes(self, attributes: Any) -> None:
        """Load these beside the vectors; from now on, a query has a vector and a filter."""
        self._build_options = replace(self._build_options, attributes=attributes)

    def set_query_filters(self, matches: Any) -> None:
        """Build for queries that have these filters; a mapping of each to the number of rows that pass."""
        self._build_options = replace(self._build_options, matches=matches)

    def set_payload(self, payload: str) -> None:
        """Have queries return this beside the ids: text or vector."""
        payload = one_of("payload", payload, (TEXT, VECTOR))
        self._build_options = replace(self._build_options, payload=payload)

    def set_servers(self, kind: str, **arguments: Any) -> None:
        """Have servers of a kind answer queries, as docs/plugins.md describes: shards, replicas or pooler."""
        from .topology import make_table  # a query to one server takes nothing of it

        self._indexed = make_table(kind, self.required_extension(), self.metric, self._hooks, arguments)

    def set_load_options(self, threads: int | None = None, chunk_rows: int | None = None) -> None:
        """Load over `threads` connections, `chunk_rows` in a transaction; None: no choice."""
        self._build_options = replace(self._build_options, load=LoadOptions(threads, chunk_rows))

    def set_build_options(self, rebuild: bool, prewarm: bool = True) -> None:
        """Build the index anew although one is there, and leave it cold if its start is to be measured so."""
        self._build_options = replace(self._build_options, rebuilds=rebuild, prewarms=prewarm)

    def serve_only(self) -> None:
        """Find the index, however much memory it was built with, and build none."""
        self._build_options = replace(self._build_options, only_serves=True)

    def set_phase_listener(self, enter: Callable[[str], object]) -> None:
        """Have `enter` called with the name of each phase of fit."""
        self._indexed.enter_phase = enter

    def open_writable(self, X: Any, rows: int, has_key: bool = False) -> WritableTable:
        """In place of fit, make a table to write to, which is dropped when it is closed.

        The index is made for `rows`; X has the first of them, perhaps none. With `has_key`, rows can be
        found by their id.
        """
        self.done()
        column, options = self.column_of(X), self._build_options
        if options.attributes is not None:
            raise PostgresError("a table that is written to has no attributes: leave --filter out")
        return self._indexed.make_writable(X, rows, column, has_key, options)

    def watch_server(self) -> Any:
        """Return what observes the server, or all servers, during a run."""
        return self._indexed.watch(self.flush_statistics)

    def open_monitor(self) -> PostgresStatistics:
        """Return what samples the server's statistics, once it is started."""
        self._statistics = PostgresStatistics(
            lambda: getattr(self._indexed.current, "server", None), lambda: self._indexed.current.names()
        )
        return self._statistics

    def cool(self) -> None:
        """Have the next query find nothing in memory: a server of ours is restarted, its files uncached."""
        self.done()
        self._indexed.cool()
        self.recover()

    def rest(self) -> None:
        """Let other indexes be measured; the processes of clients rest, too."""
        self.end_sessions()
        self._indexed.release()

    def resume(self) -> bool:
        """Be the index that queries use; return whether others may have pushed it out of the caches."""
        self.use_settings(self._contender_settings)
        return self._indexed.resume()

    @classmethod
    def check_server(cls) -> None:
        """Raise PostgresError where the server cannot be used, or lacks or refuses what the plug-in needs."""
        extension = cls.required_extension()
        extension.check()
        try_preparing(extension)

    @classmethod
    def check_turns(cls) -> None:
        """Raise PostgresError where the indexes of a table cannot take turns: an account has to park them."""
        check_parking()

    @classmethod
    def servers_environment(cls, kind: str, **arguments: Any) -> dict[str, Any]:
        """Return what server_environment does, of where results of servers of a kind would be measured."""
        from .topology import servers_facts

        known = servers_facts(kind, cls.required_extension().all_names, arguments)
        return {**known, "version_names": cls._version_names()}

    @staticmethod
    def drop_leftovers(connection: psycopg.Connection[Any]) -> None:
        """Drop what Citus has distributed for a run that was killed."""
        from .topology import load

        load("citus.drop_abandoned")(connection)

    def recover(self) -> None:
        """Be ready for the next point after one has failed, for whatever reason."""
        self.done()
        self._indexed.recover()
        if self._statistics is not None:
            self._statistics.revived()

    def get_additional(self) -> dict[str, Any]:
        """Return what is stored with the measurements, and what people call the versions in it."""
        share = self.scanned_share()
        scanned = {} if share is None else {"scanned_share": share}
        return super().get_additional() | {"version_names": self._version_names()} | scanned
