"""A table of vectors with its index: loaded, built or found, warmed, and reserved for one run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from .. import catalog
from ..environment import contender_settings, given_settings, ram_bytes
from ..errors import PostgresError
from ..forms import RowSource, query_sql, whole_form
from ..servers import Server
from ..servers.caches import Warmth, cache_files, cache_room, fitting_relations, is_short, take_over
from ..servers.extension import RequiredExtension
from ..servers.machine import drop_from_cache, memory_bytes
from ..servers.whereabouts import facts_of, known_facts, most_connections
from ..session.session import SessionFacts
from ..session.statement import QueryStatement, load_libraries
from ..settings import SESSION, apply_settings, check_contender, settable
from ..statistics.watch import ServerWatch
from ..table import Column
from ..table.attributed import RETURNED_COLUMNS
from ..table.conditions import conditions_of
from ..table.loading import load_table
from ..table.tables import check_encoding, check_type, table_bytes
from ..writing.table import BUILD_SETTINGS, WritableTable, drop_leftovers
from .building import BuildOptions, BuildPlace, Index, IndexHooks
from .table_indexes import TableIndexes, write_build, write_query


class IndexedTable:
    """What fit makes: a server that runs, a table on it, an index on that, and facts about all of them."""

    server: Server
    connection: psycopg.Connection[Any]  # while the table is made, and the index warmed
    column: Column  # of the table, from fit on
    _servers = 1  # they share the machine's memory
    _where = ""  # what tells the servers that answer from others that have the same table

    def __init__(self, extension: RequiredExtension, metric: str, hooks: IndexHooks) -> None:
        self.enter_phase: Callable[[str], object] = lambda phase: None  # called with each phase's name
        self.table: catalog.LoadedTable | None = None
        self.versions: dict[str, str] = {}  # the index depends on them
        self.training_set: Any = None  # while an index is built
        self._extension, self._metric = extension, metric
        self._hooks = hooks.entering(lambda: self.enter_phase("build"))
        self._options = BuildOptions()
        self._indexes = TableIndexes(self._options, 0, self._hooks)
        self._session_settings: dict[str, str] = {}
        self._facts: dict[str, Any] = {}
        self._guard: psycopg.Connection[Any] | None = None
        self._warmth = Warmth()
        self._ram = math.inf  # bytes that the server has for what it caches, as far as is known
        self._cached: Sequence[str] = ()  # relations that the system's cache is to hold

    @classmethod
    def known_facts(cls, extensions: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what would be stored of the servers, and their versions, without starting one of ours."""
        return known_facts(extensions)

    def make(self, X: Any, column: Column, options: BuildOptions) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.column, self._options = column, options
        self._indexes = indexes = TableIndexes(options, X.shape[0], self._hooks)
        with self._preparing(X.shape[0]) as (connection, index):
            mark = indexes.table_mark(X)
            name = catalog.table_name(mark, column.type_name)
            self._reserve(name)
            if index and index.disk_bytes and not catalog.find_table(connection, name):
                table = table_bytes(X.shape[0], indexes.table_column(column))
                self.server.check_disk(table + index.disk_bytes, "the vectors and their index")
            self.table = self._load(connection, X, mark, name)
            self._build(connection, index, X)
            catalog.use_only(connection, name, indexes.names)
            self._finish(connection)

    def make_writable(
        self, X: Any, rows: int, column: Column, has_key: bool, options: BuildOptions
    ) -> WritableTable:
        """Load the vectors into a table of its own, build its index for `rows`, and return it to write to."""
        self.column, self._options = column, options
        self._indexes = TableIndexes(options, rows, self._hooks)
        self.server = self._start_server()
        table = WritableTable(self.server, column, self._extension.all_names)
        try:
            with self._preparing(rows) as (connection, index):
                self._reserve(table.name)
                self.table = self._load(connection, X, "", table.name)
                table.prepare(connection, has_key)
                if has_key:
                    # The index has its rows in order; through the key they would have to be sorted.
                    self._session_settings |= {"enable_sort": "off"}
                self._build(connection, index, X)
                self._finish(connection)
            table.finish(self._indexes.whole, self._session_settings)
        except BaseException:
            table.close()
            raise
        return table

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        """Return the query for the n nearest rows, in a session with these settings; `q` is one of many."""
        assert self.table is not None
        vector, conditions = q, None
        if self._options.attributes is not None:
            vector, conditions = q.vector, conditions_of(q.filter, self._indexes.kinds)
        where = conditions.clause if conditions else ""
        source = RowSource(self.table.name, where, RETURNED_COLUMNS[self._options.payload])
        statement = QueryStatement(
            self.server.connection_parameters(),
            query_sql(source, self._form, n, self._metric, self.column, rerank),
            self.column,
            self.column.literal(vector),
            {**self._indexes.session_of_queries(bool(where)), **self._session_settings, **settings},
            self._indexes.whole.name if self._indexes.whole else None,
            self._extension.all_names,
            conditions,
            conditions.literals(q.filter) if conditions else (),
            bool(source.beside),
            n,
        )
        self._facts["query_sql"] = write_query(statement, self.table.name)
        return statement

    @property
    def current(self) -> "IndexedTable":
        """The table that a plug-in sees: where several servers have one each, that which is being made."""
        return self

    def most_clients(self) -> int | None:
        """Return how many clients can be connected at the same time, None where that is not known yet."""
        return most_connections()

    @property
    def session_settings(self) -> Mapping[str, str]:
        """What the user has set for the sessions."""
        return self._session_settings

    def names(self) -> tuple[str | None, str | None]:
        """The names of the table and of the index, None before they are there."""
        index = self._indexes.whole
        return self.table.name if self.table else None, index.name if index else None

    @property
    def index_kib(self) -> float:
        """Size of all indexes in KiB, 0 before they are built."""
        return self._indexes.kib

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it: versions, sizes, parts of the build time."""
        load, build = self.table.load_seconds if self.table else 0.0, self._indexes.seconds
        return {
            **self._facts,
            **self._indexes.facts,
            "build_time": load + build,
            "load_time": load,
            "index_build_time": build,
            "index_size": self._indexes.kib,
        }

    def cool(self) -> None:
        """Stop a server of ours and drop its files from the system's cache."""
        folder = self.server.data_folder
        self.server.stop()
        self._facts["caches_dropped"] = folder is not None and drop_from_cache(folder)

    def resume(self) -> bool:
        """Reserve the table again, and have queries use this index; return whether memory is short for it.

        It is where others have been used since, and may have pushed table and index out of the caches. What
        fits is then read again.
        """
        assert self.table is not None
        self.server.adapt()
        self._reserve(self.table.name)
        names = self._indexes.names
        with self.server.explaining("switching the index"), self.server.connect() as connection:
            if gone := [name for name in names if not catalog.exists(connection, name)]:
                raise PostgresError(
                    f"{gone[0]} is gone: another run has dropped it, or a user who may not park it"
                )
            catalog.use_only(connection, self.table.name, names)
            settable(connection, given_settings(), self.server.is_ours)
            is_new = take_over(self.server, [self.table.name, *names], self._where)
            room = cache_room(connection, self._ram)
            is_pushed_out = is_new and is_short(connection, room)
            if is_pushed_out and (fitting := fitting_relations(connection, self.table.name, names, room)):
                self._cached = fitting
                self._forget_warmth()
        self._prewarm()
        return is_pushed_out

    def check_sessions(self, sessions: Sequence[SessionFacts]) -> None:
        """Raise PostgresError where those of clients differ in their settings: on one server, none does."""

    def watch(self, flush: Callable[[], None]) -> Any:
        """Return what observes the server in runs; `flush` has sessions flush their statistics after one."""
        assert self.table is not None
        return ServerWatch(self.server, self.table.name, self.names()[1], flush)

    def recover(self) -> None:
        """Have the server answer, reserve the table again, and warm the index if the server has lost it."""
        self.server.revive()
        assert self.table is not None
        self._reserve(self.table.name)
        self._prewarm()

    def release(self) -> None:
        """Let other runs use the table; the server runs on."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    @contextmanager
    def _preparing(self, rows: int) -> Iterator[tuple[psycopg.Connection[Any], Index | None]]:
        """Connect to a server that has all it takes; give the connection and the index to be built."""
        self.column.check_dimension()
        self.enter_phase("start")
        self._facts = {}
        self.server = self._start_server()
        self._ram = ram_bytes() or (memory_bytes() / self._servers if self.server.is_ours else math.inf)
        with self.server.explaining("preparing the index"), self.server.connect() as connection:
            self._extension.create(self.server, connection)
            catalog.prepare(connection)
            drop_leftovers(connection)
            apply_settings(connection, SESSION)
            load_libraries(connection, self._extension.all_names)
            self._session_settings = given = settable(connection, given_settings(), self.server.is_ours)
            self.connection, versions = connection, self.server.versions()
            names = ("postgres", *self._extension.all_names)
            self.versions = {name: version for name, version in versions.items() if name in names}
            check_type(connection, self.column, self.versions["vector"])
            self._facts |= facts_of(self.server, connection)
            own = contender_settings()  # also for the build
            apply_settings(connection, {name: value for name, value in given.items() if name in own})
            check_contender(connection, own)
            index = self._hooks.index(rows, self.column.dimension)
            self._form = index.form if index else whole_form(self._metric, self.column)
            yield connection, index
        self._facts |= {f"{name}_version": version for name, version in self.versions.items()}

    def _start_server(self) -> Server:
        return self._extension.start_server()

    def _reserve(self, table: str) -> None:
        """Hold the table for this run, until the connection closes: two would park each other's index."""
        problem = f"another run measures on {table} of this server: wait for it, and leave --parallelism at 1"
        self._guard = catalog.held(self.server.connect(), table, problem)

    def _load(self, connection: psycopg.Connection[Any], X: Any, mark: str, name: str) -> catalog.LoadedTable:
        if found := catalog.find_table(connection, name):
            return found
        self.enter_phase("load")
        if self._options.attributes is not None:
            check_encoding(connection)
        column = self._indexes.table_column(self.column)
        return load_table(self.server, connection, name, column, X, mark, self._options.load)

    def _build(self, connection: psycopg.Connection[Any], index: Index | None, X: Any) -> None:
        assert self.table is not None
        self.training_set = X
        place = BuildPlace(self.server, connection, self.versions)
        self._indexes.build(place, self.table.name, index, (X.shape[0], self.column.dimension))
        self.training_set = None
        if index is not None and self._indexes.whole is not None:
            settings = {name: self._indexes.facts.get(name) for name in BUILD_SETTINGS}
            self._facts["build_sql"] = write_build(self._extension, self.column, index, settings)

    def _finish(self, connection: psycopg.Connection[Any]) -> None:
        assert self.table is not None
        self._cached = [self.table.name, *self._indexes.names]
        take_over(self.server, self._cached, self._where)
        self._warmth.forget()
        self._prewarm()
        self._facts["table_size"] = catalog.relation_bytes(connection, self.table.name) / 1024

    def _forget_warmth(self) -> None:
        self._warmth.forget()

    def _prewarm(self) -> None:
        """Have the memory of the server filled, unless it was since it started."""

        def fill(connection: psycopg.Connection[Any]) -> None:
            self.enter_phase("prewarm")
            self._warm(connection)

        if self._indexes.names and self._options.prewarms:
            self._warmth.ensure(self.server, fill)

    def _warm(self, connection: psycopg.Connection[Any]) -> None:
        """Bring table and indexes into the memory of a server, and into the system's."""
        self.connection = connection  # by which the plug-in warms its index
        cache_files(connection, self._cached)
        self._indexes.prewarm(connection, self._hooks.prewarm)
