"""Conditions that a job is measured under, where they are others than the machine's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ann_benchmarks.run.containers.terms import Terms
    from ann_benchmarks.run.workers import AnyWorker, Observer

    from .job import Job


class Watch(Protocol):
    """Sees what happens in each run, and says it afterwards."""

    def running(self) -> AbstractContextManager[None]:
        """Go around the timed part."""

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what was seen, for each of so many queries."""

    def close(self) -> None:
        """End it."""


class Conditions(Protocol):
    """One set of conditions: comparable, and picklable for the process that measures."""

    @property
    def series(self) -> str:
        """What they add to the name of a curve."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of every point that is measured under them."""

    def watch(self) -> Watch:
        """See in a run that they hold."""

    def kills(self) -> int:
        """How many processes the system has ended so far because the memory was used up."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where what was seen in a run, also by others, shows that they did not hold."""


class Simulation(Protocol):
    """What brings conditions about, one after the other, for the jobs of a run."""

    def conditions(self, rows: int, dimension: int) -> Sequence[Conditions]:
        """Return all conditions for data of a size; UserError where the machine does not allow them."""

    @property
    def builder(self) -> "Callable[[Job], AnyWorker] | None":
        """What starts a worker that builds, which no conditions are meant for; None: as any other."""

    def begun(self) -> "AbstractContextManager[Any]":
        """Return what gives all back in the end; its value starts a worker under the conditions of a job."""

    def terms(self, job: "Job") -> "Terms | None":
        """Return what a job's container gets instead of what all others get."""

    def observer(self, jobs: "Sequence[Job]") -> "Observer":
        """Return who tells the user how these jobs go."""


class WatchedUnder:
    """A plug-in's own watch and that of the conditions, as one."""

    def __init__(self, own: Watch, conditions: Conditions) -> None:
        """Take both."""
        self._own, self._conditions, self._theirs = own, conditions, conditions.watch()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go around the timed part."""
        with ExitStack() as stack:
            stack.enter_context(self._theirs.running())
            stack.enter_context(self._own.running())
            yield

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what both have seen; UserError where it shows that the conditions did not hold."""
        facts = self._theirs.facts(queries) | self._own.facts(queries)
        self._conditions.check(facts)
        return facts

    def close(self) -> None:
        """End both."""
        self._theirs.close()
        self._own.close()
