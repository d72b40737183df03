"""What asks shards: the client itself, or a coordinator, whose sessions send a statement on to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..forms import Form, RowSource, query_sql
from ..servers import Server
from ..servers.extension import RequiredExtension
from ..session.statement import QueryStatement
from ..statistics.watch import ServerWatch
from ..table import METRICS, Column

if TYPE_CHECKING:
    from .shard import Shard


@dataclass(frozen=True)
class Neighbors:
    """What a statement is to find: so many rows, by the plug-in's own form."""

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
        self, shards: Sequence["Shard"], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        """Return what clients send; `each` is the statement of every shard by itself."""
        raise NotImplementedError

    def prepare(self, server: Server) -> None:
        """Make sure that a server has what the engine takes."""

    def open(self, shards: Sequence["Shard"], column: Column) -> None:
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
