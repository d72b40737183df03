"""Rows inserted one by one, as fast as they go, by several writers."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import active_span, closed_loop
from ann_benchmarks.plugin import Changes, Writable
from ann_benchmarks.results.warnings import remarks

from ..loaded_point import LoadedPoint
from .over_time import Span, Times, rate_of, run_together, writes_of
from .work import Work

BLOCK_BYTES = 1 << 20


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
        facts=_of_writers(measured.facts),
    )


def _rows(work: Work) -> Iterator[Changes]:
    dimension = work.train.shape[1]
    step = max(BLOCK_BYTES // (4 * dimension), 1)
    for first in range(work.loaded, work.rows, step):
        vectors = work.train[first : first + step]
        ids = np.arange(first, first + len(vectors))
        yield Changes(None, np.zeros(len(vectors), dtype=np.int64), ids, vectors)


def _of_writers(facts: dict[str, object]) -> dict[str, object]:
    """Call what was seen of clients and queries by what they were."""
    words = (("queries", "writes"), ("per_query", "per_write"), ("clients", "writers"), ("client", "writer"))

    def named(name: str) -> str:
        for word, other in words:
            name = name.replace(word, other)
        return name

    return {named(name): value for name, value in facts.items()}
