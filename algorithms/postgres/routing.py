"""Which shards a query is sent to: those with the nearest cells, found by the client from what it sends."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..clustering.cells import Cells
from .columns import VectorColumn


@dataclass(frozen=True)
class Router:
    """Finds the `probes` shards nearest to a query; shard i has `rows[i]` rows, those of cell i."""

    cells: Cells
    probes: int
    column: VectorColumn  # the type of the query
    rows: tuple[int, ...]

    def nearest(self, parameter: bytes | bytearray | memoryview) -> Sequence[int]:
        """Return the places of the shards for a query, which is in binary."""
        return self.cells.nearest(self.column.vector_of(parameter), self.probes)

    def share(self, places: Sequence[int]) -> float:
        """Return the share of all rows that some shards have."""
        return sum(self.rows[place] for place in places) / sum(self.rows)
