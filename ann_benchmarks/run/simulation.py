"""Simulated servers: what brings conditions about for the jobs of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.procedure import Conditions

from .outcomes import Observer
from .worker import Worker


class Simulation(Protocol):
    """What brings conditions about, one after the other."""

    def conditions(self, rows: int, dimension: int) -> Sequence[Conditions]:
        """Return all conditions for data of a size; UserError where the machine does not allow them."""

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> str | None:
        """Say why these cannot be measured in turn under any of the conditions; None where they can."""

    @property
    def builder(self) -> Callable[[Job], Worker] | None:
        """What starts a worker that builds, which no conditions are meant for; None: as any other."""

    def begun(self) -> AbstractContextManager[Any]:
        """Return what gives all back in the end; its value starts a worker under the conditions of a job."""

    def terms(self, job: Job) -> "Terms | None":
        """Return what a job's container gets instead of what all others get."""

    def observer(self, jobs: Sequence[Job]) -> Observer:
        """Return who shows the user how these jobs go."""


class Terms(Protocol):
    """What a job's container gets instead of what all others get, where its conditions say so."""

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
