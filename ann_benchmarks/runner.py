"""One definition from start to end: load, build, measure each point, store it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .algorithms.base.module import BaseANN
from .clients import Load, measure_clients
from .datasets import Dataset, get_dataset
from .definitions import Definition, instantiate_algorithm, label
from .distance import candidate_distances
from .errors import UserError
from .host import host_facts
from .intervals import Interval, mean_interval, runs_disagree, share_interval
from .measuring import Measured, measure
from .plotting.metrics import RECALL_SLACK, recall_of_each
from .results import TRUTH_ATTRIBUTE, result_path, series_name, truth_mark, write_result


@dataclass(frozen=True)
class Job:
    """A definition on a dataset, with the query arguments of the points that are to be measured."""

    definition: Definition
    points: list[list[Any]]
    dataset: str
    count: int
    runs: int
    batch: bool
    clients: int | None = None  # that ask at the same time; None: one, in the algorithm's own process
    max_queries: int | None = None  # of one run of all clients
    duration: float | None = None  # seconds of one run of all clients
    finished: int = 0  # points that were measured before
    show_progress: bool = True
    load_threads: int | None = None  # of a database plug-in; None leaves it the choice
    chunk_size: int | None = None  # rows
    rebuild: bool = False  # although an index is there from an earlier run
    build_only: bool = False

    @property
    def by_clients(self) -> str:
        """The end of a line that says how many clients ask, empty where that was not asked for."""
        return "" if self.clients is None else f" by {self.clients} client{'s' * (self.clients > 1)}"


@dataclass(frozen=True)
class Built:
    """The index is there: seconds that it took, KiB or None, and whether it is one of an earlier run."""

    build_time: float
    index_size: float | None
    is_reused: bool = False


@dataclass(frozen=True)
class PointDone:
    """A point is stored: share of true neighbours found, queries per second, latencies and build in s."""

    label: str
    path: Path
    recall: float
    recall_interval: Interval
    queries_per_second: float
    slowest_run: float | None  # queries per second, where the runs differ by more than noise
    p50: float
    p99: float
    build_time: float


@dataclass(frozen=True)
class Note:
    """Something that the user should know and that stops nothing."""

    text: str


Event = Built | PointDone | Note


def run(job: Job, report: Callable[[Event], None]) -> None:
    """Build a job's index, measure its points one after the other, and report what happens."""
    algo = instantiate_algorithm(job.definition)
    try:
        if any(job.points) and not hasattr(algo, "set_query_arguments"):
            raise UserError(
                f"the config.yml of '{job.definition.algorithm}' has query arguments, but"
                f" {job.definition.constructor} has no method set_query_arguments"
            )
        if job.clients is not None and not hasattr(algo, "open_clients"):
            raise UserError(f"{job.definition.constructor} cannot be asked by clients: leave --clients out")
        dataset, _ = get_dataset(job.dataset)
        with dataset:
            facts = _build(algo, dataset, job)
            if job.build_only:
                facts |= algo.get_additional()
            report(Built(facts["build_time"], facts["index_size"], bool(facts.get("index_reused"))))
            if not job.build_only:
                _Points(job, algo, dataset, facts, report).measure_all()
    finally:
        algo.done()


def _build(algo: BaseANN, dataset: Dataset, job: Job) -> dict[str, Any]:
    train: Any
    if dataset.attrs.get("type") == "sparse":
        train = dataset.train()
    elif getattr(algo, "streams_training_set", False):
        train = dataset.train_rows()
    else:
        train = np.asarray(dataset.train())
    if hasattr(algo, "set_load_options") and (job.load_threads or job.chunk_size):
        algo.set_load_options(job.load_threads, job.chunk_size)
    if hasattr(algo, "set_build_options") and job.rebuild:
        algo.set_build_options(job.rebuild)
    if hasattr(algo, "supports_prepared_queries"):
        algo.supports_prepared_queries()
    before = algo.get_memory_usage()
    build_started = time.perf_counter()
    algo.fit(train)
    build_time = time.perf_counter() - build_started
    after = algo.get_memory_usage()
    return {
        "build_time": build_time,
        "index_size": None if before is None or after is None else after - before,
    }


class _Points:
    """The points of one built index."""

    def __init__(
        self,
        job: Job,
        algo: BaseANN,
        dataset: Dataset,
        facts: dict[str, Any],
        report: Callable[[Event], None],
    ):
        self.job = job
        self.algo = algo
        self.facts = facts
        self.report = report
        self.metric = str(dataset.attrs["distance"])
        # Opened again, because plug-ins may change in place what they are given.
        sparse = dataset.attrs.get("type") == "sparse"
        self.train: Any = dataset.train() if sparse else dataset.train_rows()
        self.test = dataset.test()
        self.queries = [np.array(query) for query in self.test]
        self.all_queries = self.queries if isinstance(self.test, list) else np.array(self.test)
        self.true_distances = dataset.true_distances(job.count)

    def measure_all(self) -> None:
        for query_arguments in self.job.points:
            if query_arguments:
                self.algo.set_query_arguments(*query_arguments)  # type: ignore[attr-defined]
            self.measure_point(query_arguments)

    def measure_point(self, query_arguments: list[Any]) -> None:
        job = self.job
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        runs = self.measure_runs(str(self.algo))
        best = min(runs, key=lambda run: run.seconds_per_query)
        name = label(job.definition.algorithm, job.definition.arguments + query_arguments)
        name += job.by_clients
        neighbors = best.neighbors[:, : job.count]
        if best.neighbors.shape[1] > job.count:
            most = best.neighbors.shape[1]
            self.report(Note(f"{name} answered with up to {most} neighbours; the first {job.count} are kept"))
        distances = candidate_distances(self.metric, self.test, self.train, neighbors)
        found = recall_of_each(distances, self.true_distances[:, -1] + RECALL_SLACK, job.count)
        recall, rates = share_interval(found), [1 / run.seconds_per_query for run in runs]
        qps, disagree = mean_interval(rates), runs_disagree([run.times for run in runs])
        path = result_path(job.dataset, job.count, job.definition, query_arguments, job.batch, job.clients)
        attrs = {
            **host_facts(),
            **self.facts,
            "started_at": started_at,
            TRUTH_ATTRIBUTE: truth_mark(self.true_distances),
            "run_seconds": [run.seconds_per_query for run in runs],
            "recall_low": recall.low,
            "recall_high": recall.high,
            "qps_low": qps.low,
            "qps_high": qps.high,
            "runs_disagree": disagree,
            "batch_mode": job.batch,
            "best_search_time": best.seconds_per_query,
            "candidates": np.count_nonzero(best.neighbors >= 0) / len(best.neighbors),
            "expect_extra": hasattr(self.algo, "query_verbose"),
            "name": str(self.algo),
            "run_count": job.runs,
            "distance": self.metric,
            "count": job.count,
            # A plug-in that found its index built knows what the build had taken.
            **self.algo.get_additional(),
            **best.facts,
            "algo": series_name(job.definition.algorithm, job.clients),
            "dataset": job.dataset,
        }
        write_result(path, attrs, best.times, neighbors, distances)
        self.report(
            PointDone(
                label=name,
                path=path,
                recall=float(found.mean()),
                recall_interval=recall,
                queries_per_second=1 / attrs["best_search_time"],
                slowest_run=min(rates) if disagree else None,
                p50=float(np.percentile(best.times, 50)),
                p99=float(np.percentile(best.times, 99)),
                build_time=float(attrs["build_time"]),
            )
        )

    def measure_runs(self, description: str) -> list[Measured]:
        job = self.job
        quiet = None if job.show_progress else True  # None: unless it is a terminal
        if job.clients is not None:
            load = Load(job.clients, job.max_queries, job.duration)
            return measure_clients(
                self.algo, self.all_queries, job.count, load, job.runs, len(self.train), quiet
            )
        queries = self.all_queries if job.batch else self.queries
        total = job.runs * len(queries)
        with tqdm(total=total, desc=description, unit="query", disable=quiet, leave=False) as bar:
            runs = []
            for number in range(job.runs):
                before = number * len(queries)

                def progress(done: int, before: int = before) -> None:
                    bar.update(before + done - bar.n)

                runs.append(measure(self.algo, queries, job.count, job.batch, len(self.train), progress))
            return runs
