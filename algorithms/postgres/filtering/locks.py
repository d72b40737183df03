"""How many relations a server can lock at a time: many indexes, or partitions, may be more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from ..environment import PREFIX
from ..errors import PostgresError
from ..settings import current_setting

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
