"""Rows over several servers: how many there are, and the engine that asks them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

ROUTED = "routed"  # the client asks the shards whose k-means cells are nearest to the query
ENGINES = (
    "fdw",  # one statement of a coordinator that asks all shards at the same time, by postgres_fdw
    "fdw-naive",  # the plug-in's own statement on a partitioned table, which asks one after the other
    "client",  # the client asks all shards at the same time, and merges their answers
    "citus",  # the plug-in's own statement on a table that Citus has distributed
    ROUTED,
)


@dataclass(frozen=True)
class Shards:
    """Servers that hold a part of the rows each, and what asks them.

    `most` is the largest number of those that are compared: of all of them, a server has the same memory.
    """

    count: int
    engine: str  # one of ENGINES
    most: int = field(default=0, compare=False)
    probes: int | None = None  # shards that a query of ROUTED asks; None: all, as of other engines

    @property
    def are_all_asked(self) -> bool:
        """Whether every query goes to all of them."""
        return self.probes in (None, self.count)

    def __str__(self) -> str:
        """Write them as the names of curves have them, such as shards4-fdw or shards4-routed2."""
        return f"shards{self.count}-{self.engine}{self.probes or ''}"


def every_shards(
    counts: Sequence[int], engines: Sequence[str], probes: Sequence[int] = (1,)
) -> list[Shards | None]:
    """Return each number of shards with each engine; 0: one server with all rows, once, as None.

    With ROUTED, it is each of `probes`, but for those that are more than the shards.
    """
    found: list[Shards | None] = []
    for count in counts:
        if not count:
            found.append(None)
            continue
        for engine in engines:
            asked = [one for one in probes if one <= count] if engine == ROUTED else [None]
            found += [Shards(count, engine, max(counts), one) for one in asked]
    return found
