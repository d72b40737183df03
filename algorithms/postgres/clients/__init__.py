"""Clients that ask at the same time, each a process with a connection of its own."""

from .pool import ClientPool
from .work import Answers, Asked

__all__ = ["Answers", "Asked", "ClientPool"]
