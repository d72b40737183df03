"""The points of one built index: measured one after the other, and stored."""

import errno
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.common.errors import UserError, told
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.definitions.definition import label
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.jobs.found_before import value_found_before
from ann_benchmarks.jobs.job import Event, Job, Note, PointDone, PointFailed
from ann_benchmarks.load.latencies import histogram, percentiles
from ann_benchmarks.load.measured import Measured
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.target import ROUNDING, smallest_reaching
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.monitoring.monitor import NoMonitor, Phases, Recording
from ann_benchmarks.monitoring.stored import GROUP, monitored, writer
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, truth_mark, write_result
from ann_benchmarks.results.intervals import mean_interval, runs_disagree, share_interval
from ann_benchmarks.results.metrics import RECALL_SLACK, recall_of_each
from ann_benchmarks.results.series import ATTRIBUTE
from ann_benchmarks.results.warnings import main_wait, remarks

from .loaded_point import LoadedPoint
from .timed import measure, measure_each

BUILD_SAMPLES = 120  # of each phase before the first point


class Points:
    """The points of one built index."""

    def __init__(
        self,
        job: Job,
        algo: BaseANN,
        dataset: Dataset,
        facts: dict[str, Any],
        report: Callable[[Event], None],
        monitor: Phases | None = None,
    ):
        self.job = job
        self.algo: Any = algo
        self.facts = facts
        self.report = report
        self.monitor = monitor or NoMonitor()
        # What happened before the first point, stored with each of them if it has made the index.
        self.built = self.monitor.cut().thinned(BUILD_SAMPLES)
        self.metric = str(dataset.attrs["distance"])
        # Opened again, because plug-ins may change in place what they are given.
        sparse = dataset.attrs.get("type") == "sparse"
        self.train: Any = dataset.train() if sparse else dataset.train_rows()
        self.test = dataset.test()
        self.queries = [np.array(query) for query in self.test]
        self.all_queries = self.queries if isinstance(self.test, list) else np.array(self.test)
        self.true_distances = dataset.true_distances(job.count)
        self.quiet = None if job.show_progress else True  # None: unless it is a terminal
        self.kills = job.conditions.kills() if job.conditions is not None else 0

    def measure_all(self) -> None:
        """Measure one point after the other.

        A plug-in that can recover (a database) loses the point that failed; any other one ends.
        """
        for query_arguments in self.job.points:
            if not self.tried(query_arguments, is_last=False):
                self.tried(query_arguments, is_last=True)

    def tried(self, query_arguments: list[Any], is_last: bool) -> bool:
        """Measure a point, and say whether that is the end of it: it is tried again where memory ran out.

        Sessions that come at once take memory faster than a small server can be given it for them.
        """
        try:
            self.measure_point(query_arguments)
        except Exception as error:
            is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            if is_full or isinstance(error, MemoryError) or not hasattr(self.algo, "recover"):
                raise
            name, of_memory = self.label(query_arguments), self.of_memory()
            reason = told(error) + of_memory
            is_end = is_last or not of_memory
            if is_end:
                details = "" if isinstance(error, UserError) else traceback.format_exc()
                self.report(PointFailed(name, reason, details))
            else:
                self.report(Note(f"{name}: {reason}; it is measured once more"))
            self.algo.recover()
            return is_end
        return True

    def of_memory(self) -> str:
        """Say that a point has failed for want of memory, where that is so."""
        if self.job.conditions is None or self.job.conditions.kills() == self.kills:
            return ""
        self.kills = self.job.conditions.kills()
        return "; the memory did not suffice and the system ended a process: leave more beside shared_buffers"

    def label(self, query_arguments: list[Any]) -> str:
        """Name a point for the user."""
        definition = self.job.definition
        return label(definition.family, definition.arguments + query_arguments) + self.job.by_clients

    def measure_point(self, query_arguments: list[Any]) -> None:
        """Set the arguments, or search for them, measure, and store."""
        job = self.job
        name = self.label(query_arguments)
        self.monitor.cut()
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        if job.target_recall is not None:
            runs, found_facts = self.measure_at_target(name, job.target_recall)
        else:
            if query_arguments:
                self.algo.set_query_arguments(*query_arguments)
            runs, found_facts = self.measure_runs(), {}
        shown = representative(runs)
        neighbors = shown.neighbors[:, : job.count]
        if shown.neighbors.shape[1] > job.count:
            most = shown.neighbors.shape[1]
            self.report(Note(f"{name} answered with up to {most} neighbours; the first {job.count} are kept"))
        distances = self.distances(neighbors)
        found = self.recalls(distances)
        recall, rates = share_interval(found), [1 / run.seconds_per_query for run in runs]
        times = [run.times for run in runs]
        qps, disagree = mean_interval(rates), runs_disagree(times)
        latencies = percentiles(times)
        path = job.path(query_arguments)
        attrs = {
            **host_facts(),
            **self.facts,
            "started_at": started_at,
            TRUTH_ATTRIBUTE: truth_mark(self.true_distances),
            "build_arguments": job.definition.arguments,
            "run_seconds": [run.seconds_per_query for run in runs],
            "recall_low": recall.low,
            "recall_high": recall.high,
            "qps_low": qps.low,
            "qps_high": qps.high,
            "runs_disagree": disagree,
            **latencies,
            "batch_mode": job.batch,
            "best_search_time": shown.seconds_per_query,
            "candidates": np.count_nonzero(shown.neighbors >= 0) / len(shown.neighbors),
            "expect_extra": hasattr(self.algo, "query_verbose"),
            "name": str(self.algo),
            "run_count": job.runs,
            "distance": self.metric,
            "count": job.count,
            # A plug-in that found its index built knows what the build had taken.
            **self.algo.get_additional(),
            **shown.facts,
            **found_facts,
            "asking_seconds": sum(
                run.facts.get("asking_seconds", run.seconds_per_query * len(run.times)) for run in runs
            ),
            "algo": job.series.label,
            ATTRIBUTE: job.series.as_json(),
            "dataset": job.dataset,
        }
        edges, counts = histogram(times)
        more: dict[str, Any] = {"latency_histogram_edges": edges, "latency_histogram": counts}
        recording = self.monitor.cut()
        before = Recording() if attrs.get("index_reused") else self.built
        if (sampled := monitored(recording.after(before))) is not None:
            attrs["monitoring_cpu_seconds"] = recording.cpu_seconds
            more[GROUP] = writer(sampled)
        write_result(path, attrs, shown.times, neighbors, distances, more)
        for text in remarks(attrs):
            self.report(Note(f"{name}: {text}"))
        self.report(
            PointDone(
                label=f"{name}: {found_facts['target_parameter']}={found_facts['target_value']}"
                if found_facts
                else name,
                path=path,
                recall=float(found.mean()),
                recall_interval=recall,
                queries_per_second=1 / shown.seconds_per_query,
                slowest_run=min(rates) if disagree and shown.facts.get("loop") != "open" else None,
                p50=latencies["latency_p50"],
                p99=latencies["latency_p99"],
                build_time=float(attrs["build_time"]),
                main_wait=main_wait(shown.facts),
            )
        )

    def measure_at_target(self, name: str, target: float) -> tuple[list[Measured], dict[str, Any]]:
        """Measure where a recall is first reached; return the runs, and what is stored of the search.

        A value that another curve of the same index has found is taken, and searched anew only where it is
        seen not to reach the recall here. An algorithm without query arguments is measured as it is.
        """
        search = self.algo.search_range(self.job.count) if hasattr(self.algo, "search_range") else None
        if search is None:
            return self.measure_runs(), {}
        index = self.facts | self.algo.get_additional() | {TRUTH_ATTRIBUTE: truth_mark(self.true_distances)}
        known = value_found_before(self.job, search.parameter, search.values, index)
        if known is not None:
            self.algo.set_query_arguments(*search.arguments(known))
            runs = self.measure_runs()
            neighbors = representative(runs).neighbors[:, : self.job.count]
            if self.recalls(self.distances(neighbors)).mean() >= target - ROUNDING:
                return runs, {
                    "target_recall": target,
                    "target_parameter": search.parameter,
                    "target_value": known,
                    "target_trials": 0,
                }
        found_facts = self.search(name, target, search)
        return self.measure_runs(), found_facts

    def search(self, name: str, target: float, search: Any) -> dict[str, Any]:
        """Set the smallest query argument that reaches a recall, and return what is stored of the search."""
        recalls: list[float] = []

        def recall_of(value: Any) -> float:
            self.algo.set_query_arguments(*search.arguments(value))
            recalls.append(float(self.recalls(self.distances(self.answers()[:, : self.job.count])).mean()))
            bar.set_postfix_str(f"recall {recalls[-1]:.4f}")
            bar.update()
            return recalls[-1]

        with tqdm(desc=f"searching {search.parameter}", unit="value", disable=self.quiet, leave=False) as bar:
            step = 1 / (len(self.queries) * self.job.count)
            found = smallest_reaching(target, search.values, recall_of, step)
        self.algo.set_query_arguments(*search.arguments(found.value))
        if not found.is_reached:
            best = f"{found.recall:.4f} at {search.parameter}={found.value}, its largest value"
            self.report(Note(f"{name}: recall {target:g} is not reached, only {best}"))
        return {
            "target_recall" if found.is_reached else "target_missed": target,
            "target_parameter": search.parameter,
            "target_value": found.value,
            "target_trials": found.trials,
        }

    def answers(self) -> np.ndarray:
        """Have all queries answered once with the arguments as set; (queries, at least count)."""
        job = self.job
        if job.load is not None:
            return self.loaded(job.load).answers()
        nothing: Callable[[int], None] = lambda done: None  # noqa: E731
        return measure(self.algo, self.queries, job.count, False, len(self.train), nothing).neighbors

    def distances(self, neighbors: np.ndarray) -> np.ndarray:
        """Compute the distances of what was found, (queries, count)."""
        return candidate_distances(self.metric, self.test, self.train, neighbors)

    def recalls(self, distances: np.ndarray) -> np.ndarray:
        """Return each query's recall, (queries,)."""
        return recall_of_each(distances, self.true_distances[:, -1] + RECALL_SLACK, self.job.count)

    def measure_runs(self) -> list[Measured]:
        """Measure all runs of a point, in the way that the job asks for."""
        job = self.job
        if job.load is not None:
            return self.loaded(job.load).measure(job.warmup or Warmup(), job.runs, self.quiet)
        queries = self.all_queries if job.batch else self.queries
        how = (job.runs, job.warmup, self.quiet, job.conditions, self.monitor)
        return measure_each(self.algo, queries, job.count, job.batch, len(self.train), *how)

    def loaded(self, load: Load) -> LoadedPoint:
        """Return the point as clients ask it."""
        job = self.job
        rows = len(self.train)
        return LoadedPoint(self.algo, self.all_queries, job.count, load, rows, job.conditions, self.monitor)


def representative(runs: list[Measured]) -> Measured:
    """Choose the run that is stored: the one with the highest throughput, as ann-benchmarks does.

    Where the throughput was given, it is the one whose 99th percentile is the median.
    """
    if runs[0].facts.get("loop") == "open":
        return sorted(runs, key=lambda run: float(np.percentile(run.times, 99)))[len(runs) // 2]
    return min(runs, key=lambda run: run.seconds_per_query)
