"""The servers of a run: how many there are, and which hold rows. Each is given what a tier has."""

from collections.abc import Iterable
from dataclasses import dataclass

from ann_benchmarks.common.output import counted
from ann_benchmarks.definitions.definition import Definition


@dataclass(frozen=True)
class Servers:
    """The first server, which has the number 0, and those beside it, from 1 on.

    These are `shards`, which hold the rows in its place, or `replicas`, which hold them as it does.
    """

    shards: int = 0
    replicas: int = 0

    @classmethod
    def of(cls, definitions: Iterable[Definition]) -> "Servers":
        """Return the most that one of these definitions has."""
        every = list(definitions)
        return cls(
            max((each.shards.count for each in every if each.shards), default=0),
            max((each.replicas.count for each in every if each.replicas), default=0),
        )

    @property
    def total(self) -> int:
        """How many there are."""
        return 1 + self.shards + self.replicas

    @property
    def with_rows(self) -> range:
        """The numbers of those that hold rows: the first is none of them where there are shards."""
        return range(1, self.total) if self.shards else range(self.total)

    @property
    def queried(self) -> int:
        """How many answer queries with rows that they hold."""
        return self.shards or self.replicas or 1

    @property
    def holders(self) -> str:
        """Name those that hold rows; "" for one server."""
        if self.replicas:
            return f"a primary and {counted(self.replicas, 'replica')}"
        return counted(self.shards, "shard") if self.shards else ""

    @property
    def everyone(self) -> str:
        """Name all of them; "" for one server."""
        return self.holders + " and what asks them" * bool(self.shards)
