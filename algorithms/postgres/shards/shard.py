"""One of several servers, with its part of the rows and its own index."""

from collections.abc import Mapping
from typing import Any

from .. import machine
from ..building import IndexHooks
from ..catalog import SCHEMA
from ..citus import CITUS, check_citus
from ..environment import given_settings
from ..extension import RequiredExtension
from ..fitting import IndexedTable
from ..forms import Form
from ..servers import Server, shard_server
from ..settings import MIB, megabytes
from ..statement import check_plan, load_libraries, set_and_check
from ..watching import flush_statement
from ..whereabouts import offered_versions
from .statement import remote_plan

SETTINGS_VIEW, FLUSH_VIEW = f"{SCHEMA}.session_settings", f"{SCHEMA}.session_flush"
_LEAST_BUFFERS = 64 * MIB


class Shard(IndexedTable):
    """A table on the server of a number, from 1 on, of `count`."""

    def __init__(
        self,
        number: int,
        count: int,
        extension: RequiredExtension,
        metric: str,
        hooks: IndexHooks,
        share: int,
    ) -> None:
        """Take what the plug-in describes; nothing is started yet. `share`: how many have the memory."""
        super().__init__(extension, metric, hooks)
        self.number, self.count = number, count
        self._servers = share
        self.has_citus = False  # from the start of its server on
        self.is_reused: bool | None = None  # the index, where another process has made the shard

    @property
    def form(self) -> Form:
        """What the index holds of each vector, from make on."""
        return self._form

    def found_server(self) -> Server:
        """Return its server, which may not run yet."""
        return shard_server(self.number)

    def started(self) -> Server:
        """Start its server, if it does not run, and return it."""
        return self._start_server()

    def versions_offered(self) -> dict[str, str]:
        """Return the versions of somebody else's server and its extensions; of one of ours, none."""
        server = self.found_server()
        if server.is_ours:
            return {}
        self._extension.start_server(server)
        self._check_citus(server)
        with server.connect() as connection:
            names = self._extension.all_names
            return offered_versions(connection, (*names, CITUS) if self.has_citus else names)

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it; an index that another process has built just now is not reused."""
        facts = super().facts()
        return facts if self.is_reused is None else facts | {"index_reused": self.is_reused}

    def make_views(self) -> None:
        """Make a view of the reader's settings, and one that flushes the reader's statistics.

        A coordinator's sessions read them over the connections by which they send queries.
        """
        with self.server.connect() as connection:
            flush = flush_statement(connection.info.server_version).removeprefix("SELECT ")
            connection.execute(f"CREATE OR REPLACE VIEW {FLUSH_VIEW} AS SELECT {flush}::text AS done")
            connection.execute(
                f"CREATE OR REPLACE VIEW {SETTINGS_VIEW} AS"
                " SELECT name, current_setting(name, true) AS value FROM pg_settings"
            )

    def remote_plan(
        self, sql: str, literal: str, settings: Mapping[str, str], is_cursor: bool = True
    ) -> dict[str, Any]:
        """Return the plan of what a coordinator sends; PostgresError where it does not use the index."""
        with self.server.connect() as connection:
            load_libraries(connection, self._extension.all_names)
            set_and_check(connection, settings)
            plan = remote_plan(connection, sql, literal, is_cursor)
        check_plan(plan, self.names()[1], "what the coordinator sends")
        return plan

    def _start_server(self) -> Server:
        """Start the server of its number, with a share of the memory that one server would have."""
        settings = {}
        if "shared_buffers" not in given_settings():
            buffers = machine.memory_bytes() // 4 // self._servers
            settings["shared_buffers"] = megabytes(max(buffers, _LEAST_BUFFERS))
        server = self._extension.start_server(self.found_server(), settings)
        self._check_citus(server)
        return server

    def _check_citus(self, server: Server) -> None:
        """Make sure that the server has what the engine takes, also of those that run already."""
        if self.has_citus:
            check_citus(server)
            server.preload(CITUS)
