"""A workload from its table to its record."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.job import Event, Job, WorkloadDone
from ann_benchmarks.monitoring import Phases
from ann_benchmarks.plugin import Table
from ann_benchmarks.results.records import write_record

from .asking import Asking, asking_alone
from .inserts import inserting
from .work import Work
from .writes import check_room, writing


def run_workload(
    job: Job,
    algo: Any,
    dataset: Dataset,
    report: Callable[[Event], None],
    monitor: Phases | None = None,
) -> None:
    """Do what is asked for on a table of its own, store what was measured, and drop the table."""
    if not hasattr(algo, "open_writable"):
        raise UserError(f"{job.definition.constructor} cannot be written to: leave --workload out")
    work = Work(job, algo, dataset, report, monitor)
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


def _write_beside_queries(work: Work, table: Table) -> None:
    work.set_query_arguments()
    with closing(Asking(work)) as asking:
        asking_alone(work, asking, table, "before")
        writing(work, asking, table)
        asking_alone(work, asking, table, "after")
        with work.monitor.phase("vacuum"):
            took: float | None = table.vacuum()
        asking_alone(work, asking, table, "vacuumed", took)
        with work.monitor.phase("reindex"):
            took = table.reindex()
        if took is not None:
            asking_alone(work, asking, table, "reindexed", took)
