"""Many clients at once: who asks what, and what all of them together were served.

Each client asks in an order of its own, which is the same in every run of the same number: one order for all
would have the server find in its caches what another client has just asked for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from .errors import UserError
from .measuring import Measured, checked_neighbors

QUERIES_A_CLIENT = 100  # at least, where neither a number nor a time is given


@dataclass(frozen=True)
class Load:
    """How much is asked in one run: so many queries in all, or for so many seconds."""

    clients: int
    max_queries: int | None = None
    seconds: float | None = None

    def orders(self, queries: int, run: int) -> list[np.ndarray]:
        """Return the numbers of the queries that each client asks in a run, in its own order."""
        in_all = self.max_queries or max(queries, QUERIES_A_CLIENT * self.clients)
        length = queries if self.seconds is not None else math.ceil(in_all / self.clients)
        # Further than once through all of them, a client goes through the same order again.
        return [
            np.resize(np.random.default_rng([run, client]).permutation(queries), length)
            for client in range(self.clients)
        ]


def measure_clients(
    algo: Any, queries: Any, count: int, load: Load, runs: int, rows: int, quiet: bool | None
) -> list[Measured]:
    """Have all queries answered once, which warms clients and server and tells the recall; then measure.

    Of each run, `times` are the latencies, in s, of the queries that were answered while all clients were
    active; the throughput is theirs.
    """
    pool = algo.open_clients(queries, count, load.clients)
    try:
        pool.prepare([np.arange(i, len(queries), load.clients) for i in range(load.clients)])
        pool.run()
        answers: list[Any] = [[]] * len(queries)
        for given in pool.answers():
            for number, ids in given.ids.items():
                answers[number] = ids
        neighbors = checked_neighbors(answers, count, rows)
        measured = []
        for run in tqdm(range(runs), desc=f"{algo}", unit="run", leave=False, disable=quiet):
            pool.prepare(load.orders(len(queries), run), load.seconds)
            pool.run()
            measured.append(_measured(pool.answers(), neighbors, load))
        return measured
    finally:
        pool.close()


def _measured(answers: Sequence[Any], neighbors: np.ndarray, load: Load) -> Measured:
    start, end = active_span(answers)
    counted = [(a.answered > start) & (a.answered <= end) for a in answers]
    times = np.concatenate(
        [(a.answered - a.sent)[chosen] for a, chosen in zip(answers, counted, strict=True)]
    )
    if end <= start or not len(times):
        raise UserError(
            f"the first of {load.clients} clients was done before the last had begun: "
            "give them more to do by --max-queries or --duration"
        )
    asked = sum(len(a.numbers) for a in answers)
    facts = {
        "clients": load.clients,
        "active_seconds": end - start,
        "queries_asked": asked,
        "queries_counted": len(times),
        "client_cpu_seconds_per_query": sum(a.cpu_seconds for a in answers) / asked,
    }
    return Measured(times, neighbors, (end - start) / len(times), facts)


def active_span(answers: Sequence[Any]) -> tuple[float, float]:
    """When all clients were active: from the last one's first query to the first one's end."""
    return max(a.sent[0] for a in answers), min(a.answered[-1] for a in answers)
