"""A workload from its table to its record."""

from collections.abc import Callable
from contextlib import closing

from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.events import Event, WorkloadDone
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.monitoring import Phases
from ann_benchmarks.plugin import Plugin, Writable
from ann_benchmarks.results.records import write_record

from .inserts import inserting
from .queries import QueryClients, measure_queries
from .work import Work
from .writes import check_room, writing


def run_workload(
    request: JobRequest,
    plugin: Plugin,
    dataset: Dataset,
    report: Callable[[Event], None],
    monitor: Phases | None = None,
) -> None:
    """Carry out a workload on a table of its own, store what was measured, and drop the table."""
    work = Work(request, plugin, dataset, report, monitor)
    if work.workload.kind == "writes":
        check_room(work)
    with closing(work.open_table()) as table:
        if work.workload.kind == "inserts":
            inserting(work, table)
        else:
            _write_beside_queries(work, table)
        record = work.record()
    write_record(record)
    report(WorkloadDone(work.name, record.path))


def _write_beside_queries(work: Work, table: Writable) -> None:
    work.set_query_arguments()
    with closing(QueryClients(work)) as clients:
        measure_queries(work, clients, table, "before")
        writing(work, clients, table)
        measure_queries(work, clients, table, "after")
        with work.monitor.phase("vacuum"):
            took: float | None = table.vacuum()
        measure_queries(work, clients, table, "vacuumed", took)
        with work.monitor.phase("reindex"):
            took = table.reindex()
        if took is not None:
            measure_queries(work, clients, table, "reindexed", took)
