"""What run.py shows of a run: a line for each thing that happened, and a table at the end."""

import sys
from collections.abc import Sequence

from ann_benchmarks.common.output import counted, say, warn
from ann_benchmarks.jobs.events import Built, Event, Note, PhaseDone, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.percentiles import least_queries

from .pool import JobOutcome


class Console:
    """Prints what workers report: progress and results to stdout, trouble to stderr."""

    def started(self, job: Job) -> None:
        """Say that a definition is begun."""
        what = "building" if job.execution.build_only else counted(len(job.points), "point")
        say(f"{job.label()}: {what}")

    def event(self, job: Job, event: Event) -> None:
        """Print what a worker reports."""
        if isinstance(event, Built):
            size = "" if event.index_size is None else f", {event.index_size / 1024:,.1f} MiB"
            if not job.execution.build_only:
                what = "ready after"
            else:
                what = "found, built earlier in" if event.is_reused else "built in"
            say(f"{job.definition}: index {what} {event.build_time:.1f} s{size}")
        elif isinstance(event, PointDone):
            say(point_text(event))
        elif isinstance(event, PhaseDone):
            say(event.text)
        elif isinstance(event, WorkloadDone):
            say(f"{event.label}: kept in {event.path}")
        elif isinstance(event, PointFailed):
            print(f"failed: {event.label}: {event.reason}", file=sys.stderr, flush=True)
        elif isinstance(event, Note):
            warn(event.text)

    def failed(self, outcome: JobOutcome) -> None:
        """Say that a definition has failed, and why."""
        print(f"failed: {outcome.job.definition}: {outcome.failure}", file=sys.stderr, flush=True)


def point_text(point: PointDone) -> str:
    """Say on one line what was measured of a point."""
    low, high = point.recall_interval
    of_runs = f"mean of {point.runs} runs " if point.runs > 1 else ""
    bounds = interval_text(point.qps_interval, lambda rate: f"{rate:,.1f}")
    slowest = f" (slowest run: {point.slowest_run:,.1f})" if point.slowest_run else ""
    latencies = [
        f"{name} {f'{seconds * 1e3:.3f} ms' if seconds else f'takes {least_queries(name):,} queries'}"
        for name, seconds in (("p50", point.p50), ("p99", point.p99))
    ]
    return ", ".join(
        [
            f"{point.label}: recall {point.recall:.4f} ({low:.4f} to {high:.4f})",
            f"{of_runs}{point.queries_per_second:,.1f} QPS{bounds}{slowest}",
            *latencies,
            *([f"waiting for {point.main_wait}"] if point.main_wait else []),
        ]
    )


def summary(outcomes: Sequence[JobOutcome]) -> list[str]:
    """Lines of a table: points measured, finished before and missing, time of the build and of all."""
    if any(outcome.job.execution.build_only for outcome in outcomes):
        return _build_summary(outcomes)
    rows: list[tuple[str, ...]] = [("definition", "done", "skipped", "failed", "build s", "total s")]
    for outcome in outcomes:
        job = outcome.job
        build = "-" if outcome.build_time is None else f"{outcome.build_time:.1f}"
        points = (outcome.done, job.finished, len(job.points) - outcome.done)
        rows.append((job.label(), *map(str, points), build, f"{outcome.seconds:.1f}"))
    return _table(rows)


def _build_summary(outcomes: Sequence[JobOutcome]) -> list[str]:
    rows: list[tuple[str, ...]] = [("definition", "index", "build s", "MiB", "total s")]
    for outcome in outcomes:
        state, build, size = "failed", "-", "-"
        if outcome.built is not None and not outcome.failure:
            state = "found" if outcome.built.is_reused else "built"
            build = f"{outcome.built.build_time:.1f}"
            size = "-" if outcome.built.index_size is None else f"{outcome.built.index_size / 1024:,.1f}"
        rows.append((str(outcome.job.definition), state, build, size, f"{outcome.seconds:.1f}"))
    states = [row[1] for row in rows[1:]]
    parts = [f"{states.count(state)} {state}" for state in ("built", "found", "failed") if state in states]
    ending = f" {states[0]}" if len(parts) == 1 else f": {', '.join(parts)}"
    return [*_table(rows), counted(len(states), "definition") + ending]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
