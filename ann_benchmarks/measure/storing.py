"""A measured point, stored: its answers are judged, its runs summed up, its file written."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from statistics import fmean
from typing import Any

import numpy as np

from ann_benchmarks.common.host import host_facts
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.distance import candidate_distances, rounded_up
from ann_benchmarks.fields.series import ATTRIBUTE
from ann_benchmarks.jobs.events import Event, Note, PointDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.jobs.places import folder_for, other_server
from ann_benchmarks.load.spans import Measured, histogram
from ann_benchmarks.monitoring.monitor import Recording
from ann_benchmarks.monitoring.stored import GROUP, group_writer, monitored
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.environment import environment_of
from ann_benchmarks.results.file import RESULT_FORMAT, TRUTH_ATTRIBUTE, truth_mark, write_result
from ann_benchmarks.results.measurement import (
    EXACT_SEARCH,
    PARTS,
    completeness_of_each,
    recall_of_each,
    recall_parts,
)
from ann_benchmarks.results.remarks import main_wait, remarks
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.statistics.intervals import (
    FEWEST_RUNS,
    Interval,
    mean_interval,
    runs_disagree,
    share_interval,
)
from ann_benchmarks.statistics.percentiles import known_percentile, relaxations, stored_percentiles

from .answers import decile_figures, filter_figures, require_complete, require_no_better
from .observed import others_facts


class PointStore:
    """Where the points of one built index are stored."""

    def __init__(
        self,
        request: JobRequest,
        plugin: Plugin,
        dataset: Dataset,
        facts: dict[str, Any],
        report: Callable[[Event], None],
        built: Recording,
    ) -> None:
        """Take the index; `facts` are stored with each point, `built` with those whose job has built it."""
        self.job, self.facts, self.report, self.built = request.job, facts, report, built
        self.plugin, self.environments = plugin, request.environments
        self.metric = str(dataset.attrs["distance"])
        # Opened again, because plug-ins may change in place what they are given.
        sparse = dataset.attrs.get("type") == "sparse"
        self.train: Any = dataset.train() if sparse else dataset.train_rows()
        self.queries = dataset.queries(self.job.count, self.job.procedure.filter)
        self.true_distances = self.queries.truth.known_distances
        truth = Truth(self.true_distances, self.queries.filters is not None)
        self.farthest, self.due = rounded_up(truth.nth(self.job.count)), truth.due(self.job.count)
        self._matches: np.ndarray | None = None  # of each query's filter, (queries,)
        if self.queries.filters is not None:
            self.facts = self.facts | self._filter_facts(dataset)

    @property
    def index_facts(self) -> dict[str, Any]:
        """What identifies the index and the data."""
        return self.facts | self.plugin.get_additional() | self.truth_facts

    @property
    def truth_facts(self) -> dict[str, str]:
        """The mark of the data that recall is counted against."""
        return {TRUTH_ATTRIBUTE: truth_mark(self.true_distances)}

    def kept_neighbors(self, runs: list[Measured]) -> np.ndarray:
        """Return the answers that are stored, (queries, count)."""
        return representative(runs).neighbors[:, : self.job.count]

    def recalls_of(self, neighbors: np.ndarray) -> np.ndarray:
        """Return each query's recall, (queries,), of answers (queries, at least count)."""
        return self._recalls(self._distances(neighbors[:, : self.job.count]))

    def keep(
        self,
        query_arguments: list[Any],
        runs: list[Measured],
        facts: dict[str, Any],
        recording: Recording,
    ) -> None:
        """Store a point and report it; `facts` are attributes, `recording` is what was observed meanwhile."""
        name, shown = self.job.label(query_arguments), representative(runs)
        most = shown.neighbors.shape[1]
        if most > self.job.count:
            kept = f"the first {self.job.count} are kept"
            self.report(Note(f"answers had up to {most} neighbours; {kept}", name))
        attrs, found = self._store(query_arguments, runs, facts, recording)
        for text in remarks(attrs):
            self.report(Note.about(name, text))
        if "target_parameter" in facts:
            name = f"{name}: {facts['target_parameter']}={facts['target_value']}"
        is_noisy = attrs["runs_disagree"] and shown.facts.get("loop") != "open"
        done = PointDone(
            label=name,
            path=self.job.path(query_arguments),  # in the folder that _placed has chosen
            recall=float(found.mean()),
            recall_interval=share_interval(found),
            runs=len(runs),
            queries_per_second=attrs["qps_mean"],
            qps_interval=Interval(attrs["qps_low"], attrs["qps_high"]) if len(runs) >= FEWEST_RUNS else None,
            slowest_run=min(1 / run.seconds_per_query for run in runs) if is_noisy else None,
            p50=known_percentile(attrs, "p50"),
            p99=known_percentile(attrs, "p99"),
            build_time=float(attrs["build_time"]),
            completeness=attrs.get("completeness"),
            main_wait=main_wait(shown.facts),
        )
        self.report(done)

    def _store(
        self,
        query_arguments: list[Any],
        runs: list[Measured],
        facts: dict[str, Any],
        recording: Recording,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Write the result file; return its attributes and each query's recall, (queries,)."""
        job, shown = self.job, representative(runs)
        neighbors = self.kept_neighbors(runs)
        is_exact = self.plugin.is_exact(job.count)
        if is_exact and self.due is None:
            require_complete(neighbors, min(job.count, len(self.train)))
        distances = self._distances(neighbors)
        found = self._recalls(distances)
        recall, times = share_interval(found), [run.times for run in runs]
        run_recalls = [
            float(found.mean()) if run is shown else float(self.recalls_of(run.neighbors).mean())
            for run in runs
        ]
        rates = [1 / run.seconds_per_query for run in runs]
        qps = mean_interval(rates)
        attrs = {
            **host_facts(),
            **self.facts,
            **self.truth_facts,
            **job.facts_of_servers,
            "build_arguments": job.definition.arguments,
            "run_seconds": [run.seconds_per_query for run in runs],
            "run_started": [run.started for run in runs],
            "recall_low": recall.low,
            "recall_high": recall.high,
            PARTS: recall_parts(found),
            EXACT_SEARCH: is_exact or None,  # else not stored
            **self._filter_figures(runs, distances, found),
            "qps_mean": fmean(rates),
            "qps_low": qps.low,
            "qps_high": qps.high,
            "runs_disagree": runs_disagree(times),
            **others_facts(runs),
            "rows": len(self.train),
            "run_recalls": run_recalls,
            **stored_percentiles(times, relaxations(run.facts for run in runs)),
            "batch_mode": job.procedure.batch,
            "best_search_time": shown.seconds_per_query,
            "candidates": np.count_nonzero(shown.neighbors >= 0) / len(shown.neighbors),
            "expect_extra": self.plugin.has("query_verbose"),
            "name": str(self.plugin),
            "run_count": len(runs),
            "distance": self.metric,
            "count": job.count,
            # A plug-in that found its index built knows what the build had taken.
            **self.plugin.get_additional(),
            **shown.facts,
            **facts,
            "asking_seconds": sum(
                run.facts.get("asking_seconds", run.seconds_per_query * len(run.times)) for run in runs
            ),
            "dataset": job.dataset,
            "ended_at": now(),
            "result_format": RESULT_FORMAT,
        }
        job = self._placed(attrs)
        series = job.series
        attrs |= {name: value for name, value in series.attributes.items() if name not in attrs}
        attrs |= {"algo": series.label, ATTRIBUTE: series.dump_json()}
        edges, counts = histogram(times)
        more: dict[str, Any] = {"latency_histogram_edges": edges, "latency_histogram": counts}
        built = Recording() if attrs.get("index_reused") else self.built
        if (sampled := monitored(recording.prepend(built))) is not None:
            attrs["monitoring_cpu_seconds"] = recording.cpu_seconds
            more[GROUP] = group_writer(sampled)
        write_result(job.path(query_arguments), attrs, shown.times, neighbors, distances, more)
        return attrs, found

    def _placed(self, attrs: Mapping[str, Any]) -> Job:
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

    def _distances(self, neighbors: np.ndarray) -> np.ndarray:
        """Compute the distances of what was found, (queries, count); they must not refute the truth."""
        found = candidate_distances(self.metric, self.queries.vectors, self.train, neighbors)
        require_no_better(self.job.dataset, self.metric, neighbors, found, self.true_distances)
        return found

    def _recalls(self, distances: np.ndarray) -> np.ndarray:
        return recall_of_each(distances, self.farthest, self.job.count, self.due)

    def _filter_facts(self, dataset: Dataset) -> dict[str, Any]:
        """Return what is stored of the filters of all queries."""
        found = dataset.filter_set(self.job.procedure.filter)
        self._matches = found.matches
        return {
            "filter": found.name,
            "selectivity": found.selectivity,
            "queries_without_matches": int(np.count_nonzero(found.matches == 0)),
        }

    def _filter_figures(
        self, runs: list[Measured], distances: np.ndarray, found: np.ndarray
    ) -> dict[str, Any]:
        """Return what is stored of the answers under filters, by their distances and each query's recall."""
        if self.due is None or self._matches is None:
            return {}
        complete = completeness_of_each(distances, self.due)
        return filter_figures(complete) | decile_figures(self._matches, found, complete, runs)


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
