"""Building an index once: found again by what it was made from, and never half-built."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from .. import catalog, settings
from ..catalog import BuiltIndex, relation_bytes
from ..environment import contender_settings, given_settings
from ..errors import PostgresError, refusal
from ..forms import Form
from ..servers import Server, current_server, machine
from ..servers.extension import RequiredExtension
from ..servers.libpq import backend_of
from ..servers.progress import index_progress
from ..session.statement import load_libraries
from ..table import KINDS, ColumnKind, NamedAttributes
from ..table.conditions import SharedShape
from ..table.loading import LoadOptions
from .divisions import NONE, DivisionMaker


@dataclass(frozen=True)
class Index:
    """An index to build: `options` are those of WITH, written as PostgreSQL reads them."""

    method: str
    form: Form
    options: Mapping[str, Any] = field(default_factory=dict)
    build_memory: int = 64 * settings.MIB  # bytes of maintenance_work_mem that the build can use
    disk_bytes: int = 0  # about what the index will take, 0 if unknown
    estimate: str = ""  # one line for the user before the build
    predicate: str = ""  # of a partial index: the condition of its rows
    beside: tuple[str, ...] = ()  # further columns of it, behind the vectors'
    leader_builds: bool = True  # beside the workers of a parallel build, and does not only wait for them
    is_whole: bool = True  # its statement takes nothing but the table

    def sql(self, name: str, table: str) -> str:
        """Return the statement; without a name, the server gives it one."""
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        storage = f" WITH ({options})" if options else ""
        name = f" {name.rpartition('.')[2]}" if name else ""  # an index is always in its table's schema
        columns = ", ".join([f"{self.form.column} {self.form.operator_class}", *self.beside])
        where = f" WHERE {self.predicate}" if self.predicate else ""
        return f"CREATE INDEX{name} ON {table} USING {self.method} ({columns}){storage}{where}"

    def built_from(self) -> dict[str, Any]:
        """Return what identifies the index, of the values here."""
        built_from: dict[str, Any] = {
            "method": self.method,
            "column": self.form.column,
            "operator_class": self.form.operator_class,
            "options": {name: str(value) for name, value in self.options.items()},
        }
        # Only where there are any: an index without them is found by what it was always built from.
        more = {"predicate": self.predicate, "beside": list(self.beside)}
        return built_from | {name: value for name, value in more.items() if value}


@dataclass(frozen=True)
class SearchRange:
    """The query argument to search for a recall, and its values in the order of their effort.

    `arguments` returns what set_query_arguments takes for a value.
    """

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]] = lambda value: [value]


MOST_NOTICES = 20  # shown and stored; an index may send one for each row

# What is computed here, as centroids, may leave the session idle for hours. PostgreSQL 17 has the second.
_WITHOUT_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
# A build whose client has gone ends soon, and not after hours for nothing. PostgreSQL 14 has it, on Linux.
_ENDS_WITH_CLIENT = (
    "SELECT set_config(name, '2s', true) FROM pg_settings"
    " WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'"
)


@dataclass(frozen=True)
class BuildOptions:
    """How the user has the table loaded and the index built."""

    load: LoadOptions = field(default_factory=LoadOptions)
    rebuilds: bool = False  # although the index is there
    prewarms: bool = True
    only_serves: bool = False  # the index was built before, with any amount of memory
    attributes: NamedAttributes | None = None  # of the rows, beside their vectors
    payload: str = ""  # what queries return beside the ids: nothing, text or vector
    attribute_index: str = NONE  # the indexes of attributes
    matches: Mapping[SharedShape, int] = field(default_factory=dict)  # filters of queries, rows that pass
    kinds: Mapping[str, ColumnKind] = field(default_factory=lambda: KINDS)  # types of the attributes' columns
    divide: DivisionMaker | None = None  # what makes several indexes of vectors in place of one


@dataclass(frozen=True)
class BuildPlace:
    """Where indexes are built, and what of it they depend on."""

    server: Server
    connection: psycopg.Connection[Any]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class IndexHooks:
    """What a plug-in does itself when its index is made; the methods of PostgresANN describe each."""

    create: Callable[[str, str, str], dict[str, Any]]  # statement, index, table
    index: Callable[[int, int], Index | None] = lambda rows, dimension: None
    note: Callable[[str, float], dict[str, Any]] = lambda message, seconds: {}  # since the build began
    prewarm: Callable[[str], str | None] = lambda index: None

    def entering(self, enter: Callable[[], object]) -> "IndexHooks":
        """Return hooks that call `enter` whenever an index is made, and not found."""

        def create(statement: str, name: str, table: str) -> dict[str, Any]:
            enter()
            return self.create(statement, name, table)

        return replace(self, create=create)


class IndexBuild:
    """An index on a table, as it is to be built on one server."""

    def __init__(self, place: BuildPlace, table: str, index: Index, is_one_of_many: bool = False) -> None:
        """Take what the index depends on.

        With `is_one_of_many`, whoever builds them all says so, and shows how far they have come.
        """
        self._is_one_of_many = is_one_of_many
        self._server, self._connection, self._table, self._index = (
            place.server,
            place.connection,
            table,
            index,
        )
        self._settings = {
            "maintenance_work_mem": settings.megabytes(self._memory()),
            "max_parallel_maintenance_workers": self._most_workers(),
        }
        given, own = given_settings(), contender_settings()
        self._settings |= {name: given[name] for name in self._settings if name in given}
        # Contenders that differ in other settings have one index: two builds of it would differ, too.
        self._is_shared = bool(own) and not own.keys() & self._settings.keys()
        self._built_from = index.built_from() | {"versions": dict(place.versions), "settings": self._settings}
        self.name = catalog.index_name(table, self._built_from)
        self._extension = " ".join(f"{name} {version}" for name, version in place.versions.items())

    def run(self, rows: int, hooks: IndexHooks, options: BuildOptions) -> tuple[BuiltIndex, bool]:
        """Return the index, and whether an earlier run has built it.

        Otherwise the plug-in builds it, in one transaction, in place of the one that is there. Where an index
        is only to be served, it is the last one that was built, with any settings.
        """
        if options.only_serves:
            found = catalog.find_index_like(self._connection, self._table, self._built_from)
            if found is None:
                raise PostgresError("the index is not built: build it first, with run.py --build-only")
            return found, True
        built, is_found = self._found_or_built(rows, hooks, options.rebuilds)
        if self._is_one_of_many or is_found:
            return built, is_found
        clustering = built.facts.get("clustering_time")
        parts = f" ({clustering:.1f} s clustering)" if clustering else ""
        size = settings.size_text(relation_bytes(self._connection, built.name))
        disk_bytes = self._index.disk_bytes
        estimate = f" (estimate: {settings.size_text(disk_bytes)})" if disk_bytes else ""
        print(f"index built in {built.build_seconds:.1f} s{parts}, {size}{estimate}", flush=True)
        return built, False

    def _found_or_built(self, rows: int, hooks: IndexHooks, rebuild: bool) -> tuple[BuiltIndex, bool]:
        if not rebuild and (found := self.find()):
            return found, True
        if self._index.estimate and not self._is_one_of_many:
            print(self._index.estimate, flush=True)
        self._server.check_disk(self._index.disk_bytes, "the index")
        settings.apply_settings(self._connection, self._settings)
        with self._server.explaining("building the index"):
            with self._connection.transaction():
                # A build whose client was killed goes on for a while: the clock would run meanwhile.
                self._connection.execute(f"LOCK TABLE {self._table} IN SHARE ROW EXCLUSIVE MODE")
                if not rebuild and (found := self.find()):
                    return found, True
                catalog.drop_index(self._connection, self.name)
                self._connection.execute(_WITHOUT_TIMEOUTS)
                self._connection.execute(_ENDS_WITH_CLIENT)
                started = time.perf_counter()
                facts = self._build(rows, hooks, started)
                built = BuiltIndex(self.name, time.perf_counter() - started, facts)
                catalog.remember_index(self._connection, built, self._table, self._built_from)
            # The commit waits for the disk, which is a part of building.
            built = replace(built, build_seconds=time.perf_counter() - started)
            catalog.remember_index(self._connection, built, self._table, self._built_from)
        return built, False

    def find(self) -> BuiltIndex | None:
        """Return the index if an earlier run has built it."""
        if self._is_shared:
            return catalog.find_index_like(self._connection, self._table, self._built_from)
        return catalog.find_index(self._connection, self.name)

    def _build(self, rows: int, hooks: IndexHooks, started: float) -> dict[str, Any]:
        # A server that others follow writes all of the index to its log, which takes longer.
        log = settings.current_setting(self._connection, "wal_level")
        facts: dict[str, Any] = {**self._settings, "build_wal_level": log}
        if self._index.disk_bytes:
            facts["estimated_index_size"] = self._index.disk_bytes / 1024
        notices: list[str] = []

        def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
            message = "".join(c if c.isprintable() else " " for c in diagnostic.message_primary or "")
            facts.update(hooks.note(message, time.perf_counter() - started))
            if diagnostic.severity_nonlocalized in ("NOTICE", "WARNING"):
                notices.append(message)
                if len(notices) <= MOST_NOTICES and not self._is_one_of_many:
                    print(f"note: {message}", flush=True)

        self._connection.add_notice_handler(keep)
        try:
            with self._progress(rows):
                facts |= self._create(hooks)
        finally:
            self._connection.remove_notice_handler(keep)
        if (more := len(notices) - MOST_NOTICES) > 0:
            notices[MOST_NOTICES:] = [f"and {more:,} more messages"]
            if not self._is_one_of_many:
                print(f"note: {notices[-1]}", flush=True)
        return facts | ({"build_notices": notices} if notices else {})

    def _progress(self, rows: int) -> AbstractContextManager[None]:
        if self._is_one_of_many:
            return nullcontext()
        return index_progress(self._server, backend_of(self._connection), rows)

    def _create(self, hooks: IndexHooks) -> dict[str, Any]:
        try:
            return hooks.create(self._index.sql(self.name, self._table), self.name, self._table)
        except (psycopg.OperationalError, psycopg.errors.QueryCanceled):
            raise
        except psycopg.DatabaseError as error:
            if error.sqlstate is None:
                raise  # the connection is lost
            raise refusal(f"the server ({self._extension}) refuses the index", error) from None

    def _memory(self) -> int:
        if not self._server.is_ours:
            return self._index.build_memory  # the memory of that server is not known here
        # Room is left for shared_buffers and everything else.
        memory, buffers = machine.memory_bytes(), settings.shared_buffers(self._connection)
        limit = min((memory - buffers) * 3 // 5, memory * settings.SHARED_MEMORY_SHARE // 100)
        return min(self._index.build_memory, max(limit, 64 * settings.MIB))

    def _most_workers(self) -> str:
        most = settings.current_setting(self._connection, "max_parallel_maintenance_workers")
        if not self._server.is_ours or self._index.leader_builds:
            return most
        return str(int(most) + 1)  # the core that our server leaves to the leader is idle


def try_preparing(extension: RequiredExtension) -> None:
    """Raise PostgresError for what somebody else's server would refuse after a load; nothing stays there."""
    server = current_server()
    if server.is_ours:
        return
    if extension.library:
        server.preload(extension.library)
    with server.connect() as connection, connection.transaction(force_rollback=True):
        extension.create(server, connection)
        catalog.prepare(connection)
        load_libraries(connection, extension.all_names)
        try:
            given = settings.settable(connection, given_settings(), False)
            settings.apply_settings(connection, settings.SESSION | given)
        except psycopg.Error as error:
            raise refusal("this user may not set what sessions need", error) from None
