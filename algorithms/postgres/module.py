"""The plug-in that a PostgreSQL access method completes with what is its own.

A subclass describes which extension it needs, which index it builds and which settings a query has; loading,
building, reuse, measuring and bookkeeping are in the parts. docs/indexes.md shows one of a screenful.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg

from .building import IndexHooks
from .errors import PostgresError
from .extension import RequiredExtension
from .fitting import IndexedTable
from .forms import DISTANCE_OPERATORS
from .index import Index, SearchRange
from .interface import PostgresInterface
from .prewarming import warm_index
from .releases import InstallableExtension
from .servers import Server
from .tiering import tiered_server

__all__ = ["Index", "PostgresANN", "SearchRange"]


class PostgresANN(InstallableExtension, PostgresInterface):
    """An approximate index of PostgreSQL behind ann-benchmarks' plug-in interface."""

    extension = "vector"
    builds_on: tuple[str, ...] = ()  # other extensions whose versions an index depends on
    library = ""  # of the extension, where the server has to load it when it starts
    column_type = "vector"
    # What people call the software whose versions are stored; a subclass adds its own.
    version_names: ClassVar[Mapping[str, str]] = {"postgres": "PostgreSQL", "vector": "pgvector"}

    def __init__(self, metric: str) -> None:
        """Remember the metric; nothing is started before fit."""
        if metric not in DISTANCE_OPERATORS:
            known = ", ".join(DISTANCE_OPERATORS)
            raise PostgresError(f"{type(self).__name__} does not know the metric '{metric}': it has {known}")
        self.metric = metric
        hooks = IndexHooks(self.index, self.create_index, self.note_of_build, self.prewarm)
        super().__init__(IndexedTable(self.required_extension(), metric, hooks))

    # What a subclass describes

    def index(self, rows: int, dimension: int) -> Index | None:
        """Return the index to build for this number of rows, or raise PostgresError where it cannot be built.

        `self.server`, `self.connection` and `self.versions` are those of the server. None: there is no index,
        every query scans all rows.
        """
        raise NotImplementedError

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

        None: there is none, every query is exact.
        """
        return None

    @classmethod
    def simulated_server(cls, restart_command: str | None) -> Any:
        """Return the server that tiers give less memory, CPUs and I/O."""
        return tiered_server(restart_command)

    # What a subclass uses

    def set_query_settings(self, settings: Mapping[str, Any], rerank: int | None = None) -> None:
        """Apply settings to all queries from now on; the plan is made and checked anew.

        With `rerank`, the index finds this number of candidates, which are sorted by their exact distances.
        """
        self._querying.use(settings, rerank)

    @property
    def query_settings(self) -> Mapping[str, str]:
        """The settings of all queries now, written as PostgreSQL reads them."""
        return self._querying.settings

    @property
    def server(self) -> Server:
        """The server, from fit on."""
        return self._indexed.server

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection that the index is built or warmed over."""
        return self._indexed.connection

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the server and of the extensions that the index depends on."""
        return self._indexed.versions

    @property
    def training_set(self) -> Any:
        """The rows that the index is built from, (rows, dimension), read by range; None after the build."""
        return self._indexed.training_set

    @property
    def table_name(self) -> str | None:
        """The name of the table, with its schema; None before it is there."""
        return self._indexed.names()[0]

    @property
    def index_name(self) -> str | None:
        """The name of the index, with its schema; None before it is there, or without one."""
        return self._indexed.names()[1]

    def get_additional(self) -> dict[str, Any]:
        """Return what is stored with the measurements, and what people call the versions in it."""
        names: dict[str, str] = {}
        for base in reversed(type(self).__mro__):
            names |= vars(base).get("version_names", {})
        return super().get_additional() | {"version_names": json.dumps(names)}

    @classmethod
    def required_extension(cls) -> RequiredExtension:
        """Return what the server needs for this plug-in, which has the name of its folder."""
        return RequiredExtension(cls.extension, cls.library, cls.builds_on, cls.__module__.split(".")[-2])

    @classmethod
    def installed_versions(cls) -> dict[str, str]:
        """Start the server and create the extension; return the versions of all that the server has."""
        required = cls.required_extension()
        server = required.start_server()
        try:
            with server.connect() as connection:
                required.create(server, connection)
            return server.versions()
        finally:
            server.stop()
