"""One of several servers, with its part of the rows and its own index; rows are dealt by their numbers."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..catalog import SCHEMA
from ..environment import given_settings
from ..errors import naming
from ..forms import Form
from ..index.building import IndexHooks
from ..index.fitting import IndexedTable
from ..servers import Server, machine, shard_server
from ..servers.extension import RequiredExtension
from ..servers.whereabouts import offered_versions
from ..session.statement import check_plan, load_libraries, set_and_check
from ..settings import MIB, megabytes
from ..statistics.counters import flush_statement
from ..table import row_of_an_array
from ..table.column import RowEncoder

SETTINGS_VIEW, FLUSH_VIEW = f"{SCHEMA}.session_settings", f"{SCHEMA}.session_flush"
_LEAST_BUFFERS = 64 * MIB
_ID_BYTES = slice(6, 10)  # of a row of a binary COPY: behind the number of columns and the id's length


def shared_memory(share: int) -> dict[str, str]:
    """Return the settings of a server that has the memory of one with others, as many as `share`."""
    if "shared_buffers" in given_settings():
        return {}
    return {"shared_buffers": megabytes(max(machine.memory_bytes() // 4 // share, _LEAST_BUFFERS))}


class Shard(IndexedTable):
    """A table on the server of a number, from 1 on, of `count`."""

    def __init__(
        self,
        extension: RequiredExtension,
        metric: str,
        hooks: IndexHooks,
        place: tuple[int, int],
        share: int,
        prepare: Callable[[Server], tuple[str, ...]],
    ) -> None:
        """Take what the plug-in describes, and number and count; `share`: how many have the memory.

        `prepare` makes sure that a server has what the engine takes, and returns these extensions.
        """
        super().__init__(extension, metric, hooks)
        self.number, self.count = place
        self._servers, self._prepare = share, prepare

    @property
    def form(self) -> Form:
        """What the index holds of each vector, from make on."""
        return self._form

    @property
    def table_name(self) -> str:
        """The name of its table, with its schema."""
        assert self.table is not None
        return self.table.name

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"shard {self.number} of {self.count}"

    def naming(self) -> AbstractContextManager[None]:
        """Have errors begin with it."""
        return naming(self.title)

    def started(self) -> Server:
        """Start its server, if it does not run, with a share of the memory; return it."""
        server = self._extension.start_server(shard_server(self.number), shared_memory(self._servers))
        self._prepare(server)
        return server

    def versions_offered(self) -> dict[str, str]:
        """Return the versions of somebody else's server and its extensions; of one of ours, none."""
        server = shard_server(self.number)
        if server.is_ours:
            return {}
        self._extension.start_server(server)
        names = (*self._extension.all_names, *self._prepare(server))
        with server.connect() as connection:
            return offered_versions(connection, names)

    def make_views(self) -> None:
        """Make a view of the reader's settings, and one that flushes the reader's statistics.

        A coordinator's sessions read them over the connections by which they send queries.
        """
        with self.naming(), self.server.connect() as connection:
            flush = flush_statement(connection.info.server_version).removeprefix("SELECT ")
            connection.execute(f"CREATE OR REPLACE VIEW {FLUSH_VIEW} AS SELECT {flush}::text AS done")
            connection.execute(
                f"CREATE OR REPLACE VIEW {SETTINGS_VIEW} AS"
                " SELECT name, current_setting(name, true) AS value FROM pg_settings"
            )

    def remote_plan(
        self, sql: str, literal: str, settings: Mapping[str, str], is_cursor: bool
    ) -> dict[str, Any]:
        """Return the plan of what a coordinator sends; PostgresError where it does not use the index."""
        cursor = "DECLARE ann_query CURSOR FOR " * is_cursor
        with self.naming(), self.server.connect() as connection:
            load_libraries(connection, self._extension.all_names)
            set_and_check(connection, settings)
            row = connection.execute(
                f"EXPLAIN (FORMAT JSON, VERBOSE) {cursor}" + sql.replace("$1", f"'{literal}'")
            ).fetchone()
            assert row is not None
            plan: dict[str, Any] = row[0][0]["Plan"]
            check_plan(plan, self.names()[1], "what the coordinator sends")
        return plan

    def _start_server(self) -> Server:
        return self.started()


class ShardRows:
    """The rows `place`, `place` + `count`, `place` + 2 `count` ... of a training set, read by range."""

    def __init__(self, rows: Any, place: int, count: int, mark: str) -> None:
        """Take the training set, rows by range of a fixed length, and what identifies it."""
        self._rows, self._place, self._count, self._mark = rows, place, count, mark
        self.shape = (len(range(place, rows.shape[0], count)), rows.shape[1])
        self.dtype = rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice) -> Any:
        start, stop, step = numbers.indices(len(self))
        if start >= stop or step != 1:
            return self._rows[0:0] if step == 1 else self[:][numbers]
        # What lies between them is read, too: files give a whole range faster than parts of it.
        first, last = self.id_of(start), self.id_of(stop - 1)
        return self._rows[first : last + 1][:: self._count]

    def id_of(self, row: Any) -> Any:
        """Return the number in the training set of a row of the shard, or of an array of them."""
        return self._place + row * self._count

    def row_name(self, row: int) -> str:
        """Name a row of the shard for an error, as the training set does."""
        name: Callable[[int], str] = getattr(self._rows, "row_name", row_of_an_array)
        return name(self.id_of(row))

    def fingerprint(self) -> str:
        """Return what tells these rows from those of other shards, and of other numbers of them."""
        return f"{self._mark} shard {self._place} of {self._count}"

    def numbered(self, encoder: RowEncoder) -> RowEncoder:
        """Return the same encoder, for rows that have their ids in the training set."""
        return NumberedEncoder(encoder, self)


class NumberedEncoder:
    """Rows of a shard as another encoder makes them, with the ids of the training set in them."""

    def __init__(self, encoder: RowEncoder, rows: ShardRows) -> None:
        """Take an encoder that gives every row the same number of bytes."""
        self._encoder, self._rows = encoder, rows

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the bytes of the rows that begin with this number in the shard."""
        content = self._encoder.encode(first_id, block)
        each = np.frombuffer(content, np.uint8).reshape(len(block), -1)
        ids = self._rows.id_of(np.arange(first_id, first_id + len(block))).astype(">i4")
        each[:, _ID_BYTES] = ids.view(np.uint8).reshape(-1, 4)
        return content

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return the bytes of each row by itself."""
        content = self.encode(first_id, block)
        size = len(content) // max(len(block), 1)
        return [content[start : start + size] for start in range(0, len(content), size)]
