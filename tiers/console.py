"""What is shown of a sweep: the tier that is begun, its progress, and an estimate of the time left."""

import time
from collections.abc import Callable, Sequence

from ann_benchmarks.common.output import counted, say, warn
from ann_benchmarks.jobs.events import Event, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.run.console import Console
from ann_benchmarks.run.pool import JobOutcome


class SweepConsole(Console):
    """Prints what run.py prints, and a line for each tier."""

    def __init__(self, jobs: Sequence[Job], trouble: Callable[[], str | None]) -> None:
        """Take all jobs, and show the order of their tiers; `trouble` returns what is wrong with one."""
        self._trouble = trouble
        self._said: str | None = None
        self._tiers = list(dict.fromkeys(str(job.procedure.conditions) for job in jobs))
        self._points = sum(len(job.points) for job in jobs)
        self._done = 0
        self._begun = time.monotonic()
        self._current: str | None = None
        say(f"{counted(len(self._tiers), 'tier')}, in this order: {', '.join(self._tiers)}")

    def started(self, job: Job) -> None:
        """Say that a definition is begun, and a tier if it is another one."""
        tier = str(job.procedure.conditions)
        if tier != self._current:
            self._current = tier
            left = f", {self._left()}" if self._done else ""
            place = f"tier {self._tiers.index(tier) + 1} of {len(self._tiers)}"
            say(f"{place}: {tier} ({self._done} of {counted(self._points, 'point')} done{left})")
        super().started(job)

    def event(self, job: Job, event: Event) -> None:
        """Show an event of a worker."""
        self._done += isinstance(event, PointDone | WorkloadDone | PointFailed)
        trouble = self._trouble()
        if trouble is not None and trouble != self._said:
            warn(trouble)
        self._said = trouble
        super().event(job, event)

    def failed(self, outcome: JobOutcome) -> None:
        """Say that a definition has failed; its other points will not be measured."""
        self._done += len(outcome.job.points) - outcome.done - outcome.failed_points
        super().failed(outcome)

    def _left(self) -> str:
        """Estimate the time left by the mean of the points that are done, starts of servers included."""
        seconds = (time.monotonic() - self._begun) / self._done * (self._points - self._done)
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"
