"""The clients that query all the time, and the phases in which nothing else happens."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.load.clients import open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.samples import one_each
from ann_benchmarks.load.spans import closed_loop
from ann_benchmarks.load.warmup import WARMUP_RUN, Warmup, warm_up
from ann_benchmarks.plugin import Writable, client_facts
from ann_benchmarks.results.remarks import remarks

from ..answers import checked_neighbors
from .over_time import Span, rate_of, run_together, times_of
from .work import Work

QUIET_SHARE = 0.1  # of the writing's seconds: how long a phase lasts in which nobody writes
LEAST_QUIET_SECONDS = 5.0


class QueryClients:
    """Clients of a closed loop, connected until they are closed."""

    def __init__(self, work: Work) -> None:
        """Start them."""
        load = work.workload.load
        assert load is not None
        self._load: Load = load
        self._work, self._queries = work, len(work.queries)
        self._run = 0
        self.clients: Any = open_clients(work.plugin, work.queries, work.job.count, load)

    def prepare(self, seconds: float) -> None:
        """Have them ready for that time, each in an order that it has not had before."""
        self._run += 1
        self.clients.prepare(self._load.orders(self._queries, self._run), seconds, keeps_ids=False)

    def warm_up(self) -> dict[str, Any]:
        """Send queries until the throughput no longer rises; return what is stored of it."""

        def send_for(seconds: float) -> int:
            self._run += 1
            orders = self._load.orders(self._queries, WARMUP_RUN + self._run)
            self.clients.prepare(orders, seconds, keeps_ids=False)
            self.clients.run()
            return sum(len(given.numbers) for given in self.clients.answers())

        return warm_up(Warmup(), send_for, lambda number: None, lambda rate: self._queries / rate)

    def recalls(self) -> np.ndarray:
        """Have all queries answered once; return the recall of each, (queries,), on the table as it is."""
        dealt = [np.arange(i, self._queries, self._load.clients) for i in range(self._load.clients)]
        self.clients.prepare(dealt)
        self.clients.run()
        state = self._work.state
        ids, _ = one_each(self.clients.answers(), self._queries, seed=0)
        found = checked_neighbors(ids, self._work.job.count, len(state.row_of))
        return self._work.truth.recalls(state, found)

    def close(self) -> None:
        """End them."""
        self.clients.close()


def measure_queries(
    work: Work, clients: QueryClients, table: Writable, name: str, took: float | None = None
) -> None:
    """Measure the queries on the table as it is, and keep that as a phase; `took`: what led to it, in s."""
    seconds = max(QUIET_SHARE * work.workload.seconds, LEAST_QUIET_SECONDS)
    work.check_plan()
    with work.bar(name) as bar, work.monitor.phase(name):
        facts = clients.warm_up()
        with work.subject.watched() as watch:
            clients.prepare(seconds)
            with watch.running():
                start = run_together(
                    [clients.clients], lambda now: bar.update(min(now / seconds, 1.0) - bar.n)
                )
            answers = clients.clients.answers()
            facts |= watch.facts(sum(len(given.numbers) for given in answers))
            facts |= client_facts(clients.clients)
        recalls = clients.recalls()
    measured = closed_loop(answers, facts)
    times = times_of(answers, start)
    began = work.timeline.now
    work.timeline.add(seconds, times, None, [(0.0, table.sizes()["index_size"])])
    for text in remarks(measured.facts):
        work.remark(text, name)
    work.add_phase(
        table,
        recalls,
        name=name,
        start=began,
        seconds=seconds,
        queries=rate_of([Span(seconds, times, 1 / measured.seconds_per_query)]),
        seconds_to_reach=took,
        facts=measured.facts,
    )


WAITS = "wait_events"


def joined(segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means of numbers, whether anything was ever true, and of texts the last one."""
    facts: dict[str, Any] = {}
    for name in {name: None for segment in segments for name in segment}:
        values = [segment[name] for segment in segments if name in segment]
        if name == WAITS:
            facts[name] = json.dumps(_mean_shares([json.loads(value) for value in values]))
        elif all(isinstance(value, bool | np.bool_) for value in values):
            facts[name] = any(values)
        elif all(isinstance(value, int | float | np.number) for value in values):
            facts[name] = float(np.mean(values))
        else:
            facts[name] = values[-1]
    return facts


def _mean_shares(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for some in shares for name in some}
    means = {name: sum(some.get(name, 0.0) for some in shares) / len(shares) for name in names}
    return {name: round(means[name], 4) for name in sorted(means, key=lambda name: -means[name])}
