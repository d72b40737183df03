"""Clients that send queries at the same time, each a process with a connection of its own."""

from typing import Any

import numpy as np

from ..servers import Server
from ..statement import QueryStatement
from .pool import ClientPool, RestingClients
from .work import ClientRun

__all__ = ["ClientPool", "ClientRun", "RestingClients", "open_clients"]


def open_clients(
    server: Server,
    statement: QueryStatement,
    queries: np.ndarray,
    clients: int,
    resting: RestingClients,
    driver: str = "own",
    skew: float | None = None,
) -> Any:
    """Start clients, resting ones if possible, or have pgbench make the load.

    With `skew`, pgbench draws queries by Zipf's distribution. pgbench's modules are imported only then.
    """
    if driver == "pgbench":
        from .pgbench import PgbenchClients, find_pgbench

        return PgbenchClients(statement, queries, clients, find_pgbench(server.programs), skew)
    return resting.open(statement, queries, clients)
