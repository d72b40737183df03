"""What the server did during a run: its CPU and disk, its caches, and what its sessions waited for."""

from .counters import flush_statement
from .monitor import PostgresStatistics
from .watch import CLIENT_APPLICATION, ServerWatch

__all__ = ["CLIENT_APPLICATION", "PostgresStatistics", "ServerWatch", "flush_statement"]
