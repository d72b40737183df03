"""Several servers observed while clients send queries: what they did for a query, together."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from .watch import ServerWatch

_OF_SERVERS = "server_"  # begins the names of what is work of every server
_CPU = "server_cpu_seconds_per_query"


class SeveralWatch:
    """Observes servers that have the rows, and another one that works for them where there is one."""

    def __init__(
        self, servers: Sequence["AnyWatch"], other: ServerWatch | None, name: str, is_asked: bool
    ) -> None:
        """Take what observes each of them, and the other's name; `is_asked`: clients query that one."""
        self._servers, self._other, self._name, self._is_asked = servers, other, name, is_asked

    @property
    def _all(self) -> list["AnyWatch"]:
        return [*([self._other] if self._other else []), *self._servers]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what happens within."""
        with ExitStack() as stack:
            for watch in self._all:
                stack.enter_context(watch.running())
            yield

    def processes(self) -> list[int] | None:
        """Return the postmasters' process ids; None where one is not on this machine, or cannot be seen."""
        found = [watch.processes() for watch in self._all]
        return None if None in found else [process for some in found for process in some or ()]

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what the last run was to all servers together, and what CPU the other one took of it.

        Waits are those of the sessions of the first server that clients query. What is not known of each
        server is not there.
        """
        servers = [watch.facts(queries) for watch in self._servers]
        other = None if self._other is None else self._other.facts(queries)
        every = servers if other is None else [other, *servers]
        first = every[0] if self._is_asked else servers[0]
        facts = {name: value for name, value in first.items() if not _is_summed(name)}
        for name in filter(_is_summed, servers[0]):
            # What the other one has of the table and the index is not what queries read.
            having = every if name.startswith(_OF_SERVERS) else servers
            if all(name in one for one in having):
                facts[name] = sum(one[name] for one in having)
        if other is not None and _CPU in other:
            facts[f"{self._name}_{_CPU.removeprefix('server_')}"] = other[_CPU]
        return facts

    def close(self) -> None:
        """Close the connections."""
        for watch in self._all:
            watch.close()


AnyWatch = ServerWatch | SeveralWatch


def _is_summed(name: str) -> bool:
    return name.endswith("_per_query") or name == "shared_buffers"
