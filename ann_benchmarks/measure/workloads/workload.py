"""A workload from its table to its record, and rows inserted one by one as fast as they go."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.events import Event, WorkloadDone
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import active_span, closed_loop
from ann_benchmarks.monitoring import Phases
from ann_benchmarks.plugin import Changes, Plugin, Writable
from ann_benchmarks.results.records import write_record
from ann_benchmarks.results.remarks import remarks

from ..loaded_point import LoadedPoint
from .over_time import Span, Times, rate_of, run_together, writes_of
from .queries import QueryClients, measure_queries
from .work import Work
from .writes import BLOCK_BYTES, check_room, writing


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


def inserting(work: Work, table: Writable) -> None:
    """Insert the rows that are not in the table yet, until all are in or the time is over."""
    workload, state = work.workload, work.state
    left = work.rows - work.loaded
    sizes: list[tuple[float, float]] = []
    with closing(table.open_writers(workload.writers)) as writers, work.bar("inserting") as bar:
        table.checkpoint()
        with work.monitor.phase("inserting"), work.subject.watched() as watch:
            writers.prepare_changes(_rows(work), left, workload.seconds, has_due=False)

            def tick(seconds: float) -> None:
                done = writers.count()
                if not sizes or seconds - sizes[-1][0] >= work.timeline.window:
                    sizes.append((seconds, table.sizes()["index_size"]))
                bar.set_postfix_str(f"{done:,} rows, {done / max(seconds, 1e-9):,.0f}/s", refresh=False)
                bar.update(min(max(seconds / workload.seconds, done / left), 1.0) - bar.n)

            with watch.running():
                start = run_together([writers], tick)
            written = writers.written()
            facts = watch.facts(sum(len(given.sent) for given in written))
    if not all(len(given.sent) for given in written):
        raise UserError("not every writer has inserted a row: use a larger dataset, or fewer --writers")
    begin, end = active_span(written)
    if end <= begin:
        raise UserError("the first writer was done before the last had begun: use a larger dataset")
    measured = closed_loop(written, facts)
    times = writes_of(written, start)
    state.insert(work.loaded + np.concatenate([given.numbers for given in written]))
    seconds = float(times.ends.max())
    sizes.append((seconds, table.sizes()["index_size"]))
    work.timeline.add(seconds, None, times, sizes)
    active = Span(
        end - begin, Times(times.ends - (begin - start), times.seconds), 1 / measured.seconds_per_query
    )
    work.set_query_arguments()
    answers = LoadedPoint(work.subject, Load(usable_cores())).answers()
    for text in remarks(measured.facts):
        work.remark(text.replace("clients", "writers"))
    work.add_phase(
        table,
        work.truth.recalls(state, answers),
        name="inserting",
        start=0.0,
        seconds=seconds,
        writes={"insert": rate_of([active])},
        facts=_writer_facts(measured.facts),
    )


def _rows(work: Work) -> Iterator[Changes]:
    dimension = work.train.shape[1]
    step = max(BLOCK_BYTES // (4 * dimension), 1)
    for first in range(work.loaded, work.rows, step):
        vectors = work.train[first : first + step]
        ids = np.arange(first, first + len(vectors))
        yield Changes(None, np.zeros(len(vectors), dtype=np.int64), ids, vectors)


def _writer_facts(facts: dict[str, object]) -> dict[str, object]:
    """Call what was seen of clients and queries by what they were."""
    words = (("queries", "writes"), ("per_query", "per_write"), ("clients", "writers"), ("client", "writer"))

    def named(name: str) -> str:
        for word, other in words:
            name = name.replace(word, other)
        return name

    return {named(name): value for name, value in facts.items()}
