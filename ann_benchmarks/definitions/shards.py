"""Rows over several servers: how many there are, and the engine that asks them all."""

from dataclasses import dataclass, field

ENGINES = (
    "fdw",  # one statement of a coordinator that asks all shards at the same time, by postgres_fdw
    "fdw-naive",  # the plug-in's own statement on a partitioned table, which asks one after the other
    "client",  # the client asks all shards at the same time, and merges their answers
    "citus",  # the plug-in's own statement on a table that Citus has distributed
)


@dataclass(frozen=True)
class Shards:
    """Servers that hold a part of the rows each, and what asks them.

    `most` is the largest number of those that are compared: of all of them, a server has the same memory.
    """

    count: int
    engine: str  # one of ENGINES
    most: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """Write them as the names of curves have them, such as shards4-fdw."""
        return f"shards{self.count}-{self.engine}"
