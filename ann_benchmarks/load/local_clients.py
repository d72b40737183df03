"""Clients of a plug-in that is no database, of the kind that it says."""

from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plugin import Clients

from .process_clients import ProcessClients
from .thread_clients import ThreadClients

__all__ = ["ProcessClients", "ThreadClients", "open_local_clients"]

_KINDS: dict[str, type[ThreadClients] | type[ProcessClients]] = {
    "threads": ThreadClients,
    "processes": ProcessClients,
}


def open_local_clients(algo: Any, queries: Any, count: int, clients: int) -> Clients:
    """Start so many clients that ask `algo` for the `count` nearest of the queries that they are told.

    UserError: its class attribute `clients_by` names no kind of clients.
    """
    kind = getattr(algo, "clients_by", "threads")
    if kind not in _KINDS:
        raise UserError(f"{type(algo).__name__}.clients_by is '{kind}': make it one of {', '.join(_KINDS)}")
    return _KINDS[kind](algo, queries, count, clients)
