"""What answers queries where that is not one server: shards, replicas, or a server behind a pooler.

Each kind has a table that stands in the place of IndexedTable. A query to one server enters nothing here.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the processes of clients take nothing but statements and sessions
    from ..index.building import IndexHooks
    from ..index.fitting import IndexedTable
    from ..servers.extension import RequiredExtension


def make_table(
    kind: str,
    extension: "RequiredExtension",
    metric: str,
    hooks: "IndexHooks",
    arguments: Mapping[str, Any],
) -> "IndexedTable":
    """Return the table of a kind of servers, with the arguments of PostgresANN.set_servers."""
    if kind == "shards":
        from .sharded import ShardedTable

        return ShardedTable(extension, metric, hooks, **arguments)
    if kind == "replicas":
        from .replicated import ReplicatedTable

        return ReplicatedTable(extension, metric, hooks, **arguments)
    from .pooled import PooledTable

    return PooledTable(extension, metric, hooks, **arguments)


def servers_facts(kind: str, extensions: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what would be stored of the servers of a kind, and their versions, without starting one."""
    from ..servers.whereabouts import known_facts

    if kind == "shards":
        from .shard import hosts_facts

        return hosts_facts(arguments["count"], extensions) or known_facts(extensions)
    if kind == "pooler":
        from .pooled import pooler_facts

        return {**known_facts(extensions), **pooler_facts()}
    return known_facts(extensions)
