"""The clients that a load is made by: the plug-in's or the framework's."""

from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.local_clients import open_local_clients
from ann_benchmarks.load.remote_clients import RemoteClients
from ann_benchmarks.load.request import Load

from .timed import Subject


def open_clients(subject: Subject, load: Load) -> Any:
    """Start the clients of a plug-in, by what it has: its own, or the framework's threads or processes."""
    plugin, queries, count = subject.plugin, subject.queries, subject.count
    if load.scheduler is not None:
        if plugin.clients_opener is None:
            raise UserError(f"{plugin.class_name} has no clients for other machines: leave --scheduler out")
        opener = plugin.clients_opener(queries, count, load.clients)
        return RemoteClients(opener, load.clients, load.scheduler)
    if plugin.open_clients is not None:
        return plugin.open_clients(queries, count, load.clients)
    return open_local_clients(plugin, queries, count, load.clients)
