"""A primary and its standbys observed while clients query these: their work together, and their lag."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..servers import Server
from ..watching import ServerWatch, SeveralWatch
from .lag import LagSampler
from .position import WrittenLog


class ReplicasWatch(SeveralWatch):
    """Observes all of them."""

    def __init__(
        self,
        primary: Server,
        replicas: Sequence[Server],
        names: tuple[str, str | None],
        flush: Callable[[], None],
        begin_log: Callable[[], WrittenLog],
    ) -> None:
        """Take the servers, and the names of the table and the index, with their schema.

        `flush` has sessions flush their statistics after a run. `begin_log` gives each run what its sampler
        fills: where that goes on after it was held, what the one before has filled.
        """
        watches = [
            ServerWatch(replica, *names, flush, f"replica {number} of {len(replicas)}", is_standby=True)
            for number, replica in enumerate(replicas, 1)
        ]
        other = ServerWatch(primary, *names, name="the primary", is_standby=False)
        super().__init__(watches, other, "primary", is_asked=False)
        self._primary, self._replicas, self._begin_log = primary, replicas, begin_log
        self._lag: dict[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what happens within."""
        with super().running():
            sampler = LagSampler(self._primary, self._replicas, self._begin_log())
            try:
                yield
            finally:
                sampler.stop()
                self._lag = sampler.facts()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what the last run was to all servers together, and how far the standbys were behind."""
        return super().facts(queries) | self._lag
