"""One definition from start to end: load, build, measure each point, store it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import Dataset, get_dataset
from ann_benchmarks.definitions.definition import instantiate_algorithm
from ann_benchmarks.jobs.job import Built, Event, Job
from ann_benchmarks.monitoring import NoMonitor, Phases, open_monitor

from .points import Points
from .workloads.workload import run_workload


def run(job: Job, report: Callable[[Event], None]) -> None:
    """Build a job's index, measure its points one after the other, and report what happens."""
    algo = instantiate_algorithm(job.definition)
    monitor: Phases = NoMonitor()
    try:
        if any(job.points) and job.target_recall is None and not hasattr(algo, "set_query_arguments"):
            raise UserError(
                f"the config.yml of '{job.definition.algorithm}' has query arguments, but"
                f" {job.definition.constructor} has no method set_query_arguments"
            )
        has_choice = any(job.definition.points())
        if job.target_recall is not None and has_choice and not hasattr(algo, "search_range"):
            raise UserError(
                f"{job.definition.constructor} does not say which query argument to search:"
                " leave --target-recall out"
            )
        dataset, _ = get_dataset(job.dataset)
        if job.monitoring:
            monitor = open_monitor(algo, in_container="container_memory_bytes" in job.place)
        with dataset:
            if job.workload is not None:
                return run_workload(job, algo, dataset, report, monitor)
            facts = {**job.place, **_build(algo, dataset, job, monitor)}
            if job.conditions is not None:
                facts |= job.conditions.facts
            if job.build_only:
                facts |= algo.get_additional()
            report(Built(facts["build_time"], facts["index_size"], bool(facts.get("index_reused"))))
            if not job.build_only:
                Points(job, algo, dataset, facts, report, monitor).measure_all()
    finally:
        monitor.close()
        algo.done()


def _build(algo: BaseANN, dataset: Dataset, job: Job, monitor: Phases) -> dict[str, Any]:
    train: Any
    if dataset.attrs.get("type") == "sparse":
        train = dataset.train()
    elif getattr(algo, "streams_training_set", False):
        train = dataset.train_rows()
    else:
        train = np.asarray(dataset.train())
    if hasattr(algo, "set_load_options") and (job.load_threads or job.chunk_size):
        algo.set_load_options(job.load_threads, job.chunk_size)
    if hasattr(algo, "set_build_options") and (job.rebuild or job.is_cold):
        algo.set_build_options(job.rebuild, not job.is_cold)
    if job.conditions is not None and hasattr(algo, "serve_only"):
        algo.serve_only()
    if hasattr(algo, "supports_prepared_queries"):
        algo.supports_prepared_queries()
    if hasattr(algo, "set_phase_listener"):
        algo.set_phase_listener(monitor.enter)
    before = algo.get_memory_usage()
    with monitor.phase("build"):
        build_started = time.perf_counter()
        algo.fit(train)
        build_time = time.perf_counter() - build_started
    after = algo.get_memory_usage()
    return {
        "build_time": build_time,
        "index_size": None if before is None or after is None else after - before,
    }
