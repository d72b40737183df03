"""Clients that ask at the same time, each a process with a connection of its own."""

from typing import Any

import numpy as np

from ..servers import Server
from ..session import Asking
from .pool import ClientPool, RestingClients
from .work import Answers

__all__ = ["Answers", "ClientPool", "RestingClients", "open_clients"]


def open_clients(
    server: Server,
    asking: Asking,
    queries: np.ndarray,
    clients: int,
    resting: RestingClients,
    driver: str = "own",
    skew: float | None = None,
) -> Any:
    """Start clients, of those that rest if they will do, or have pgbench make the load.

    With `skew`, pgbench draws queries by Zipf's distribution. What is not used is not imported.
    """
    if driver == "pgbench":
        from .pgbench import PgbenchClients, find_pgbench

        return PgbenchClients(asking, queries, clients, find_pgbench(server.programs), skew)
    return resting.open(asking, queries, clients)
