"""The points of one built index: measured one after the other, and stored."""

import errno
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from statistics import fmean
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.jobs.events import Event, Note, PointDone, PointFailed
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.jobs.places import folder_for, other_server
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured, histogram
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.monitoring.monitor import Recording
from ann_benchmarks.monitoring.stored import GROUP, monitored, writer
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.environment import environment_of
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, truth_mark, write_result
from ann_benchmarks.results.intervals import (
    FEWEST_RUNS,
    Interval,
    mean_interval,
    runs_disagree,
    share_interval,
)
from ann_benchmarks.results.metrics import RECALL_SLACK, recall_of_each
from ann_benchmarks.results.percentiles import known_percentile, stored_percentiles
from ann_benchmarks.results.series import ATTRIBUTE
from ann_benchmarks.results.warnings import main_wait, remarks

from .loaded_point import LoadedPoint
from .observed import others_facts
from .target import TargetSearch
from .timed import Subject, measure, measure_each

BUILD_SAMPLES = 120  # of each phase before the first point


class Points:
    """The points of one built index."""

    def __init__(
        self,
        request: JobRequest,
        plugin: Plugin,
        dataset: Dataset,
        facts: dict[str, Any],
        report: Callable[[Event], None],
        monitor: Phases | None = None,
    ):
        """Take the built index; `facts` are stored with each point."""
        job = request.job
        self.request, self.job, self.facts, self.report = request, job, facts, report
        self.environments = request.environments
        self.procedure, self.conditions = job.procedure, request.conditions
        self.monitor = monitor or NoMonitor()
        # What happened before the first point, stored with each of them if it has made the index.
        self.built = self.monitor.cut().thinned(BUILD_SAMPLES)
        self.metric = str(dataset.attrs["distance"])
        # Opened again, because plug-ins may change in place what they are given.
        sparse = dataset.attrs.get("type") == "sparse"
        self.train: Any = dataset.train() if sparse else dataset.train_rows()
        self.queries = dataset.queries(job.count)
        self.true_distances = self.queries.truth.known_distances
        how = (job.count, len(self.train), self.conditions, self.monitor, job.execution.quiet)
        self.one_by_one = Subject(plugin, self.queries.copied_vectors(), *how)
        self.at_once = Subject(plugin, self.queries.copied_batch(), *how)
        self.plugin = plugin
        self.kills = self.conditions.kills() if self.conditions is not None else 0

    def share_repeats(self, most: int) -> None:
        """Have all that is measured share this many repeats of disturbed runs."""
        repeats = self.one_by_one.new_repeats(most)
        self.one_by_one = replace(self.one_by_one, all_repeats=repeats)
        self.at_once = replace(self.at_once, all_repeats=repeats)

    def measure_all(self) -> None:
        """Measure one point after the other.

        A plug-in that can recover (a database) loses the point that failed; any other one ends.
        """
        for query_arguments in self.job.points:
            if not self.try_point(query_arguments, is_last=False):
                self.try_point(query_arguments, is_last=True)

    def try_point(self, query_arguments: list[Any], is_last: bool) -> bool:
        """Measure a point; return whether that is the end of it: it is tried again where memory ran out.

        Sessions that come at once take memory faster than a small server can be given it for them.
        """
        try:
            self.measure_point(query_arguments)
        except Exception as error:
            is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            if is_full or isinstance(error, MemoryError) or not self.plugin.can_recover:
                raise
            name, of_memory = self.job.label(query_arguments), self.lack_of_memory()
            reason = describe(error) + of_memory
            is_end = is_last or not of_memory
            if is_end:
                details = "" if isinstance(error, UserError) else traceback.format_exc()
                self.report(PointFailed(name, reason, details))
            else:
                self.report(Note(f"{name}: {reason}; it is measured once more"))
            self.plugin.recover()
            return is_end
        return True

    def lack_of_memory(self) -> str:
        """Say that a point has failed for want of memory, where that is so."""
        if self.conditions is None or self.conditions.kills() == self.kills:
            return ""
        self.kills = self.conditions.kills()
        return "; the memory did not suffice and the system ended a process: leave more beside shared_buffers"

    def measure_point(self, query_arguments: list[Any]) -> None:
        """Set the arguments, or search for them, measure, and store."""
        self.monitor.cut()
        started_at = now()
        runs, found_facts = self.measured(query_arguments, self.measure_runs)
        self.keep(query_arguments, runs, {"started_at": started_at}, found_facts)

    def measured(
        self,
        query_arguments: list[Any],
        measure_runs: Callable[[], list[Measured]],
        found_before: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[list[Measured], dict[str, Any]]:
        """Measure with these arguments, or where the target recall is first reached.

        Returns the runs, and what is stored of the search. `found_before` is what other points have found,
        beside what the request knows.
        """
        target = self.procedure.target_recall
        if target is None:
            self.set_arguments(query_arguments, {})
            return measure_runs(), {}
        search = self.target_search(self.job.label(query_arguments), target)
        known = [*self.request.found_before, *found_before]
        return search.measure(measure_runs, self.kept_neighbors, known, self.index_facts)

    def set_arguments(self, query_arguments: list[Any], found_facts: Mapping[str, Any]) -> None:
        """Set the arguments of a point, or those that the search for them has found."""
        if self.procedure.target_recall is None:
            if query_arguments:
                self.plugin.set_query_arguments(*query_arguments)
        elif found_facts and (search := self.plugin.search_range(self.job.count)):
            self.plugin.set_query_arguments(*search.arguments(found_facts["target_value"]))

    def keep(
        self,
        query_arguments: list[Any],
        runs: list[Measured],
        before: dict[str, Any],
        found_facts: dict[str, Any],
    ) -> None:
        """Store a point and report it; `before` are attributes that were known before it was measured."""
        name = self.job.label(query_arguments)
        most = representative(runs).neighbors.shape[1]
        if most > self.job.count:
            kept = f"the first {self.job.count} are kept"
            self.report(Note(f"{name} answered with up to {most} neighbours; {kept}"))
        attrs, found = self.store(query_arguments, runs, before, found_facts)
        for text in remarks(attrs):
            self.report(Note(f"{name}: {text}"))
        if found_facts:
            name = f"{name}: {found_facts['target_parameter']}={found_facts['target_value']}"
        self.report(self.done(name, query_arguments, runs, attrs, found))

    def store(
        self,
        query_arguments: list[Any],
        runs: list[Measured],
        before: dict[str, Any],
        found_facts: dict[str, Any],
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Write the result file; return its attributes and each query's recall, (queries,)."""
        job, shown = self.job, representative(runs)
        neighbors = self.kept_neighbors(runs)
        distances = self.distances(neighbors)
        found = self.recalls(distances)
        recall, times = share_interval(found), [run.times for run in runs]
        run_recalls = [float(found.mean()) if run is shown else self.recall_of(run) for run in runs]
        rates = [1 / run.seconds_per_query for run in runs]
        qps = mean_interval(rates)
        attrs = {
            **host_facts(),
            **self.facts,
            **before,
            **self.truth_facts,
            "build_arguments": job.definition.arguments,
            "run_seconds": [run.seconds_per_query for run in runs],
            "run_started": [run.started for run in runs],
            "recall_low": recall.low,
            "recall_high": recall.high,
            "qps_mean": fmean(rates),
            "qps_low": qps.low,
            "qps_high": qps.high,
            "runs_disagree": runs_disagree(times),
            **others_facts(runs),
            "run_recalls": run_recalls,
            **stored_percentiles(times),
            "batch_mode": self.procedure.batch,
            "best_search_time": shown.seconds_per_query,
            "candidates": np.count_nonzero(shown.neighbors >= 0) / len(shown.neighbors),
            "expect_extra": self.plugin.reports_extra,
            "name": str(self.plugin),
            "run_count": len(runs),
            "distance": self.metric,
            "count": job.count,
            # A plug-in that found its index built knows what the build had taken.
            **self.plugin.get_additional(),
            **shown.facts,
            **found_facts,
            "asking_seconds": sum(
                run.facts.get("asking_seconds", run.seconds_per_query * len(run.times)) for run in runs
            ),
            "dataset": job.dataset,
        }
        job = self.placed(attrs)
        attrs |= {"algo": job.series.label, ATTRIBUTE: job.series.as_json()}
        edges, counts = histogram(times)
        more: dict[str, Any] = {"latency_histogram_edges": edges, "latency_histogram": counts}
        recording = self.monitor.cut()
        built = Recording() if attrs.get("index_reused") else self.built
        if (sampled := monitored(recording.after(built))) is not None:
            attrs["monitoring_cpu_seconds"] = recording.cpu_seconds
            more[GROUP] = writer(sampled)
        write_result(job.path(query_arguments), attrs, shown.times, neighbors, distances, more)
        return attrs, found

    def placed(self, attrs: Mapping[str, Any]) -> Job:
        """Return the job with the folder of the environment that a point was measured in.

        The plan has chosen one before the server ran; where that shows another server, it is said.
        """
        facts = environment_of(attrs)
        mark = folder_for(facts, self.environments)
        if mark != self.job.environment:
            self.job = replace(self.job, environment=mark)
            why = other_server(facts, self.environments) or "the server is another one than was expected"
            self.report(Note(f"{self.job.label()}: {why}: results go to {self.job.path([]).parent}"))
        self.environments = {**self.environments, mark: [*self.environments.get(mark, ()), facts]}
        return self.job

    def done(
        self,
        name: str,
        query_arguments: list[Any],
        runs: list[Measured],
        attrs: dict[str, Any],
        found: np.ndarray,
    ) -> PointDone:
        """Return what is reported of a point that is stored."""
        shown = representative(runs)
        is_open = shown.facts.get("loop") == "open"
        return PointDone(
            label=name,
            path=self.job.path(query_arguments),  # as `placed` has left it
            recall=float(found.mean()),
            recall_interval=share_interval(found),
            runs=len(runs),
            queries_per_second=attrs["qps_mean"],
            qps_interval=Interval(attrs["qps_low"], attrs["qps_high"]) if len(runs) >= FEWEST_RUNS else None,
            slowest_run=min(1 / run.seconds_per_query for run in runs)
            if attrs["runs_disagree"] and not is_open
            else None,
            p50=known_percentile(attrs, "p50"),
            p99=known_percentile(attrs, "p99"),
            build_time=float(attrs["build_time"]),
            main_wait=main_wait(shown.facts),
        )

    @property
    def index_facts(self) -> dict[str, Any]:
        """What identifies the index and the data."""
        return self.facts | self.plugin.get_additional() | self.truth_facts

    @property
    def truth_facts(self) -> dict[str, str]:
        """The mark of the data that recall is counted against."""
        return {TRUTH_ATTRIBUTE: truth_mark(self.true_distances)}

    def target_search(self, name: str, target: float) -> TargetSearch:
        """Return the search for the smallest query argument that reaches a recall."""
        return TargetSearch(
            self.one_by_one,
            target,
            lambda neighbors: self.recalls(self.distances(neighbors[:, : self.job.count])),
            self.answers,
            lambda text: self.report(Note(f"{name}: {text}")),
        )

    def answers(self) -> np.ndarray:
        """Have all queries answered once with the arguments as set; (queries, at least count)."""
        load = self.procedure.load
        return self.loaded(load).answers() if load is not None else measure(self.one_by_one, False).neighbors

    def recall_of(self, run: Measured) -> float:
        """Return the recall of a run's own answers."""
        return float(self.recalls(self.distances(run.neighbors[:, : self.job.count])).mean())

    def kept_neighbors(self, runs: list[Measured]) -> np.ndarray:
        """Return the answers that are stored, (queries, count)."""
        return representative(runs).neighbors[:, : self.job.count]

    def distances(self, neighbors: np.ndarray) -> np.ndarray:
        """Compute the distances of what was found, (queries, count)."""
        return candidate_distances(self.metric, self.queries.vectors, self.train, neighbors)

    def recalls(self, distances: np.ndarray) -> np.ndarray:
        """Return each query's recall, (queries,)."""
        return recall_of_each(distances, self.true_distances[:, -1] + RECALL_SLACK, self.job.count)

    def measure_runs(self, numbers: Sequence[int] = (), is_warm: bool = False) -> list[Measured]:
        """Measure the runs of these numbers, by default all of a point, by the procedure."""
        procedure = self.procedure
        numbers = numbers or range(procedure.runs)
        if procedure.load is not None:
            return self.loaded(procedure.load).measure(procedure.warmup or Warmup(), numbers, is_warm)
        subject = self.at_once if procedure.batch else self.one_by_one
        return measure_each(subject, procedure, len(numbers), is_warm)

    def loaded(self, load: Load) -> LoadedPoint:
        """Return the point as clients query it."""
        return LoadedPoint(self.at_once, load)


def now() -> str:
    """Return the time of day, as results store it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def representative(runs: list[Measured]) -> Measured:
    """Choose the run that is stored: the one with the highest throughput, as ann-benchmarks does.

    Where the throughput was given, it is the one whose 99th percentile is the median.
    """
    if runs[0].facts.get("loop") == "open":
        return sorted(runs, key=lambda run: float(np.percentile(run.times, 99)))[len(runs) // 2]
    return min(runs, key=lambda run: run.seconds_per_query)
