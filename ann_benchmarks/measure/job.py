"""One job from start to end: load, build, measure each point, store it."""

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from statistics import median
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.data.datasets import Dataset, get_dataset
from ann_benchmarks.data.vectors import FirstRows
from ann_benchmarks.definitions.definition import construct
from ann_benchmarks.jobs.events import BuildBegun, Built, Event
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.monitoring import Monitor, NoMonitor, Phases
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.remarks import NEW_INDEX

from .observed import Kills
from .points import Points
from .workloads.workload import run_workload

_BUILDING = ("load", "build")  # phases of a fit that does not find all
_BUILT: set[tuple[str, str]] = set()  # datasets and definitions whose index this process has built


def carry_out(request: JobRequest, report: Callable[[Event], None]) -> None:
    """Build a job's index, measure its points one after the other, and report what happens."""
    with opened(request) as (plugin, dataset, monitor):
        if request.job.procedure.workload is not None:
            return run_workload(request, plugin, dataset, report, monitor)
        facts = build(request, plugin, dataset, monitor, report)
        if not request.job.execution.build_only:
            Points(request, plugin, dataset, facts, report, monitor).measure_all()


@contextmanager
def opened(request: JobRequest) -> Iterator[tuple[Plugin, Dataset, Phases]]:
    """Construct a job's plug-in, open its dataset, and monitor both; put all away in the end."""
    job = request.job
    plugin = construct(job.definition)
    monitor: Phases = NoMonitor()
    try:
        plugin.use_settings(job.definition.settings)
        plugin.set_servers(job.definition.servers.kind, job.definition.servers.arguments)
        _check_arguments(job, plugin)
        plugin.check_clients(job.execution.clients)
        dataset, _ = get_dataset(job.dataset)
        monitor = open_monitor(request, plugin)
        with dataset:
            yield plugin, dataset, monitor
    finally:
        monitor.close()
        plugin.done()


def open_monitor(request: JobRequest, plugin: Plugin, began: float | None = None) -> Phases:
    """Begin to monitor a job, if that is requested; `began` is when its time starts (perf_counter)."""
    if not request.job.execution.monitoring:
        return NoMonitor()
    in_container = "container_memory_bytes" in request.all_facts
    return Monitor(plugin.open_monitor(), in_container, began=began)


def build(
    request: JobRequest,
    plugin: Plugin,
    dataset: Dataset,
    monitor: Phases,
    report: Callable[[Event], None],
) -> dict[str, Any]:
    """Build a job's index, or find it, and report that; return what is stored with each point."""
    kills = Kills(request.conditions)
    try:
        facts = request.all_facts | _build(plugin, dataset, request.job, monitor, report)
    except Exception as error:
        if memory_reason := kills.reason():
            raise UserError(describe(error) + memory_reason) from error
        raise
    if request.conditions is not None:
        facts |= request.conditions.facts
    if request.job.execution.build_only:
        facts |= plugin.get_additional()
    is_found = plugin.has_found_index or bool(facts.get("index_reused"))
    index = request.job.dataset, str(request.job.definition)
    if not is_found:
        _BUILT.add(index)
    elif index in _BUILT:
        facts[NEW_INDEX] = True
    report(Built(facts["build_time"], facts["index_size"], is_found))
    return facts


def _check_arguments(job: Job, plugin: Plugin) -> None:
    """Raise UserError where a plug-in cannot be given, or searched for, its query arguments."""
    target = job.procedure.target_recall
    if job.execution.filters:
        plugin.require("filters")
    if any(job.points) and target is None and not plugin.has("set_query_arguments"):
        raise UserError(
            f"the config.yml of '{job.definition.algorithm}' has query arguments, but"
            f" {job.definition.constructor} has no method set_query_arguments"
        )
    if target is not None and any(job.definition.points()) and not plugin.has("search_range"):
        raise UserError(
            f"{job.definition.constructor} does not say which query argument to search:"
            " leave --target-recall out"
        )


def _build(
    plugin: Plugin, dataset: Dataset, job: Job, monitor: Phases, report: Callable[[Event], None]
) -> dict[str, Any]:
    train: Any
    kind = dataset.attrs.get("type")
    if kind == "sparse":
        train = dataset.train()
    elif plugin.streams_training_set:
        train = dataset.train_rows()
    else:
        train = np.asarray(dataset.train())
    plugin.set_load_options(job.execution.load_threads, job.execution.chunk_size)
    plugin.set_build_options(job.execution.rebuild, not job.procedure.is_cold)
    if job.procedure.conditions is not None:
        plugin.serve_only()
    plugin.supports_prepared_queries()
    entered: list[str] = []

    def enter(phase: str) -> None:
        if phase != (entered or ["build"])[-1]:  # else the next of many indexes
            monitor.enter(phase)
        if job.execution.build_only and phase in _BUILDING and not {*_BUILDING} & {*entered}:
            report(BuildBegun())
        entered.append(phase)

    if job.execution.filters:
        plugin.take_filters(dataset.attributes(job.execution.filters))
    if job.execution.payload:
        plugin.set_payload(job.execution.payload)
    before = plugin.get_memory_usage()
    with monitor.phase("build"):
        plugin.set_phase_listener(enter)
        if not plugin.has("set_phase_listener"):
            enter("build")
        build_started = time.perf_counter()
        for name in _filters_to_build_for(job):
            plugin.take_query_filters(dataset.filter_set(name).matches_by_filter if name else {})
            plugin.fit(train)
        build_time = time.perf_counter() - build_started
    after = plugin.get_memory_usage()
    return {
        "build_time": build_time,
        "index_size": None if before is None or after is None else after - before,
    }


def _filters_to_build_for(job: Job) -> Sequence[str]:
    """Return the filter sets that fit is called for: the job's own; of a build alone, all of the run."""
    if job.execution.build_only and job.execution.filters:
        return job.execution.filters
    return [job.procedure.filter if job.execution.filters else ""]


SAMPLE_ROWS = 3000
SAMPLE_QUERIES = 50


def measure_sample(request: JobRequest) -> dict[str, Any]:
    """Return rows, load_seconds, build_seconds and query_seconds of a sample, and estimates of the whole.

    The index is made for all rows: index_kib, table_kib and memory (a text) are of all of them. Empty for an
    algorithm that makes no tables.
    """
    with opened(request) as (plugin, dataset, _), contextlib.redirect_stdout(io.StringIO()):
        if not plugin.has("open_writable") or dataset.attrs.get("type", "dense") != "dense":
            return {}
        rows, queries = dataset.rows, np.array(dataset.test()[:SAMPLE_QUERIES])
        sample = min(rows, SAMPLE_ROWS)
        with closing(plugin.open_writable(FirstRows(dataset.train_rows(), sample), rows, False)) as table:
            facts, sizes = plugin.get_additional(), table.sizes()
            if arguments := request.job.definition.points()[0]:
                plugin.set_query_arguments(*arguments)
            times = []
            for query in queries:
                began = time.perf_counter()
                plugin.query(query, request.job.count)
                times.append(time.perf_counter() - began)
            plugin.rest()
    share = rows / sample
    return {
        "rows": sample,
        "load_seconds": facts["load_time"],
        "build_seconds": facts["index_build_time"],
        "query_seconds": median(times),  # the first one opens a session
        "index_kib": facts.get("estimated_index_size", sizes["index_size"] * share),
        "table_kib": sizes["table_size"] * share,
        "memory": facts.get("maintenance_work_mem", ""),
    }
