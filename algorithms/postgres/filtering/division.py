"""A table's vectors divided among several indexes. Each index serves some of the filters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import psycopg

from ..columns import Column, Kind, NamedAttribute, NamedAttributes
from ..environment import PREFIX
from ..errors import PostgresError
from ..settings import current_setting
from .conditions import SharedShape

_HOLDERS = 2  # of a lock: PostgreSQL has room for that many on average (lock.c)


@dataclass(frozen=True)
class LockRoom:
    """A server's table of locks, by its settings as the manual has them (chapter "Lock Management").

    Servers have some room more than these say, which is not to be relied on: other sessions take it, too.
    """

    a_transaction: int  # max_locks_per_transaction
    transactions: int  # max_connections + max_prepared_transactions
    is_ours: bool  # the server is one that this project starts

    @classmethod
    def of(cls, connection: psycopg.Connection[Any], is_ours: bool) -> "LockRoom":
        """Read the settings of a server."""
        names = ("max_locks_per_transaction", "max_connections", "max_prepared_transactions")
        locks, connections, prepared = (int(current_setting(connection, name)) for name in names)
        return cls(locks, connections + prepared, is_ours)

    @property
    def size(self) -> int:
        """How many relations can be locked for sure."""
        return self.a_transaction * self.transactions

    def check(self, relations: int, what: str, clients: int = 1) -> None:
        """Raise PostgresError where `clients` sessions at a time cannot lock that many relations each.

        `what` names, in the plural, what locks them.
        """
        needed = max(relations, -(-relations * clients // _HOLDERS))
        if needed <= self.size:
            return
        setting = f"max_locks_per_transaction={-(-needed // self.transactions)}"
        how = f'{PREFIX}SETTINGS="{setting}"' if self.is_ours else f"{setting} on the server, and restart it"
        by = f" of {clients:,} clients" if clients > 1 else ""
        raise PostgresError(
            f"{what} lock {relations:,} relations each{by}, and the server's settings make room for"
            f" {self.size:,}: set {how}"
        )


def may_be_generic(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings may plan a prepared statement without its values."""
    return settings.get("plan_cache_mode") != "force_custom_plan"


_SPAN_ROWS = 1 << 20


@dataclass(frozen=True)
class FilteredRows:
    """The rows of a table as filters see them, before it is there."""

    attributes: NamedAttributes
    kinds: Mapping[str, Kind]  # of the attributes
    matches: Mapping[SharedShape, int]  # the filters of the queries, with the number of rows that pass each


@dataclass(frozen=True)
class Part:
    """Rows that have an index of their own."""

    table: str  # with its schema: the table, or a partition of it
    rows: int
    predicate: str = ""  # of a partial index


class Division:
    """Which indexes of vectors there are in place of one."""

    settings: ClassVar[Mapping[str, str]] = {}  # of sessions that query, unless the user sets them
    mark = ""  # of a table that no other index can use; "": the usual table serves

    def column(self, column: Column) -> Column | None:
        """Return what a table of its own is loaded by; `column` is the vectors'."""
        return None

    def parts(self, table: str) -> Sequence[Part]:
        """Return what has an index each, the largest first."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it."""
        raise NotImplementedError

    def check_room(self, room: LockRoom, others: int, may_be_generic: bool) -> None:
        """Raise PostgresError where the server cannot lock what making the table, or a query of it, takes.

        The arguments are those of locked_by_query.
        """
        raise NotImplementedError

    def locked_by_query(self, others: int, may_be_generic: bool) -> int:
        """Return the most relations that a query locks; `others` is the number of other indexes of a table.

        Where PostgreSQL may plan without a query's values, it locks what any values need, if only to compare.
        """
        raise NotImplementedError


DivisionMaker = Callable[[FilteredRows], Division]


def value_counts(attribute: NamedAttribute, kind: Kind, rows: int) -> list[tuple[Any, int]]:
    """Return the distinct values of an attribute, for labels the labels, with the number of rows of each.

    The most frequent come first, and of equally frequent ones the smallest.
    """
    counts: Counter[Any] = Counter()
    for start in range(0, rows, _SPAN_ROWS):
        block = attribute.block(start, min(start + _SPAN_ROWS, rows))
        if kind.has_several:
            block = np.concatenate([np.empty(0, np.int32), *block])
        values, numbers = np.unique(block, return_counts=True)
        counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def shapes_of(rows: FilteredRows, purpose: str) -> list[tuple[tuple[str, str], ...]]:
    """Return the distinct shapes of the filters; PostgresError where there are no filters."""
    shapes = list(dict.fromkeys(each.shape for each in rows.matches if each.shape))
    if not shapes:
        raise PostgresError(f"{purpose} serve queries that have a filter: add --filter")
    return shapes
