"""Simulated servers: what brings conditions about for the jobs of a run."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ann_benchmarks.jobs.conditions import Conditions
from ann_benchmarks.jobs.job import Job

from .containers.limits import Terms
from .pool import Observer
from .worker import Worker


class Simulation(Protocol):
    """What brings conditions about, one after the other."""

    def conditions(self, rows: int, dimension: int) -> Sequence[Conditions]:
        """Return all conditions for data of a size; UserError where the machine does not allow them."""

    @property
    def builder(self) -> Callable[[Job], Worker] | None:
        """What starts a worker that builds, which no conditions are meant for; None: as any other."""

    def begun(self) -> AbstractContextManager[Any]:
        """Return what gives all back in the end; its value starts a worker under the conditions of a job."""

    def terms(self, job: Job) -> Terms | None:
        """Return what a job's container gets instead of what all others get."""

    def observer(self, jobs: Sequence[Job]) -> Observer:
        """Return who shows the user how these jobs go."""
