"""Clients that send queries at the same time, each on a connection of its own."""

from .pool import ClientPool, RestingClients
from .work import ClientRun

__all__ = ["ClientPool", "ClientRun", "RestingClients"]
