"""A workload from its table to its record, and rows inserted one by one as fast as they go."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.events import Event, WorkloadDone
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.load.request import Load, poisson_arrivals
from ann_benchmarks.load.spans import active_span, closed_loop
from ann_benchmarks.load.workload import KINDS
from ann_benchmarks.monitoring import Phases
from ann_benchmarks.plugin import Changes, Plugin, Writable, Writers, client_facts
from ann_benchmarks.results.records import write_record
from ann_benchmarks.results.remarks import remarks

from ..loaded_point import LoadedPoint
from .over_time import Span, Times, rate_of, run_together, times_of, writes_of
from .queries import QueryClients, joined, measure_queries
from .table_state import DELETE, Planned
from .work import Work


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


SEGMENTS = 5  # at whose ends nobody writes, for as long as it takes to tell the recall
BLOCK_BYTES = 1 << 20
SURE = 5.0  # standard deviations by which more writes may come than are expected
SEED = 917


def check_room(work: Work) -> None:
    """Raise UserError where the dataset has too few rows for what is to be written."""
    workload = work.workload
    assert workload.rate is not None
    writes = workload.rate * workload.seconds / SEGMENTS
    most = writes + SURE * math.sqrt(writes)
    insert, update, delete = (workload.mix.share(kind) for kind in KINDS)
    there, unused = float(work.loaded), float(work.rows - work.loaded)
    for _ in range(SEGMENTS):
        if most * (insert + update) > unused or most * (update + delete) > there - work.job.count:
            raise UserError(
                f"{work.job.dataset} has too few rows for {workload.seconds:g} s of {workload.rate:g} writes"
                f" a second: {work.loaded:,} are loaded, {work.rows - work.loaded:,} are left to write; give"
                " another --loaded, a lower --write-rate, a shorter --duration, or a larger dataset"
            )
        there += writes * (insert - delete)
        unused -= writes * (insert - delete)


@dataclass
class _Seen:
    """What the segments have measured so far, and what came and was not begun."""

    queries: list[Span] = field(default_factory=list)
    writes: dict[str, list[Span]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    facts: list[dict[str, Any]] = field(default_factory=list)
    came: int = 0
    due: np.ndarray = field(default_factory=lambda: np.empty(0))  # s from the start of the next segment
    kinds: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def writing(work: Work, clients: QueryClients, table: Writable) -> None:
    """Write at the rate while clients ask; what is not begun in one segment is begun in the next."""
    began, seen = work.timeline.now, _Seen()
    with ExitStack() as stack:
        stack.enter_context(work.monitor.phase("writing"))
        writers = stack.enter_context(closing(table.open_writers(work.workload.writers, beside_queries=True)))
        bar = stack.enter_context(work.bar("writing"))
        table.checkpoint()
        for number in range(SEGMENTS):
            _let_come(work, number, seen)
            _write(work, table, clients, writers, bar, seen)
            recalls = clients.recalls()
            work.timeline.tell_recall(float(recalls.mean()))
    rates = {
        kind: rate_of(spans, -seen.due[seen.kinds == KINDS.index(kind)])
        for kind, spans in seen.writes.items()
        if work.workload.mix.share(kind)
    }
    if len(seen.due):
        work.note(
            f"the rate was not kept: {len(seen.due):,} of {seen.came:,} writes were still waiting at the end:"
            " give more --writers, or a lower --write-rate"
        )
    work.add_phase(
        table,
        recalls,
        name="writing",
        start=began,
        seconds=work.timeline.now - began,
        queries=rate_of(seen.queries),
        writes=rates,
        facts=joined(seen.facts),
    )


def _let_come(work: Work, number: int, seen: _Seen) -> None:
    """Draw what comes in a segment: a Poisson process, and the kinds by their shares."""
    workload = work.workload
    assert workload.rate is not None
    due = poisson_arrivals(workload.rate, workload.seconds / SEGMENTS, [SEED, number])
    draw = np.random.default_rng([SEED, number, 1])
    kinds = draw.choice(len(KINDS), len(due), p=np.array(workload.mix.shares) / 100)
    seen.came += len(due)
    seen.due, seen.kinds = np.concatenate((seen.due, due)), np.concatenate((seen.kinds, kinds))


def _write(
    work: Work,
    table: Writable,
    clients: QueryClients,
    writers: Writers,
    bar: Any,
    seen: _Seen,
) -> None:
    """Make the changes that came, and know which were made."""
    seconds = work.workload.seconds / SEGMENTS
    sizes: list[tuple[float, float]] = []
    before = len(seen.facts)
    planned = work.state.plan(seen.due, seen.kinds, np.random.default_rng([SEED, before, 2]))

    def tick(now: float) -> None:
        if not sizes or now - sizes[-1][0] >= work.timeline.window:
            sizes.append((now, table.sizes()["index_size"]))
        bar.set_postfix_str(f"{writers.count() / max(now, 1e-9):,.1f} writes/s", refresh=False)
        bar.update((before + min(now / seconds, 1.0)) / SEGMENTS - bar.n)

    with work.subject.watched() as watch:
        clients.prepare(seconds)
        writers.prepare_changes(_changes(work, planned), len(planned), seconds, has_due=True)
        with watch.running():
            start = run_together([clients.clients, writers], tick)
        answers, written = clients.clients.answers(), writers.written()
        facts = watch.facts(sum(len(given.numbers) for given in [*answers, *written]))
        facts |= client_facts(clients.clients)
    sizes.append((seconds, table.sizes()["index_size"]))
    measured = closed_loop(answers, facts)
    queried, wrote = times_of(answers, start), writes_of(written, start)
    numbers = np.concatenate([given.numbers for given in written])
    done = np.concatenate([given.done for given in written])
    waiting = np.setdiff1d(np.arange(len(seen.due)), numbers)
    work.state.apply(planned.part(numbers[done]))
    work.state.give_back(planned.part(waiting[waiting < len(planned)]))
    seen.due, seen.kinds = seen.due[waiting] - seconds, seen.kinds[waiting]
    work.timeline.add(seconds, queried, wrote, sizes)
    seen.queries.append(Span(seconds, queried, 1 / measured.seconds_per_query))
    for place, kind in enumerate(KINDS):
        of_kind = planned.kinds[numbers] == place
        times = Times(wrote.ends[of_kind], wrote.seconds[of_kind], int(np.count_nonzero(of_kind & ~done)))
        seen.writes[kind].append(Span(seconds, times, len(times.ends) / seconds))
    seen.facts.append(measured.facts)


def _changes(work: Work, planned: Planned) -> Iterator[Changes]:
    """Give the vectors of the changes, some of them at a time."""
    dimension = work.train.shape[1]
    step = max(BLOCK_BYTES // (4 * dimension), 1)
    for first in range(0, len(planned), step):
        part = planned.part(np.arange(first, min(first + step, len(planned))))
        # Nobody looks at the vector of a row to delete.
        vectors = work.train.take(np.where(part.kinds == DELETE, 0, part.rows))
        yield Changes(part.due, part.kinds, part.ids, vectors)
