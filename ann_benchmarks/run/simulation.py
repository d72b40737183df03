"""Simulated servers: what brings conditions about for the jobs of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Conditions, Job

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


@dataclass(frozen=True)
class Terms:
    """What a job's container gets instead of what all others get, where its conditions say so."""

    memory: int | None = None  # bytes; None: as all others
    cpus: int | None = None  # how many of those that it would have; None: all
    environment: Mapping[str, str] = field(default_factory=dict)  # further variables of its processes
    # Makes its storage ready, a folder of this machine, just before it is created; returns Docker's options.
    make_ready: Callable[[Path], dict[str, Any]] = lambda storage: {}
    # Sees to the container while it runs; returns what ends that.
    keep: Callable[[Any], Callable[[], None]] = lambda container: lambda: None
