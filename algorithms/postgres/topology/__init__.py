"""What answers queries where that is not one server: shards, replicas, or a server behind a pooler.

Each kind has a table that stands in the place of IndexedTable. A query to one server enters nothing here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the processes of clients take nothing but statements and sessions
    from ..index.building import IndexHooks
    from ..index.fitting import IndexedTable
    from ..servers.extension import RequiredExtension
    from ..statistics.watch import ServerWatch

# The module and the class of each kind's table; `known_facts` of the class is what is known without a start.
_KINDS = {
    "shards": "sharded.ShardedTable",
    "replicas": "replicated.ReplicatedTable",
    "pooler": "pooled.PooledTable",
}


def load(place: str) -> Callable[..., Any]:
    """Import a class or function, named as MODULE.NAME of this folder, which only its users need."""
    module, _, name = place.partition(".")
    found: Callable[..., Any] = getattr(import_module(f".{module}", __package__), name)
    return found


def make_table(
    kind: str,
    extension: "RequiredExtension",
    metric: str,
    hooks: "IndexHooks",
    arguments: Mapping[str, Any],
) -> "IndexedTable":
    """Return the table of a kind of servers, with the arguments of PostgresANN.set_servers."""
    table: IndexedTable = load(_KINDS[kind])(extension, metric, hooks, **arguments)
    return table


def servers_facts(kind: str, extensions: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what would be stored of the servers of a kind, and their versions, without starting one."""
    table: type[IndexedTable] = load(_KINDS[kind])  # type: ignore[assignment]
    return table.known_facts(extensions, arguments)


_OF_SERVERS = "server_"  # begins the names of what is work of every server
_CPU = "server_cpu_seconds_per_query"
Facts = Callable[[int], Mapping[str, Any]]  # of a run with this number of queries
Observing = Callable[[], AbstractContextManager[Facts]]


class SeveralWatch:
    """Observes servers that have the rows, and what works beside them: another server, or anything else."""

    def __init__(
        self,
        servers: Sequence["ServerWatch"],
        other: "tuple[str, ServerWatch] | None" = None,
        is_asked: bool = False,
        observing: Observing = lambda: nullcontext(lambda queries: {}),
        processes: Callable[[], list[int] | None] = list,
    ) -> None:
        """Take what observes each server, and the other's name; `is_asked`: clients query that one.

        `observing` goes around each run and gives further facts, `processes` returns the ids of further ones.
        """
        self._servers, self._other, self._is_asked = servers, other, is_asked
        self._every = [*([other[1]] if other else []), *servers]
        self._observing, self._processes = observing, processes
        self._more: Facts = lambda queries: {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what happens within."""
        with ExitStack() as stack:
            for watch in self._every:
                stack.enter_context(watch.running())
            self._more = stack.enter_context(self._observing())
            yield

    def processes(self) -> list[int] | None:
        """Return the postmasters' process ids; None where one is not on this machine, or cannot be seen."""
        found = [*(watch.processes() for watch in self._every), self._processes()]
        return None if None in found else [process for some in found for process in some or ()]

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what the last run was to all servers together, and what CPU the other one took of it.

        Waits are those of the sessions of the first server that clients query. What is not known of each
        server is not there.
        """
        every = [watch.facts(queries) for watch in self._every]
        servers = every[1:] if self._other else every
        first = every[0] if self._is_asked else servers[0]
        facts = {name: value for name, value in first.items() if not _is_summed(name)}
        for name in filter(_is_summed, servers[0]):
            # What the other one has of the table and the index is not what queries read.
            having = every if name.startswith(_OF_SERVERS) else servers
            if all(name in one for one in having):
                facts[name] = sum(one[name] for one in having)
        if self._other is not None and _CPU in every[0]:
            facts[f"{self._other[0]}_{_CPU.removeprefix(_OF_SERVERS)}"] = every[0][_CPU]
        return {**facts, **self._more(queries)}

    def close(self) -> None:
        """Close the connections."""
        for watch in self._every:
            watch.close()


def _is_summed(name: str) -> bool:
    return name.endswith("_per_query") or name == "shared_buffers"
