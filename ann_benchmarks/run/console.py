"""What run.py shows of a run: a line for each thing that happened, and a table at the end."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ann_benchmarks.common.numbers import KIB, UNKNOWN, counted, duration_text, size_text
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.jobs import events
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.warnings import FIGURE, gathered
from ann_benchmarks.statistics.intervals import interval_text
from ann_benchmarks.statistics.percentiles import least_queries

MOST_ROWS = 12  # of the table at the end
MOST_POINTS = 40  # in a table
TELLING_SECONDS = 30.0  # between two lines on the time that is left


@dataclass
class JobOutcome:
    """What became of a job."""

    job: Job
    done: int = 0
    build_time: float | None = None
    built: events.Built | None = None
    seconds: float = 0.0
    failure: str | None = None
    failed_points: int = 0
    points: list[events.PointDone] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)


class Console:
    """Prints what workers report: progress and results to stdout, trouble to stderr.

    What is to be known of points is said once for all of them, in the end.
    """

    def __init__(self, jobs: Sequence[Job] = (), trouble: Callable[[], str | None] = lambda: None) -> None:
        """Take all jobs, and show the order of their tiers; `trouble` returns what is wrong with one."""
        self._trouble = trouble
        self._said: str | None = None
        tiers = (job.procedure.conditions for job in jobs)
        self._tiers = list(dict.fromkeys(str(tier) for tier in tiers if tier is not None))
        self._tier = ""
        if self._tiers:
            say(f"{counted(len(self._tiers), 'tier')}, in this order: {', '.join(self._tiers)}")
        in_turn = any(job.procedure.rounds for job in jobs)  # a race shows the time that is left itself
        self._points = 0 if in_turn else sum(len(job.points) for job in jobs)
        self._done = 0
        self._begun = self._told = time.monotonic()
        self._measured = 0
        self._dataset = ""
        self._remarks: list[tuple[str, str]] = []

    def started(self, job: Job) -> None:
        """Say that a definition is begun; where nothing is measured, its worker says if it is built.

        Before the first on a tier, the tier is said.
        """
        tier = str(job.procedure.conditions or "")
        if tier and tier != self._tier:
            place = f"tier {self._tiers.index(tier) + 1} of {len(self._tiers)}"
            done = f" ({self._done} of {counted(self._points, 'point')} done{self.left()})"
            say(f"{place}: {tier}{done if self._points else ''}")
        self._tier = tier
        if not job.execution.build_only:
            say(f"{job.label()}: {counted(len(job.points), 'point')}")

    def event(self, job: Job, event: events.Event) -> None:
        """Print what a worker reports."""
        if (trouble := self._trouble()) and trouble != self._said:
            warn(trouble)
        self._said = trouble
        self._done += isinstance(event, events.PointDone | events.WorkloadDone | events.PointFailed)
        if isinstance(event, events.BuildBegun):
            say(f"{job.label()}: building")
        elif isinstance(event, events.Built):
            size = "" if event.index_size is None else f", {size_text(event.index_size, KIB)}"
            if not job.execution.build_only:
                what = "found, ready after" if event.is_reused else "ready after"
            else:
                what = "found, built earlier in" if event.is_reused else "built in"
            say(f"{job.definition}: index {what} {event.build_time:.1f} s{size}")
        elif isinstance(event, events.PointDone):
            self._measured += 1
            self._dataset = job.dataset
            say(point_text(event))
            if (left := self.left()) and time.monotonic() > self._told + TELLING_SECONDS:
                self._told = time.monotonic()
                say(f"{self._done} of {counted(self._points, 'point')} done{left}")
        elif isinstance(event, events.PhaseDone):
            say(event.text)
        elif isinstance(event, events.WorkloadDone):
            say(f"{event.label}: kept in {event.path}")
        elif isinstance(event, events.PointFailed):
            print(f"failed: {event.label}: {event.reason}", file=sys.stderr, flush=True)
        elif isinstance(event, events.Note) and event.point:
            self._remarks.append((event.remark, event.point))
        elif isinstance(event, events.Note):
            warn(event.text)

    def left(self) -> str:
        """Say how long the other points take if they take as long as those before, starts and builds too."""
        more = self._points - self._done
        if not self._done or more <= 0:
            return ""
        return f", about {duration_text((time.monotonic() - self._begun) / self._done * more)} left"

    def failed(self, outcome: JobOutcome) -> None:
        """Say that a definition has failed, and why; its other points will not be measured."""
        self._done += len(outcome.job.points) - outcome.done - outcome.failed_points
        print(f"failed: {outcome.job.definition}: {outcome.failure}", file=sys.stderr, flush=True)

    def ended(self) -> None:
        """Say what is to be known of points: one line for each kind of remark."""
        found, self._remarks = gathered(self._remarks), []
        with suppress(OSError):  # the terminal may be lost
            for text, names in found:
                whose = (
                    f"{len(names)} of {self._measured} points" if self._measured else f"{len(names)} phases"
                )
                differ = " (the figures of the worst)" if FIGURE.search(text) else ""
                warn(f"{names[0]}: {text}" if len(names) == 1 else f"{whose}: {text}{differ}")
            if self._measured and any(len(names) > 1 for _, names in found):
                say(f"which points these are: report.json of report.py --dataset {self._dataset}")


def describe_work(jobs: Sequence[Job], finished: int) -> str:
    """Say how many definitions are to be built, or points to be measured."""
    builds = [job for job in jobs if job.execution.build_only]
    if builds:
        return f"to build: {counted(len(builds), 'definition')}"
    definitions = counted(len({str(job.definition) for job in jobs}), "definition")
    points = counted(sum(len(job.points) for job in jobs), "point")
    measured = [job.procedure for job in jobs if job.procedure.workload is None]
    runs = f", best of {counted(measured[0].runs, 'run')}" if measured else ""
    if measured and measured[0].rounds:
        runs = f", in turn: {measured[0].rounds}"
    return f"to do: {definitions} with {points}{runs}; {finished} finished before"


def point_text(point: events.PointDone) -> str:
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
            *([f"completeness {point.completeness:.4f}"] if point.completeness is not None else []),
            f"{of_runs}{point.queries_per_second:,.1f} QPS{bounds}{slowest}",
            *latencies,
            *([f"waiting for {point.main_wait}"] if point.main_wait else []),
        ]
    )


def summary(outcomes: Sequence[JobOutcome]) -> list[str]:
    """Lines of tables: the points that were measured; and of each job how many, and the time of its build.

    Of many jobs, those of a definition are one row.
    """
    if not outcomes:
        return []
    if any(outcome.job.execution.build_only for outcome in outcomes):
        return _build_summary(outcomes)
    is_long = len(outcomes) > MOST_ROWS
    groups: dict[str, list[JobOutcome]] = {}
    for outcome in outcomes:
        name = str(outcome.job.definition) if is_long else outcome.job.label()
        groups.setdefault(name, []).append(outcome)
    rows: list[tuple[str, ...]] = [("definition", "done", "skipped", "failed", "build s", "total s")]
    for name, group in groups.items():
        builds = [outcome.build_time for outcome in group if outcome.build_time is not None]
        done = sum(outcome.done for outcome in group)
        finished = sum(outcome.job.finished for outcome in group)
        missing = sum(len(outcome.job.points) for outcome in group) - done
        seconds = sum(outcome.seconds for outcome in group)
        build = f"{builds[-1]:.1f}" if builds else "-"
        rows.append((name, *map(str, (done, finished, missing)), build, f"{seconds:.1f}"))
    return [*_points(outcomes), *table_lines(rows)]


def _points(outcomes: Sequence[JobOutcome]) -> list[str]:
    """Lines of a table: recall and throughput of each point, in the order of its definition's arguments.

    A single point has none: it has just been shown.
    """
    points = {point.path: point for outcome in outcomes for point in outcome.points}
    if len(points) < 2:
        return []
    if len(points) > MOST_POINTS:
        dataset = outcomes[0].job.dataset
        return [f"all {len(points):,} points in a table: python report.py --dataset {dataset}"]
    rows: list[tuple[str, ...]] = [("point", "recall", "QPS", "95% interval", "p99 ms")]
    for point in points.values():
        bounds = point.qps_interval
        interval = f"{bounds.low:,.1f} to {bounds.high:,.1f}" if bounds else UNKNOWN
        tail = UNKNOWN if point.p99 is None else f"{point.p99 * 1e3:.3f}"
        rows.append((point.label, f"{point.recall:.4f}", f"{point.queries_per_second:,.1f}", interval, tail))
    return table_lines(rows)


def _build_summary(outcomes: Sequence[JobOutcome]) -> list[str]:
    rows: list[tuple[str, ...]] = [("definition", "index", "build s", "size", "total s")]
    for outcome in outcomes:
        state, build, size = "failed", "-", "-"
        if outcome.built is not None and not outcome.failure:
            state = "found" if outcome.built.is_reused else "built"
            build = f"{outcome.built.build_time:.1f}"
            size = size_text(outcome.built.index_size, KIB)
        rows.append((str(outcome.job.definition), state, build, size, f"{outcome.seconds:.1f}"))
    states = [row[1] for row in rows[1:]]
    parts = [f"{states.count(state)} {state}" for state in ("built", "found", "failed") if state in states]
    ending = f" {states[0]}" if len(parts) == 1 else f": {', '.join(parts)}"
    return [*table_lines(rows), counted(len(states), "definition") + ending]


def table_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table, whose first column is of texts and the others of figures."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
