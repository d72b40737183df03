"""A query that clients send to several servers, each to its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import PostgresError
from ..statement import QueryStatement


@dataclass(frozen=True)
class ReplicaStatement(QueryStatement):
    """A statement that client i sends to host i modulo their number; a session by itself asks the first."""

    hosts: tuple[Mapping[str, Any], ...] = ()  # libpq's parameters of each
    is_dealt: bool = False  # to clients, whose errors name the replica

    def of_clients(self, clients: int) -> Sequence[QueryStatement]:
        """Return what each client sends, in turn to each host."""
        each = [replace(self, parameters=host, is_dealt=True) for host in self.hosts]
        return [each[client % len(each)] for client in range(clients)]

    def place_of_client(self, client: int) -> str:
        """Say which replica a client, from 0 on, asks."""
        return f" (replica {client % len(self.hosts) + 1} of {len(self.hosts)})"

    def facts_of_clients(self, sent: Sequence[int]) -> dict[str, Any]:
        """Return how many queries each replica was sent, of those that each client has sent."""
        count = len(self.hosts)
        return {"replica_queries": [sum(sent[place::count]) for place in range(count)]}

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return an error of the query with its replica."""
        return error if self.is_dealt else PostgresError(f"replica 1 of {len(self.hosts)}: {error}")
