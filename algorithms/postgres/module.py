"""The plug-in that a PostgreSQL access method completes with what is its own.

A subclass says which extension it needs, which index it builds and which settings a query has; loading,
building, reuse, measuring and bookkeeping are here. docs/postgres.md shows one of a screenful.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import psycopg

from ..base.module import BaseANN
from . import catalog, machine
from .building import IndexBuild
from .catalog import BuiltIndex, LoadedTable
from .chunks import load_plan
from .clients import Answers, ClientPool, RestingClients, open_clients
from .cooling import drop_from_cache
from .disk import check_disk, relation_bytes
from .encoding import row_layout
from .environment import given_settings, load_option
from .errors import PostgresError
from .extension import create_extension, start_with
from .failures import plainly
from .fingerprint import fingerprint
from .forms import DISTANCE_OPERATORS, query_sql, vector_form
from .index import Index
from .installable import InstallableExtension
from .prewarming import warm_index
from .search import SearchRange
from .servers import Server, current_server
from .session import Asking, QuerySession
from .settings import QUERY_SESSION, SESSION, apply_settings, megabytes, settable
from .tables import ChunkedLoad, create_table, load_whole, log_bytes, table_bytes
from .watching import PostgresStatistics, ServerWatch
from .writing import WritableTable, drop_leftovers

__all__ = ["Index", "PostgresANN", "SearchRange"]

MOST_ROWS = 1 << 31
RESERVE_SECONDS = 3.0
MOST_DIMENSIONS = 16_000  # of pgvector's types


class PostgresANN(InstallableExtension, BaseANN):  # type: ignore[misc, unused-ignore]
    """An approximate index of PostgreSQL behind ann-benchmarks' plug-in interface."""

    streams_training_set = True
    extension = "vector"
    builds_on: tuple[str, ...] = ()  # other extensions whose versions an index depends on
    library = ""  # of the extension, where the server has to load it when it starts
    column_type = "vector"
    drivers = ("pgbench",)  # other programs that can make the load

    # What a subclass says

    def index(self, rows: int, dimension: int) -> Index | None:
        """Return the index to build for so many rows, or raise PostgresError where it cannot be built.

        `self.versions` and `self.connection` are those of the server. None: there is no index, every query
        looks at all rows.
        """
        raise NotImplementedError

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Create the index, by this statement or otherwise; return facts worth keeping.

        What is done here is timed, in one transaction with all that remembers the index. `name` and `table`
        have their schema; `self.training_set` is what the table was loaded from.
        """
        self.connection.execute(statement)
        return {}

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Return facts worth keeping in what the server said so many seconds after the build began."""
        return {}

    def prewarm(self, index: str) -> str | None:
        """Bring the index into the server's memory, before the first query; return how, None: not at all."""
        return warm_index(self.connection, index)

    def learns_from_rows(self, rows: int) -> bool:
        """Whether an index for so many rows has to see some when it is made, as for its clusters.

        An addition to the interface.
        """
        return False

    def search_range(self, count: int) -> SearchRange | None:
        """Say which query argument to search for a recall of `count` neighbours, and between which values.

        An addition to the interface. None: there is none, every query is exact.
        """
        return None

    # ann-benchmarks' interface

    def __init__(self, metric: str) -> None:
        """Remember the metric; nothing is started before fit."""
        if metric not in DISTANCE_OPERATORS:
            known = ", ".join(DISTANCE_OPERATORS)
            raise PostgresError(f"{type(self).__name__} does not know the metric '{metric}': it has {known}")
        self.metric = metric
        self.versions: dict[str, str] = {}  # of the server and the extension, known in fit
        self.training_set: Any = None  # (rows, dimension), while an index is built
        self._query_settings: dict[str, str] = {}
        self._rerank: int | None = None
        self._session: QuerySession | None = None
        self._clients: ClientPool | None = None
        self._resting = RestingClients()
        self._answers: list[Answers] = []
        self._settings: dict[str, str] = {}
        self._session_settings: dict[str, str] = {}
        self._plan = ""
        self._start_mark: Any = None
        self._guard: psycopg.Connection[Any] | None = None
        self._count = 0
        self._index_kib = 0.0
        self._facts: dict[str, Any] = {}
        self._only_serves = False
        self._statistics: PostgresStatistics | None = None
        self.set_phase_listener(lambda phase: None)
        self.set_build_options(False)
        self.set_load_options()

    @classmethod
    def installed_versions(cls) -> dict[str, str]:
        """Start the server and create the extension; return the versions of both, and of what it needs.

        An addition to the interface, for what install.py says of an image.
        """
        server = cls._started_server()
        try:
            with server.connect() as connection:
                create_extension(server, connection, cls.extension)
            return server.versions()
        finally:
            server.stop()

    @classmethod
    def simulated_server(cls, restart_command: str | None) -> Any:
        """Return the server that tiers give less memory, CPUs and I/O; an addition to the interface."""
        from .tiering import tiered_server

        return tiered_server(restart_command)

    def set_load_options(self, threads: int | None = None, chunk_rows: int | None = None) -> None:
        """Load over so many connections, so many rows in a transaction; None leaves it to the environment.

        An addition to the interface, called before fit.
        """
        for value, option in ((threads, "--load-threads"), (chunk_rows, "--chunk-size")):
            if value is not None and value < 1:
                raise PostgresError(f"{option} is {value}: give a whole number from 1 on")
        self._load_threads, self._chunk_rows = threads, chunk_rows

    def set_build_options(self, rebuild: bool, prewarm: bool = True) -> None:
        """Build the index anew although one is there, and leave it cold if its start is to be measured so.

        An addition to the interface, called before fit.
        """
        self._rebuilds, self._prewarms = rebuild, prewarm

    def serve_only(self) -> None:
        """Find the index as it was built, with whatever memory that had, and build none.

        An addition to the interface, called before fit where a smaller server is to be measured than the one
        that has built.
        """
        self._only_serves = True

    def set_phase_listener(self, enter: Callable[[str], object]) -> None:
        """Take what is to be told the name of each phase of fit; an addition to the interface."""
        self._enter_phase = enter

    def fit(self, X: Any) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.done()
        rows, dimension = X.shape
        with self._preparing(rows, dimension) as (connection, index):
            mark = fingerprint(X)
            name = catalog.table_name(mark, self.column_type)
            self._guard = self._reserve(name)
            self._table = self._load(connection, X, mark, name)
            self._built = self._build_from(connection, index, X)
            catalog.use_only(connection, self._table.name, self._built.name if self._built else None)
            self._look_at_built(connection)

    def open_writable(
        self, X: Any, rows: int, has_key: bool = False, autovacuum: bool = False
    ) -> WritableTable:
        """Load the vectors into a table of its own, which may be written to, and build its index.

        An addition to the interface, in place of fit; who closes the table drops it. The index is made for
        `rows`, of which X, perhaps none, are the first. With `has_key`, rows can be found by their id.
        """
        self.done()
        self._server = self._started_server()
        table = WritableTable(self._server, self.column_type, X.shape[1])
        try:
            if autovacuum:
                table.turn_autovacuum_on()
            with self._preparing(rows, X.shape[1]) as (connection, index):
                self._guard = self._reserve(table.name)
                self._table = self._load(connection, X, "", table.name)
                if not autovacuum:
                    table.turn_autovacuum_off(connection)
                if has_key:
                    table.add_key(connection)
                    # The index has its rows in order; through the key they would have to be sorted.
                    self._session_settings = self._session_settings | {"enable_sort": "off"}
                self._built = self._build_from(connection, index, X)
                self._look_at_built(connection)
            table.finish(self._built, self._session_settings)
        except BaseException:
            table.close()
            raise
        return table

    def time_queries(self, X: np.ndarray[Any, Any], n: int) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
        """Run all queries, one after the other; return the seconds and the ids of each.

        Our addition to the interface, for a client that costs next to nothing; ann-benchmarks uses the
        three methods that follow.
        """
        return self._session_for(X[0], n).time_queries(X)

    def prepare_query(self, q: np.ndarray[Any, Any], n: int) -> None:
        """Encode the vector, which is the client's work and not the server's."""
        session = self._session_for(q, n)
        self._parameter = session.encode(q)
        self._run, self._decode = session.run, session.ids

    def run_prepared_query(self) -> None:
        """Send it and wait for the answer: what is timed."""
        self._result = self._run(self._parameter)

    def get_prepared_query_results(self) -> list[int]:
        """Decode the answer."""
        return self._decode(self._result)

    def query(self, q: np.ndarray[Any, Any], n: int) -> list[int]:
        """Encode, run and decode one query."""
        self.prepare_query(q, n)
        self.run_prepared_query()
        return self.get_prepared_query_results()

    def open_clients(self, X: np.ndarray[Any, Any], n: int, clients: int, **how: Any) -> Any:
        """Start so many clients, each a process with a connection, that ask for the n nearest of rows of X.

        An addition to the interface, for load by many clients at once. `how` names another driver:
        clients/__init__.py.
        """
        self._close_session()
        opened = open_clients(self._server, self._asking(X.shape[1], n), X, clients, self._resting, **how)
        if opened.members:
            self._settings, self._plan = opened.members[0].settings, opened.members[0].plan
        return opened

    def clients_opener(self, X: np.ndarray[Any, Any], n: int) -> Callable[[int], ClientPool]:
        """Return what starts so many clients on another machine; an addition to the interface."""
        self._close_session()
        return partial(ClientPool, self._asking(X.shape[1], n), X)

    def watch_server(self) -> ServerWatch:
        """Watch what the server does in a run; an addition to the interface."""
        index = self._built.name if self._built else None
        return ServerWatch(self._server, self._table.name, index, self._flush_statistics)

    def open_monitor(self) -> PostgresStatistics:
        """Return what tells the server's statistics, once it is started; an addition to the interface."""
        self._statistics = PostgresStatistics(lambda: getattr(self, "_server", None), self._relations)
        return self._statistics

    def cool(self) -> None:
        """Have the next query find nothing in memory: a server of ours is restarted, and its files forgotten.

        An addition to the interface, for measuring cold starts.
        """
        self.done()
        if self._server.is_ours:
            self._server.stop()
            assert self._server.data_folder is not None
            dropped = drop_from_cache(self._server.data_folder)
            self._facts["caches_dropped"] = dropped
        else:
            self._facts["caches_dropped"] = False
        self.recover()

    def recover(self) -> None:
        """Be ready for the next point after one has failed, whatever it was; an addition to the interface."""
        self.done()
        self._server.revive()
        if self._statistics is not None:
            self._statistics.revived()
        self._guard = self._reserve(self._table.name)
        if self._server.start_mark() != self._start_mark:
            self._prewarm()  # what it had in memory is gone

    def prepare_batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Start a client for each core, each a process with a connection."""
        self._close_session()
        clients = min(machine.cores(), len(X))
        self._clients = self.open_clients(X, n, clients)
        self._clients.prepare([np.arange(i, len(X), clients) for i in range(clients)])

    def run_batch_query(self) -> None:
        """Run all queries, each client every so-manieth one, one after the other: what is timed."""
        assert self._clients is not None
        self._answers = []
        self._clients.run()

    def batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Prepare and run in one."""
        self.prepare_batch_query(X, n)
        self.run_batch_query()

    def get_batch_results(self) -> list[list[int]]:
        """Return the ids of each query of the last batch."""
        ids = {number: found for answers in self._batch() for number, found in answers.ids.items()}
        return [ids[number] for number in range(len(ids))]

    def get_batch_latencies(self) -> np.ndarray[Any, Any]:
        """Return the seconds of each query of the last batch."""
        latencies = np.empty(sum(len(answers.numbers) for answers in self._batch()))
        for answers in self._batch():
            latencies[answers.numbers] = answers.answered - answers.sent
        return latencies

    def get_memory_usage(self) -> float:
        """Size of the index in KiB, 0 before it is built."""
        return self._index_kib

    def get_additional(self) -> dict[str, Any]:
        """What is stored beside the measurements: versions, settings, sizes, parts of the build time."""
        build_seconds = self._built.build_seconds if self._built else 0.0
        facts = dict(self._facts)
        facts |= {
            "build_time": self._table.load_seconds + build_seconds,
            "load_time": self._table.load_seconds,
            "index_build_time": build_seconds,
            "index_size": self._index_kib,
        }
        if self._session is not None:
            self._settings, self._plan = self._session.changed_settings(), self._session.plan_text
        if self._settings:
            facts |= {"settings": json.dumps(self._settings), "plan": self._plan}
        return facts

    def done(self) -> None:
        """Close the connections; the server runs on for the next definition."""
        self._close_session()
        self._resting.end()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    # What subclasses use

    def set_query_settings(self, settings: Mapping[str, Any], rerank: int | None = None) -> None:
        """Apply settings to all queries from now on; the plan is made and checked anew.

        With `rerank`, the index finds so many candidates, which are sorted by their exact distances.
        """
        self._query_settings = {name: str(value) for name, value in settings.items()}
        self._rerank = rerank
        self._close_session()

    # The rest

    @classmethod
    def _started_server(cls) -> Server:
        server = current_server()
        start_with(server, cls.extension, cls.library, cls.__module__.split(".")[-2], cls.builds_on)
        return server

    def _batch(self) -> list[Answers]:
        if not self._answers:
            assert self._clients is not None
            self._answers = self._clients.answers()
        return self._answers

    def _flush_statistics(self) -> None:
        if self._session is not None:
            self._session.flush_statistics()

    def _relations(self) -> tuple[str | None, str | None]:
        """The names of the table and of the index, None before they are there."""
        table, built = getattr(self, "_table", None), getattr(self, "_built", None)
        return table and table.name, built and built.name

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._clients is not None:
            self._clients.close()
        self._session, self._clients = None, None

    def _versions(self) -> dict[str, str]:
        """The versions that the index depends on."""
        wanted = ("postgres", "vector", self.extension, *self.builds_on)
        return {name: version for name, version in self._server.versions().items() if name in wanted}

    def _prewarm(self) -> None:
        self._start_mark = self._server.start_mark()
        if self._built and self._prewarms:
            self._enter_phase("prewarm")
            with self._server.connect() as self.connection:
                if how := self.prewarm(self._built.name):  # ann-benchmarks cannot store None
                    self._facts["prewarmed_by"] = how

    def _reserve(self, table: str) -> psycopg.Connection[Any]:
        """Hold the table for this run, until the connection closes: two would park each other's index."""
        guard = self._server.connect()
        deadline = time.monotonic() + RESERVE_SECONDS
        lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        while (row := guard.execute(lock, [table]).fetchone()) != (True,) and time.monotonic() < deadline:
            time.sleep(0.1)  # it may be our own of a moment ago, of which the server has not seen the end
        if row != (True,):
            guard.close()
            raise PostgresError(
                f"another run measures on {table} of this server: wait for it, and leave --parallelism at 1"
            )
        return guard

    def _session_for(self, q: np.ndarray[Any, Any], n: int) -> QuerySession:
        if self._session is None or n != self._count:
            self._close_session()
            self._session = QuerySession(self._asking(len(q), n), q)
            self._count = n
        return self._session

    def _asking(self, dimension: int, n: int) -> Asking:
        if self._rerank is not None and self._rerank < n:
            raise PostgresError(
                f"re-ranking {self._rerank} candidates cannot give {n} neighbours: re-rank {n} or more"
            )
        return Asking(
            self._server.connection_parameters(),
            query_sql(self._table.name, self._form, int(n), self.metric, self._rerank),
            dimension,
            self._session_settings | self._query_settings,
            self._built.name if self._built else None,
        )

    @contextmanager
    def _preparing(self, rows: int, dimension: int) -> Iterator[tuple[psycopg.Connection[Any], Index | None]]:
        """Connect to a server that has all it takes; give the connection and the index to be built."""
        if dimension > MOST_DIMENSIONS:
            raise PostgresError(
                f"a column of type {self.column_type} holds up to {MOST_DIMENSIONS:,} dimensions, "
                f"these have {dimension:,}: use vectors of fewer"
            )
        self._enter_phase("start")
        self._server = self._started_server()
        self._facts, self._index_kib = {}, 0.0
        with plainly(self._server, "preparing the index"), self._server.connect() as connection:
            for extension in (*self.builds_on, self.extension):
                create_extension(self._server, connection, extension)
            catalog.prepare(connection)
            drop_leftovers(connection)
            apply_settings(connection, SESSION)
            connection.execute("SELECT '[1]'::vector")  # loads pgvector's library, and so its settings
            given = settable(connection, given_settings(), self._server.is_ours)
            self._session_settings = QUERY_SESSION | given
            self.connection = connection
            self.versions = self._versions()
            index = self.index(rows, dimension)
            self._form = index.form if index else vector_form(self.metric, dimension)
            yield connection, index
        self._facts |= {f"{name}_version": version for name, version in self.versions.items()}

    def _build_from(
        self, connection: psycopg.Connection[Any], index: Index | None, X: Any
    ) -> BuiltIndex | None:
        self.training_set = X
        built = self._build(connection, index, X.shape[0]) if index else None
        self.training_set = None
        return built

    def _look_at_built(self, connection: psycopg.Connection[Any]) -> None:
        if self._built:
            self._index_kib = relation_bytes(connection, self._built.name) / 1024
            self._facts |= self._built.facts
            self._prewarm()
        self._facts["table_size"] = relation_bytes(connection, self._table.name) / 1024

    def _load(self, connection: psycopg.Connection[Any], X: Any, mark: str, name: str) -> LoadedTable:
        found = catalog.find_table(connection, name)
        if found:
            return found
        self._enter_phase("load")
        rows, dimension = X.shape
        if not rows:
            create_table(connection, name, self.column_type, dimension)
            return LoadedTable(name, 0.0)
        if rows > MOST_ROWS:
            raise PostgresError(f"{rows:,} rows: ids are int4, which tells {MOST_ROWS:,} apart")
        plan = load_plan(rows, row_layout(dimension, self.column_type).itemsize, *self._load_options())
        is_whole = plan.is_whole(rows) and not catalog.has_unfinished(connection, name)
        needed = table_bytes(rows, dimension, self.column_type)
        if not is_whole:
            needed += log_bytes(rows, dimension, self.column_type) - relation_bytes(connection, name)
        check_disk(self._server, needed, "the vectors")
        if is_whole:
            with plainly(self._server, "loading"):
                seconds = load_whole(connection, name, self.column_type, X, mark)
        else:
            with plainly(self._server, "loading", "the chunks that were finished are kept"):
                seconds = ChunkedLoad(self._server, name, self.column_type, X).run(connection, mark, plan)
        print(f"loaded {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} rows/s)", flush=True)
        return LoadedTable(name, seconds)

    def _load_options(self) -> tuple[int | None, int | None]:
        threads, chunk_rows = load_option("LOAD_THREADS"), load_option("CHUNK_SIZE")
        return self._load_threads or threads, self._chunk_rows or chunk_rows

    def _build(self, connection: psycopg.Connection[Any], index: Index, rows: int) -> BuiltIndex:
        self._enter_phase("build")
        build = IndexBuild(self._server, connection, self._table.name, index, self.versions)
        if self._only_serves:
            built, is_found = build.found(), True
        else:
            built, is_found = build.run(rows, self.create_index, self.note_of_build, self._rebuilds)
        self._facts["index_reused"] = is_found
        if is_found:
            print(f"index found as built before ({built.build_seconds:.1f} s)", flush=True)
            return built
        parts = (
            f" ({clustering:.1f} s clustering)" if (clustering := built.facts.get("clustering_time")) else ""
        )
        size = megabytes(relation_bytes(connection, built.name))
        estimate = f" (estimate: {megabytes(index.disk_bytes)})" if index.disk_bytes else ""
        print(f"index built in {built.build_seconds:.1f} s{parts}, {size}{estimate}", flush=True)
        return built
