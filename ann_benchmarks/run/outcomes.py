"""What becomes of jobs: what their workers report, who is shown it, and the traceback that is kept."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ann_benchmarks.common.errors import NoDefinitionRuns
from ann_benchmarks.jobs.events import Built, Event, Failure, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.job import Job

from .worker import Worker

LOG_FOLDER = "logs"


@dataclass
class JobOutcome:
    """What became of a job."""

    job: Job
    done: int = 0
    build_time: float | None = None
    built: Built | None = None
    seconds: float = 0.0
    failure: str | None = None
    failed_points: int = 0
    points: list[PointDone] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)


class Observer(Protocol):
    """Takes note of how the jobs go."""

    def started(self, job: Job) -> None:
        """A job has been given to a worker."""

    def event(self, job: Job, event: Event) -> None:
        """The worker has reported something."""

    def failed(self, outcome: JobOutcome) -> None:
        """The job has ended early."""

    def ended(self) -> None:
        """All jobs have ended, or the user has ended them."""


def noted(outcome: JobOutcome, message: Event, worker: Worker) -> Event:
    """Take account of an event; return it, with the place of its traceback where a point has failed."""
    if isinstance(message, Built | PointDone):
        outcome.build_time = message.build_time
    if isinstance(message, Built):
        outcome.built = message
    if isinstance(message, PointDone):
        outcome.points.append(message)
    outcome.done += isinstance(message, PointDone | WorkloadDone)
    if not isinstance(message, PointFailed):
        return message
    outcome.failed_points += 1
    is_first = outcome.failed_points == 1 and not worker.keeps_log
    log = _kept(outcome.job, Failure(message.reason, message.details), "w" if is_first else "a")
    return replace(message, reason=message.reason + log)


def note_failure(outcome: JobOutcome, failure: Failure, worker: Worker, observer: Observer) -> None:
    """Take account of the end of a job that has failed; NoDefinitionRuns where all others would, too."""
    if failure.ends_run:
        raise NoDefinitionRuns(failure.text)
    outcome.failure = failure.text + _kept(outcome.job, failure, "a" if worker.keeps_log else "w")
    observer.failed(outcome)


def _kept(job: Job, failure: Failure, mode: str) -> str:
    """Keep a traceback where the user can find it; return the end of the line that says where."""
    if not failure.details:
        return ""
    path = log_path(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, errors="replace") as file:
            file.write(f"{job.definition}: {failure.text}\n\n{failure.details}\n")
    except OSError:
        return ""
    return f" (see {path})"


def log_path(job: Job) -> Path:
    """Return where the log of a definition lies: logs/DATASET/COUNT/SERIES/ARGS.log."""
    place = job.path([])
    name = place.name.partition(".")[0] or "no_arguments"
    return Path(LOG_FOLDER, *place.parts[1:-1], f"{name}.log")
