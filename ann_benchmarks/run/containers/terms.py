"""What a job's container gets instead of what all others get, where its conditions say so."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol


class Terms(Protocol):
    """The terms of one container."""

    @property
    def memory(self) -> int | None:
        """Bytes; None: as all others."""

    @property
    def cpus(self) -> int | None:
        """How many of those that it would have; None: all."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Further variables of its processes."""

    def options(self, storage: Path) -> dict[str, Any]:
        """Make ready, just before it is created, and return further options of Docker's.

        `storage` is the folder of this machine in which it keeps what outlives it.
        """

    def keep(self, container: Any) -> Callable[[], None]:
        """See to it while it runs; returns what ends that."""
