"""Building an index once: found again by what it was made from, and never half-built."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from . import catalog, machine
from .catalog import BuiltIndex
from .disk import check_disk, relation_bytes
from .environment import given_settings
from .errors import refusal
from .failures import plainly
from .index import Index
from .progress import index_progress
from .servers import Server
from .settings import apply_settings, build_memory_limit, current_setting, megabytes
from .tables import PAGE

NoteOfBuild = Callable[[str, float], dict[str, Any]]


class IndexBuild:
    """An index on a table, as it is to be built on one server."""

    def __init__(
        self,
        server: Server,
        connection: psycopg.Connection[Any],
        table: str,
        index: Index,
        versions: Mapping[str, str],
    ) -> None:
        """Take what the index depends on; `versions` are those of the server and the extension."""
        self._server, self._connection, self._table, self._index = server, connection, table, index
        self._settings = {
            "maintenance_work_mem": megabytes(self._memory()),
            "max_parallel_maintenance_workers": current_setting(
                connection, "max_parallel_maintenance_workers"
            ),
        }
        given = given_settings()
        self._settings |= {name: given[name] for name in self._settings if name in given}
        self._built_from = index.built_from() | {"versions": dict(versions), "settings": self._settings}
        self.name = catalog.index_name(table, self._built_from)
        self._extension = " ".join(f"{name} {version}" for name, version in versions.items())

    def find(self) -> BuiltIndex | None:
        """Return the index of an earlier run, if it was built to its end."""
        return catalog.find_index(self._connection, self.name)

    def run(self, rows: int, note: NoteOfBuild) -> BuiltIndex:
        """Build it, in place of the one that is there, in one transaction.

        `note` is given what the server says and the seconds since the build began, and returns facts to keep.
        """
        connection, index = self._connection, self._index
        if index.estimate:
            print(index.estimate, flush=True)
        check_disk(self._server, index.disk_bytes, "the index")
        facts: dict[str, Any] = dict(self._settings)
        if index.disk_bytes:
            facts["estimated_index_size"] = index.disk_bytes / 1024
        apply_settings(connection, self._settings)
        started = time.perf_counter()

        def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
            said = diagnostic.message_primary or ""
            noted = note(said, time.perf_counter() - started)
            if noted and diagnostic.severity_nonlocalized != "INFO":
                print(f"note: {said}", flush=True)
            facts.update(noted)

        connection.add_notice_handler(keep)
        try:
            with plainly(self._server, "building the index"), connection.transaction():
                connection.execute(f"DROP INDEX IF EXISTS {self.name}")
                started = time.perf_counter()
                with index_progress(self._server, connection.info.backend_pid, rows):
                    self._create()
                built = BuiltIndex(self.name, time.perf_counter() - started, facts)
                catalog.remember_index(connection, built, self._table, self._built_from)
        finally:
            connection.remove_notice_handler(keep)
        size = megabytes(relation_bytes(connection, self.name))
        estimate = f" (estimate: {megabytes(index.disk_bytes)})" if index.disk_bytes else ""
        clustering = (
            f" ({facts['clustering_time']:.1f} s of them clustering)" if "clustering_time" in facts else ""
        )
        print(f"index built in {built.build_seconds:.1f} s{clustering}, {size}{estimate}", flush=True)
        return built

    def _create(self) -> None:
        try:
            self._connection.execute(self._index.sql(self.name, self._table))
        except (psycopg.OperationalError, psycopg.errors.QueryCanceled):
            raise
        except psycopg.DatabaseError as error:
            if error.sqlstate is None:
                raise  # the connection is lost
            raise refusal(f"the server ({self._extension}) refuses the index", error) from None

    def _memory(self) -> int:
        if not self._server.is_ours:
            return self._index.build_memory  # whoever runs that server knows its memory, we do not
        shared_blocks = self._connection.execute(
            "SELECT setting::int8 FROM pg_settings WHERE name = 'shared_buffers'"
        ).fetchone()
        assert shared_blocks is not None
        limit = build_memory_limit(machine.memory_bytes(), shared_blocks[0] * PAGE)
        return min(self._index.build_memory, limit)
