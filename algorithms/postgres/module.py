"""The plug-in that a PostgreSQL access method completes with what is its own.

A subclass says which extension it needs, which index it builds and which settings a query has; loading,
building, reuse, measuring and bookkeeping are here. docs/postgres.md shows one of a screenful.
"""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg

from ..base.module import BaseANN
from . import catalog, machine
from .catalog import BuiltIndex, LoadedTable
from .chunks import load_plan
from .encoding import row_layout
from .environment import given_settings, load_option
from .errors import PostgresError
from .fingerprint import fingerprint
from .progress import index_progress
from .servers import Server, current_server
from .session import QuerySession
from .settings import MIB, QUERY_SESSION, SESSION, build_memory_limit, megabytes
from .tables import PAGE, ChunkedLoad, load_whole, log_bytes, table_bytes

DISTANCE_OPERATORS = {"euclidean": "<->", "angular": "<=>", "ip": "<#>"}
INSUFFICIENT_RESOURCES = "53"  # the class of SQLSTATE: disk full, out of memory
MOST_ROWS = 1 << 31


@dataclass(frozen=True)
class Index:
    """What CREATE INDEX is told, and what is known of it beforehand."""

    method: str
    operator_class: str
    options: Mapping[str, Any] = field(default_factory=dict)
    build_memory: int = 64 * MIB  # bytes of maintenance_work_mem that the build can use
    disk_bytes: int = 0  # about what the index will take, 0 if unknown
    estimate: str = ""  # one line for the user before the build

    def sql(self, name: str, table: str) -> str:
        """Return the statement."""
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        storage = f" WITH ({options})" if options else ""
        name = name.rpartition(".")[2]  # an index is always in its table's schema
        return (
            f"CREATE INDEX {name} ON {table} USING {self.method} (embedding {self.operator_class}){storage}"
        )


class PostgresANN(BaseANN):  # type: ignore[misc, unused-ignore]
    """An approximate index of PostgreSQL behind ann-benchmarks' plug-in interface."""

    streams_training_set = True
    extension = "vector"
    column_type = "vector"

    # What a subclass says

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index to build for so many rows, or raise PostgresError where it cannot be built."""
        raise NotImplementedError

    def note_of_build(self, notice: str) -> dict[str, Any]:
        """Return facts worth keeping in a notice that the server sent during the build."""
        return {}

    # ann-benchmarks' interface

    def __init__(self, metric: str) -> None:
        """Remember the metric; nothing is started before fit."""
        if metric not in DISTANCE_OPERATORS:
            known = ", ".join(DISTANCE_OPERATORS)
            raise PostgresError(f"{type(self).__name__} does not know the metric '{metric}': it has {known}")
        self.metric = metric
        self._operator = DISTANCE_OPERATORS[metric]
        self._query_settings: dict[str, str] = {}
        self._session: QuerySession | None = None
        self._batch_sessions: list[QuerySession] = []
        self._guard: psycopg.Connection[Any] | None = None
        self._count = 0
        self._index_kib = 0.0
        self._facts: dict[str, Any] = {}
        self.set_load_options()

    def set_load_options(self, threads: int | None = None, chunk_rows: int | None = None) -> None:
        """Load over so many connections, so many rows in a transaction; None leaves it to the environment.

        An addition to the interface, called before fit.
        """
        for value, option in ((threads, "--load-threads"), (chunk_rows, "--chunk-size")):
            if value is not None and value < 1:
                raise PostgresError(f"{option} is {value}: give a whole number from 1 on")
        self._load_threads, self._chunk_rows = threads, chunk_rows

    def fit(self, X: Any) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.done()
        rows, dimension = X.shape
        index = self.index(rows, dimension)
        self._server = current_server()
        self._server.start({})
        with self._server.connect() as connection:
            _create_extension(connection, self.extension, self._server.is_ours)
            catalog.prepare(connection)
            _set_all(connection, SESSION)
            mark = fingerprint(X)
            self._guard = self._reserve(catalog.table_name(mark, self.column_type))
            self._table = self._load(connection, X, mark)
            self._built = self._build(connection, index, rows)
            catalog.use_only(connection, self._table.name, self._built.name)
            self._index_kib = _relation_bytes(connection, self._built.name) / 1024
            self._facts["table_size"] = _relation_bytes(connection, self._table.name) / 1024
        self._facts |= {f"{name}_version": version for name, version in self._versions().items()}
        self._facts |= self._built.facts

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

    def prepare_batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Open a connection for each core."""
        self._close_session()
        clients = min(machine.cores(), len(X))
        self._batch_sessions = [self._open_session(X[0], n) for _ in range(clients)]
        self._queries = X

    def run_batch_query(self) -> None:
        """Run all queries, each client every so-manieth one, one after the other: what is timed."""
        queries, sessions = self._queries, self._batch_sessions
        with ThreadPoolExecutor(len(sessions)) as pool:
            shares = list(
                pool.map(
                    lambda i: sessions[i].time_queries(queries[i :: len(sessions)]), range(len(sessions))
                )
            )
        self._batch: list[list[int]] = [[]] * len(queries)
        self._latencies = np.zeros(len(queries))
        for i, (seconds, ids) in enumerate(shares):
            self._latencies[i :: len(sessions)] = seconds
            self._batch[i :: len(sessions)] = ids

    def batch_query(self, X: np.ndarray[Any, Any], n: int) -> None:
        """Prepare and run in one."""
        self.prepare_batch_query(X, n)
        self.run_batch_query()

    def get_batch_results(self) -> list[list[int]]:
        """Return the ids of each query of the last batch."""
        return self._batch

    def get_batch_latencies(self) -> np.ndarray[Any, Any]:
        """Return the seconds of each query of the last batch."""
        return self._latencies

    def get_memory_usage(self) -> float:
        """Size of the index in KiB, 0 before it is built."""
        return self._index_kib

    def get_additional(self) -> dict[str, Any]:
        """What is stored beside the measurements: versions, settings, sizes, parts of the build time."""
        facts = dict(self._facts)
        facts |= {
            "build_time": self._table.load_seconds + self._built.build_seconds,
            "load_time": self._table.load_seconds,
            "index_build_time": self._built.build_seconds,
            "index_size": self._index_kib,
        }
        for session in [self._session, *self._batch_sessions][:2]:
            if session is not None:
                facts["settings"] = json.dumps(session.changed_settings())
        return facts

    def done(self) -> None:
        """Close the connections; the server runs on for the next definition."""
        self._close_session()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    # What subclasses use

    def set_query_settings(self, settings: Mapping[str, Any]) -> None:
        """Apply settings to all queries from now on; the plan is made and checked anew."""
        self._query_settings = {name: str(value) for name, value in settings.items()}
        self._close_session()

    # The rest

    def _close_session(self) -> None:
        for session in [self._session, *self._batch_sessions]:
            if session is not None:
                session.close()
        self._session, self._batch_sessions = None, []

    def _versions(self) -> dict[str, str]:
        """The versions that the index depends on."""
        wanted = ("postgres", "vector", self.extension)
        return {name: version for name, version in self._server.versions().items() if name in wanted}

    def _reserve(self, table: str) -> psycopg.Connection[Any]:
        """Hold the table for this run, until the connection closes: two would park each other's index."""
        guard = self._server.connect()
        row = guard.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [table]).fetchone()
        if row != (True,):
            guard.close()
            raise PostgresError(
                f"another run measures on {table} of this server: wait for it, and leave --parallelism at 1"
            )
        return guard

    def _session_for(self, q: np.ndarray[Any, Any], n: int) -> QuerySession:
        if self._session is None or n != self._count:
            self._close_session()
            self._session = self._open_session(q, n)
            self._count = n
        return self._session

    def _open_session(self, q: np.ndarray[Any, Any], n: int) -> QuerySession:
        table = self._table.name
        session = QuerySession(
            self._server,
            f"SELECT id FROM {table} ORDER BY embedding {self._operator} $1 LIMIT {int(n)}",
            dimension=len(q),
        )
        session.plan(q)  # loads the extension's library
        session.set(QUERY_SESSION | given_settings_of_sessions(session) | self._query_settings)
        session.check_index(q, self._built.name)
        return session

    def _load(self, connection: psycopg.Connection[Any], X: Any, mark: str) -> LoadedTable:
        name = catalog.table_name(mark, self.column_type)
        found = catalog.find_table(connection, name)
        if found:
            return found
        rows, dimension = X.shape
        if rows > MOST_ROWS:
            raise PostgresError(f"{rows:,} rows: ids are int4, which tells {MOST_ROWS:,} apart")
        plan = load_plan(rows, row_layout(dimension, self.column_type).itemsize, *self._load_options())
        is_whole = plan.is_whole(rows) and not catalog.has_unfinished(connection, name)
        needed = table_bytes(rows, dimension, self.column_type)
        if not is_whole:
            needed += log_bytes(rows, dimension, self.column_type) - _relation_bytes(connection, name)
        _check_disk(self._server, needed, "the vectors")
        if is_whole:
            with _plainly(self._server, "loading"):
                seconds = load_whole(connection, name, self.column_type, X, mark)
        else:
            with _plainly(self._server, "loading", "the chunks that were finished are kept"):
                seconds = ChunkedLoad(self._server, name, self.column_type, X).run(connection, mark, plan)
        print(f"loaded {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} rows/s)", flush=True)
        return LoadedTable(name, seconds)

    def _load_options(self) -> tuple[int | None, int | None]:
        threads, chunk_rows = load_option("LOAD_THREADS"), load_option("CHUNK_SIZE")
        return self._load_threads or threads, self._chunk_rows or chunk_rows

    def _build(self, connection: psycopg.Connection[Any], index: Index, rows: int) -> BuiltIndex:
        settings = {
            "maintenance_work_mem": megabytes(self._build_memory(connection, index)),
            "max_parallel_maintenance_workers": _setting(connection, "max_parallel_maintenance_workers"),
        }
        settings |= {name: value for name, value in given_settings().items() if name in settings}
        built_from = {
            "method": index.method,
            "operator_class": index.operator_class,
            "options": {name: str(value) for name, value in index.options.items()},
            "versions": self._versions(),
            "settings": settings,
        }
        name = catalog.index_name(self._table.name, built_from)
        found = catalog.find_index(connection, name)
        self._facts["index_reused"] = found is not None
        if found:
            print(f"index found as built before ({found.build_seconds:.1f} s)", flush=True)
            return found
        if index.estimate:
            print(index.estimate, flush=True)
        _check_disk(self._server, index.disk_bytes, "the index")
        facts: dict[str, Any] = dict(settings)

        def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
            notice = diagnostic.message_primary or ""
            noted = self.note_of_build(notice)
            if noted:
                print(f"note: {notice}", flush=True)
                facts.update(noted)

        connection.add_notice_handler(keep)
        _set_all(connection, settings)
        with _plainly(self._server, "building the index"), connection.transaction():
            started = time.perf_counter()
            with index_progress(self._server, connection.info.backend_pid, rows):
                connection.execute(index.sql(name, self._table.name))
            built = BuiltIndex(name, time.perf_counter() - started, facts)
            catalog.remember_index(connection, built, self._table.name, built_from)
        connection.remove_notice_handler(keep)
        print(f"index built in {built.build_seconds:.1f} s", flush=True)
        return built

    def _build_memory(self, connection: psycopg.Connection[Any], index: Index) -> int:
        if not self._server.is_ours:
            return index.build_memory  # whoever runs that server knows its memory, we do not
        shared_blocks = connection.execute(
            "SELECT setting::int8 FROM pg_settings WHERE name = 'shared_buffers'"
        ).fetchone()
        assert shared_blocks is not None
        return min(index.build_memory, build_memory_limit(machine.memory_bytes(), shared_blocks[0] * PAGE))


@contextmanager
def _plainly(server: Server, doing: str, kept: str = "nothing of it was kept") -> Iterator[None]:
    """Say on one line why the server gave up, and what the transactions inside have left behind."""
    try:
        yield
    except psycopg.DatabaseError as error:
        # A connection that is lost is no OperationalError everywhere, but never has a state.
        is_lost = type(error) is psycopg.DatabaseError and error.sqlstate is None
        if not is_lost and not isinstance(error, psycopg.OperationalError):
            raise
        if (error.sqlstate or "").startswith(INSUFFICIENT_RESOURCES):
            reason = f"ran out of room while {doing}, {kept}: {error.diag.message_primary}"
        else:
            reason = f"broke off while {doing}: {server.last_words() or str(error).splitlines()[0]}"
        raise PostgresError(f"the server {reason}") from None


def _set_all(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, value])


def _relation_bytes(connection: psycopg.Connection[Any], name: str) -> int:
    row = connection.execute("SELECT coalesce(pg_relation_size(to_regclass(%s)), 0)", [name]).fetchone()
    assert row is not None
    return int(row[0])


def _check_disk(server: Server, needed: int, what: str) -> None:
    if server.data_folder is None:
        return
    free = machine.free_disk_bytes(server.data_folder)
    if needed > free:
        raise PostgresError(
            f"{what} need {megabytes(needed)}, the disk of {server.data_folder} has {megabytes(free)} left: "
            "free some, or name a folder on a larger disk in ANN_BENCHMARKS_PG_DATA"
        )


def given_settings_of_sessions(session: QuerySession) -> dict[str, str]:
    """Return those of the user's settings that hold in a session; they win over the profile's there, too."""
    given = given_settings()
    return {name: given[name] for name in session.settable(given)}


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _create_extension(connection: psycopg.Connection[Any], name: str, is_ours: bool) -> None:
    """Create the extension where it is missing; on a server of ours, bring it to the library's version."""
    try:
        there = connection.execute("SELECT FROM pg_extension WHERE extname = %s", [name])
        if there.rowcount == 0:
            connection.execute(f"CREATE EXTENSION {name} CASCADE")
        elif is_ours:
            connection.execute(f"ALTER EXTENSION {name} UPDATE")
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported):
        raise PostgresError(
            f"the server does not have the extension '{name}': install it there, or use another server"
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        raise PostgresError(
            f"this user may not create the extension '{name}': have a superuser run CREATE EXTENSION {name}"
        ) from None
