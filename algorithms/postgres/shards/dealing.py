"""How rows are dealt to shards: by their numbers, or by cells, so that a query can leave shards out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...clustering.settings import METRICS
from ..columns import Column, VectorColumn
from ..errors import PostgresError
from ..routing import Router
from ..servers import Server
from .cells import cells_of_rows
from .rows import CellRows, ShardRows

_OTHERS = "use --shard-engine client or fdw"


@dataclass(frozen=True)
class Dealt:
    """The rows of each shard, and what finds the shards of a query; None: every query is sent to all."""

    rows: Sequence[ShardRows]
    router: Router | None
    facts: dict[str, Any]  # that are stored


def dealt_by_id(X: Any, mark: str, count: int) -> Dealt:
    """Deal rows, which `mark` identifies, in turn."""
    return _dealt([ShardRows(X, place, count, mark) for place in range(count)], None, {})


class CellDealer:
    """Deals the rows of a metric by cells, for queries that are sent to `probes` of `count` shards."""

    def __init__(self, metric: str, count: int, probes: int | None) -> None:
        """Raise PostgresError where there are no cells, or too many probes; None: all shards."""
        if metric not in METRICS:
            raise PostgresError(f"there are no cells of {metric} distances: {_OTHERS}")
        self._metric, self._count = metric, count
        self._probes = count if probes is None else probes
        if not 1 <= self._probes <= count:
            raise PostgresError(f"a query cannot be sent to {probes} of {count} shards: use 1 to {count}")

    def deal(self, X: Any, mark: str, column: Column, server: Server, enter: Callable[[], object]) -> Dealt:
        """Deal rows, which `mark` identifies, by the cells that the server keeps; see cells_of_rows."""
        if not isinstance(column, VectorColumn):
            raise PostgresError(f"there are no cells of the type {column.type_name}: {_OTHERS}")
        found = cells_of_rows(server, X, mark, self._count, self._metric, enter)
        whole = f"{mark} {found.mark}"
        rows = [CellRows(X, place, found.places, self._count, whole) for place in range(self._count)]
        router = Router(found.cells, self._probes, column, tuple(found.sizes))
        return _dealt(rows, router, {"shard_probes": self._probes, "shard_cells_time": found.seconds})


def _dealt(rows: Sequence[ShardRows], router: Router | None, facts: dict[str, Any]) -> Dealt:
    return Dealt(rows, router, {"shard_rows": [len(own) for own in rows], **facts})
