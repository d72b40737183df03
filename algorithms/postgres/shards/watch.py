"""All servers of a sharded table observed while clients send queries: what they did for a query, together."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ..watching import ServerWatch

_OF_SERVERS = "server_"  # begins the names of what is work of every server
_CPU = "server_cpu_seconds_per_query"


class ShardsWatch:
    """Observes the coordinator, where there is one, and all shards."""

    def __init__(self, coordinator: ServerWatch | None, shards: Sequence[ServerWatch]) -> None:
        """Take what observes each of them."""
        self._coordinator, self._shards = coordinator, shards

    @property
    def _all(self) -> list[ServerWatch]:
        return [*([self._coordinator] if self._coordinator else []), *self._shards]

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
        """Return what the last run was to all servers together, and what CPU the coordinator took of it.

        Waits are those of the coordinator's sessions; without one, of the first shard's. What is not known of
        each server is not there.
        """
        shards = [watch.facts(queries) for watch in self._shards]
        every = shards if self._coordinator is None else [self._coordinator.facts(queries), *shards]
        first = every[0]
        facts = {name: value for name, value in first.items() if not _is_summed(name)}
        for name in filter(_is_summed, shards[0]):
            # A coordinator has no blocks of the table and the index, and its memory holds none.
            having = every if name.startswith(_OF_SERVERS) else shards
            if all(name in one for one in having):
                facts[name] = sum(one[name] for one in having)
        if self._coordinator is not None and _CPU in first:
            facts[f"coordinator_{_CPU.removeprefix('server_')}"] = first[_CPU]
        return facts

    def close(self) -> None:
        """Close the connections."""
        for watch in self._all:
            watch.close()


def _is_summed(name: str) -> bool:
    return name.endswith("_per_query") or name == "shared_buffers"
