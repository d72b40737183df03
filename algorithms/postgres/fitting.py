"""A table of vectors with its index: loaded, built or found, warmed, and reserved for one run."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from . import catalog
from .building import Index, IndexBuild, IndexHooks
from .catalog import BuiltIndex, LoadedTable, relation_bytes
from .chunks import LoadOptions, load_table
from .columns import AttributedColumn, Column, NamedAttributes, attribute_kinds
from .environment import contender_settings, given_settings
from .errors import PostgresError
from .extension import RequiredExtension
from .filtering.conditions import conditions_of
from .filtering.indexes import NONE, AttributeIndexes
from .forms import query_sql, whole_form
from .machine import drop_from_cache
from .servers import Server
from .settings import FILTERED_SESSION, QUERY_SESSION, SESSION, apply_settings, settable
from .statement import QueryStatement, load_libraries
from .tables import check_encoding, fingerprint
from .whereabouts import facts_of
from .writing import WritableTable, drop_leftovers

RESERVE_SECONDS = 3.0


@dataclass(frozen=True)
class BuildOptions:
    """How the user has the table loaded and the index built."""

    load: LoadOptions = field(default_factory=LoadOptions)
    rebuilds: bool = False  # although the index is there
    prewarms: bool = True
    only_serves: bool = False  # the index was built before, with any amount of memory
    attributes: NamedAttributes | None = None  # of the rows, beside their vectors
    attribute_index: str = NONE  # which indexes there are of them


class IndexedTable:
    """What fit makes: a server that runs, a table on it, an index on that, and facts about all of them."""

    server: Server
    connection: psycopg.Connection[Any]  # while the table is made, and the index warmed
    column: Column  # of the table, from fit on

    def __init__(self, extension: RequiredExtension, metric: str, hooks: IndexHooks) -> None:
        """Take what the plug-in describes; nothing is started yet."""
        self.enter_phase: Callable[[str], object] = lambda phase: None  # called with each phase's name
        self.table: LoadedTable | None = None
        self.built: BuiltIndex | None = None
        self.versions: dict[str, str] = {}  # that the index depends on
        self.training_set: Any = None  # while an index is built
        self.index_kib = 0.0
        self._extension, self._metric, self._hooks = extension, metric, hooks
        self._options = BuildOptions()
        self._attribute_indexes = AttributeIndexes(NONE, {})
        self._session_settings: dict[str, str] = {}
        self._facts: dict[str, Any] = {}
        self._guard: psycopg.Connection[Any] | None = None
        self._start_mark: Any = None

    def make(self, X: Any, column: Column, options: BuildOptions) -> None:
        """Load the vectors and build the index, unless both are there from an earlier run."""
        self.column, self._options = column, options
        attributes, rows = options.attributes, X.shape[0]
        self._kinds = attribute_kinds(attributes, rows)
        self._attribute_indexes = AttributeIndexes(options.attribute_index, self._kinds)
        with self._preparing(rows) as (connection, index):
            mark = fingerprint(X) + (f" {attributes.mark}" if attributes is not None else "")
            name = catalog.table_name(mark, column.type_name)
            self._reserve(name)
            self.table = self._load(connection, X, mark, name)
            self.built = self._build(connection, index, X)
            if self._kinds:
                self._build_attribute_indexes(connection, rows)
            catalog.use_only(connection, name, self._index_names())
            self._finish(connection)

    def make_writable(
        self, X: Any, rows: int, column: Column, has_key: bool, autovacuum: bool, options: BuildOptions
    ) -> WritableTable:
        """Load the vectors into a table of its own, build its index for `rows`, and return it to write to."""
        self.column, self._options = column, options
        self.server = self._extension.start_server()
        table = WritableTable(self.server, column, self._extension.all_names)
        try:
            if autovacuum:
                table.turn_autovacuum_on()
            with self._preparing(rows) as (connection, index):
                self._reserve(table.name)
                self.table = self._load(connection, X, "", table.name)
                if not autovacuum:
                    table.turn_autovacuum_off(connection)
                if has_key:
                    table.add_key(connection)
                    # The index has its rows in order; through the key they would have to be sorted.
                    self._session_settings |= {"enable_sort": "off"}
                self.built = self._build(connection, index, X)
                self._finish(connection)
            table.finish(self.built, self._session_settings)
        except BaseException:
            table.close()
            raise
        return table

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        """Return the query for the n nearest rows, in a session with these settings; `q` is one of many."""
        assert self.table is not None
        vector, conditions = q, None
        if self._options.attributes is not None:
            vector, conditions = q.vector, conditions_of(q.filter, self._kinds)
        where = conditions.where if conditions else ""
        # The planner is free where there is a filter: what it chooses is what is to be found out.
        session = FILTERED_SESSION if where else QUERY_SESSION
        return QueryStatement(
            self.server.connection_parameters(),
            query_sql(self.table.name, self._form, n, self._metric, self.column, rerank, where),
            self.column,
            self.column.literal(vector),
            {**session, **self._session_settings, **settings},
            self.built.name if self.built else None,
            self._extension.all_names,
            conditions,
            conditions.literals(q.filter) if conditions else (),
        )

    @property
    def session_settings(self) -> Mapping[str, str]:
        """What the user has set for the sessions."""
        return self._session_settings

    def names(self) -> tuple[str | None, str | None]:
        """The names of the table and of the index, None before they are there."""
        return self.table.name if self.table else None, self.built.name if self.built else None

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it: versions, sizes, parts of the build time."""
        load_seconds = self.table.load_seconds if self.table else 0.0
        build_seconds = self._attribute_indexes.seconds + (self.built.build_seconds if self.built else 0.0)
        return self._facts | {
            "build_time": load_seconds + build_seconds,
            "load_time": load_seconds,
            "index_build_time": build_seconds,
            "index_size": self.index_kib,
        }

    def cool(self) -> None:
        """Stop a server of ours and drop its files from the system's cache."""
        folder = self.server.data_folder
        if folder is not None:
            self.server.stop()
        self._facts["caches_dropped"] = folder is not None and drop_from_cache(folder)

    def resume(self) -> None:
        """Reserve the table again, and have queries use this index after they have used others."""
        assert self.table is not None
        self.server.adapt()
        self._reserve(self.table.name)
        name = self.built.name if self.built else None
        with self.server.explaining("switching the index"), self.server.connect() as connection:
            if name is not None and not catalog.exists(connection, name):
                raise PostgresError(
                    f"{name} is gone: another run has dropped it, or a user who may not park it"
                )
            catalog.use_only(connection, self.table.name, self._index_names())
        self._prewarm_again()

    def recover(self) -> None:
        """Reserve the table again, and warm the index if the server has lost it."""
        assert self.table is not None
        self._reserve(self.table.name)
        self._prewarm_again()

    def release(self) -> None:
        """Let other runs use the table; the server runs on."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    @contextmanager
    def _preparing(self, rows: int) -> Iterator[tuple[psycopg.Connection[Any], Index | None]]:
        """Connect to a server that has all it takes; give the connection and the index to be built."""
        column = self.column
        if column.dimension > column.most_dimensions:
            raise PostgresError(
                f"a column of type {column.type_name} holds up to {column.most_dimensions:,} dimensions, "
                f"these have {column.dimension:,}: use vectors of fewer"
            )
        self.enter_phase("start")
        self._facts, self.index_kib = {}, 0.0
        self.server = self._extension.start_server()
        with self.server.explaining("preparing the index"), self.server.connect() as connection:
            self._extension.create(self.server, connection)
            catalog.prepare(connection)
            drop_leftovers(connection)
            apply_settings(connection, SESSION)
            load_libraries(connection, self._extension.all_names)
            given = settable(connection, given_settings(), self.server.is_ours)
            self._session_settings = given
            self.connection = connection
            versions, names = self.server.versions(), ("postgres", *self._extension.all_names)
            self.versions = {name: version for name, version in versions.items() if name in names}
            if connection.execute("SELECT to_regtype(%s)", [column.type_name]).fetchone() == (None,):
                raise PostgresError(
                    f"pgvector {self.versions['vector']} has no type {column.type_name}: use a later release"
                )
            self._facts |= facts_of(self.server, connection)
            own = contender_settings()  # also for the build
            apply_settings(connection, {name: value for name, value in given.items() if name in own})
            index = self._hooks.index(rows, column.dimension)
            self._form = index.form if index else whole_form(self._metric, column)
            yield connection, index
        self._facts |= {f"{name}_version": version for name, version in self.versions.items()}

    def _reserve(self, table: str) -> None:
        """Hold the table for this run, until the connection closes: two would park each other's index."""
        guard = self.server.connect()
        deadline = time.monotonic() + RESERVE_SECONDS
        while not (is_locked := catalog.try_lock(guard, table)) and time.monotonic() < deadline:
            time.sleep(0.1)  # it may be our own of a moment ago, whose end the server has not noticed
        if not is_locked:
            guard.close()
            raise PostgresError(
                f"another run measures on {table} of this server: wait for it, and leave --parallelism at 1"
            )
        self._guard = guard

    def _load(self, connection: psycopg.Connection[Any], X: Any, mark: str, name: str) -> LoadedTable:
        if found := catalog.find_table(connection, name):
            return found
        self.enter_phase("load")
        column, attributes = self.column, self._options.attributes
        if attributes is not None:
            column = AttributedColumn(column, attributes)
            check_encoding(connection)
        return load_table(self.server, connection, name, column, X, mark, self._options.load)

    def _build(self, connection: psycopg.Connection[Any], index: Index | None, X: Any) -> BuiltIndex | None:
        if index is None:
            return None
        assert self.table is not None
        self.enter_phase("build")
        self.training_set = X
        build = IndexBuild(self.server, connection, self.table.name, index, self.versions)
        if self._options.only_serves:
            built, is_found = build.found(), True
        else:
            built, is_found = build.run(X.shape[0], self._hooks, self._options.rebuilds)
        self.training_set = None
        self._facts["index_reused"] = is_found
        return built

    def _build_attribute_indexes(self, connection: psycopg.Connection[Any], rows: int) -> None:
        assert self.table is not None
        indexes, options = self._attribute_indexes, self._options
        way = (options.rebuilds, options.only_serves)
        indexes.build(self.server, connection, self.table.name, rows, *way)
        self._facts |= {
            "attribute_index_size": indexes.kib(connection),
            "attribute_index_build_time": indexes.seconds,
        }

    def _index_names(self) -> list[str]:
        """The names of all indexes that the planner may choose."""
        return ([self.built.name] if self.built else []) + self._attribute_indexes.names

    def _finish(self, connection: psycopg.Connection[Any]) -> None:
        assert self.table is not None
        self.index_kib = self._attribute_indexes.kib(connection)
        if self.built:
            self.index_kib += relation_bytes(connection, self.built.name) / 1024
            self._facts |= self.built.facts
        if self._index_names():
            self._prewarm()
        self._facts["table_size"] = relation_bytes(connection, self.table.name) / 1024

    def _prewarm_again(self) -> None:
        if self.server.start_mark() != self._start_mark:
            self._prewarm()  # the content of its memory is gone

    def _prewarm(self) -> None:
        self._start_mark = self.server.start_mark()
        if self._index_names() and self._options.prewarms:
            self.enter_phase("prewarm")
            with self.server.connect() as self.connection:
                self._attribute_indexes.prewarm(self.connection)
                # ann-benchmarks cannot store None
                if self.built and (how := self._hooks.prewarm(self.built.name)):
                    self._facts["prewarmed_by"] = how
