"""One of several servers, with its part of the rows and its own index; and what asks such shards.

Rows are dealt by their numbers. The client itself asks, or a coordinator, whose sessions send a statement on.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..environment import given_settings
from ..errors import naming
from ..forms import Form, RowSource, query_sql
from ..index.building import IndexHooks
from ..index.fitting import IndexedTable
from ..servers import Server, machine, shard_server
from ..servers.extension import RequiredExtension
from ..session.statement import QueryStatement
from ..settings import MIB, megabytes
from ..statistics.watch import ServerWatch
from ..table import METRICS, Column, row_of_an_array

_LEAST_BUFFERS = 64 * MIB


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
        prepare: Callable[[Server], None],
    ) -> None:
        """Take what the plug-in describes, and number and count; `share`: how many have the memory.

        `prepare` makes sure that a server has what the engine takes.
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
    def extension_names(self) -> tuple[str, ...]:
        """The extensions that its index depends on."""
        return self._extension.all_names

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"shard {self.number} of {self.count}"

    def naming(self) -> AbstractContextManager[None]:
        """Have errors begin with it."""
        return naming(self.title)

    def _start_server(self) -> Server:
        server = self._extension.start_server(shard_server(self.number), shared_memory(self._servers))
        self._prepare(server)
        return server


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


@dataclass(frozen=True)
class Neighbors:
    """The rows that a statement searches for: how many, and by which form of the plug-in."""

    count: int
    form: Form
    metric: str
    column: Column
    rerank: int | None  # candidates to sort by their exact distances

    @property
    def distance(self) -> str:
        """The expression that answers are sorted by in the end."""
        if self.rerank is None:
            return self.form.comparison
        return f"embedding {METRICS[self.metric].operator} {self.column.parameter}"

    def query(self, table: str) -> str:
        """Return the plug-in's own query on a table."""
        return query_sql(RowSource(table), self.form, self.count, self.metric, self.column, self.rerank)


class Engine:
    """One way to ask the shards for the rows that are nearest to a query; nothing is started at first."""

    facts: Mapping[str, Any] = MappingProxyType({})  # of the shards, for the last statement

    def __init__(self, extension: RequiredExtension) -> None:
        self._extension = extension

    def statement(
        self, shards: Sequence[Shard], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        """Return what clients send; `each` is the statement of every shard by itself."""
        raise NotImplementedError

    def prepare(self, server: Server) -> None:
        """Make sure that a server has what the engine takes."""

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Be ready to ask these shards."""

    def watch(self, flush: Callable[[], None]) -> ServerWatch | None:
        """Return what observes the coordinator, where there is one."""
        return None

    def revive(self) -> None:
        """Have the coordinator answer."""

    def forget(self) -> None:
        """Begin anew, with other tables."""

    def close(self) -> None:
        """Leave nothing on a coordinator."""
