"""What answers queries, as one value: one server, shards, replicas, or a server behind a pooler.

It stands in a definition, and as fields in the series of its results. A plug-in is given
`kind`, which is also the name of the option, and `arguments`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ann_benchmarks.common.numbers import counted

ENGINES = (
    "client",  # the client asks all shards at the same time, and merges their answers
    "citus",  # the plug-in's own statement on a table that Citus has distributed
)
POOLERS = ("pgbouncer:transaction",)  # clients share server connections, with settings from their start on


@dataclass(frozen=True)
class OneServer:
    """A server with all rows, which clients are connected to; the others say how they differ from it."""

    kind: ClassVar[str] = ""

    def __str__(self) -> str:
        """Write it as the names of curves have it: it is not mentioned."""
        return ""

    @property
    def arguments(self) -> dict[str, Any]:
        """What a plug-in is given of it."""
        return dict(vars(self))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a series that are not their defaults."""
        return {}

    @property
    def further(self) -> int:
        """How many servers stand next to the first one: shards or replicas."""
        return int(vars(self).get("count", 0))

    @property
    def memory_shares(self) -> int:
        """By how many the memory of one machine is divided; 0: it is not."""
        return max(self.further, int(vars(self).get("most", 0))) if self.further else 0

    @property
    def numbers(self) -> range:
        """The numbers of all servers: 0 is the first one, a coordinator or a primary."""
        return range(self.further + 1)

    @property
    def row_holders(self) -> range:
        """The numbers of those that hold rows."""
        return self.numbers

    @property
    def queried(self) -> int:
        """How many answer queries with rows that they hold."""
        return self.further or 1

    @property
    def holders(self) -> str:
        """Name those that hold rows; "" for one server."""
        return ""

    @property
    def everyone(self) -> str:
        """Name all of them; "" for one server."""
        return self.holders


@dataclass(frozen=True)
class Several(OneServer):
    """A number of servers beside the first one.

    `most` is the largest number of those that are compared: of all of them, a server has the same memory, and
    the first one the same settings.
    """

    count: int
    most: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class Shards(Several):
    """Servers that hold a part of the rows each, and what asks them: the first one, or the client."""

    kind: ClassVar[str] = "shards"
    engine: str  # one of ENGINES

    def __str__(self) -> str:
        """Write them as the names of curves have them, such as shards4-client."""
        return f"shards{self.count}-{self.engine}"

    @property
    def fields(self) -> dict[str, Any]:
        return {"shards": self.count, "shard_engine": self.engine}

    @property
    def row_holders(self) -> range:
        return range(1, self.count + 1)

    @property
    def holders(self) -> str:
        return counted(self.count, "shard")

    @property
    def everyone(self) -> str:
        return f"{self.holders} and what asks them"


@dataclass(frozen=True)
class Replicas(Several):
    """Servers that follow a primary, and that clients query; 0: they query the primary."""

    kind: ClassVar[str] = "replicas"

    def __str__(self) -> str:
        """Write them as the names of curves have them, such as replicas2."""
        return f"replicas{self.count}" if self.count else ""

    @property
    def fields(self) -> dict[str, Any]:
        return {"replicas": self.count} if self.count else {}

    @property
    def holders(self) -> str:
        return f"a primary and {counted(self.count, 'replica')}" if self.count else ""


@dataclass(frozen=True)
class Pooled(OneServer):
    """A server behind a pooler, and the pooler's connections to it; None: as many as the plug-in takes."""

    kind: ClassVar[str] = "pooler"
    pooler: str  # one of POOLERS
    size: int | None = None

    def __str__(self) -> str:
        """Write it as the names of curves have it, such as pgbouncer-transaction-pool8."""
        return self.pooler.replace(":", "-") + ("" if self.size is None else f"-pool{self.size}")

    @property
    def fields(self) -> dict[str, Any]:
        return {"pooler": self.pooler, "pool_size": self.size}


Servers = OneServer | Shards | Replicas | Pooled
ONE_SERVER = OneServer()


def largest(servers: Iterable[Servers]) -> Servers:
    """Return those that take the most servers of a machine."""
    return max(servers, key=lambda each: len(each.numbers), default=ONE_SERVER)


def every_shards(counts: Sequence[int], engines: Sequence[str]) -> list[Servers]:
    """Return each number of shards with each engine; 0: one server with all rows, once."""
    found: list[Servers] = []
    for count in counts:
        if not count:
            found.append(ONE_SERVER)
        found += [Shards(count, engine, most=max(counts)) for engine in engines if count]
    return found


def every_replicas(counts: Sequence[int]) -> list[Servers]:
    """Return each number of replicas; where all are 0, one server."""
    most = max(counts)
    return [Replicas(count, most=most) if most else ONE_SERVER for count in counts]


def every_pooled(names: Sequence[str | None], sizes: Sequence[int | None] = (None,)) -> list[Servers]:
    """Return each pooler with each size of its pool; None: a server without one."""
    found: list[Servers] = []
    for name in names:
        if name is None:
            found.append(ONE_SERVER)
        else:
            found += [Pooled(name, size) for size in sizes]
    return found
