"""Latencies of known processes: what runs of them look like, and their percentiles."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks.known import one_server as answered

SPREAD = 0.5  # standard deviation of the logarithm of a latency
RUN_NOISE = 0.09  # the same of what all queries of a run share
LOAD = 0.6  # of a server with one slot
FIRST = 1000  # queries of a server, before it is in steady state
STALL, STALLED = 300.0, 0.05  # of the longest wait, in medians; and of the queries of a run


@dataclass(frozen=True)
class Process:
    """Draws the latencies of runs, (queries,) each, and knows the percentile of all such runs."""

    draw: Callable[[np.random.Generator, int, int], list[np.ndarray]]
    percentile: Callable[[float], float]


def lognormal(noise: float) -> Process:
    """Independent queries; the runs differ by a factor whose logarithm has the deviation `noise`."""

    def draw(rng: np.random.Generator, queries: int, runs: int) -> list[np.ndarray]:
        return [rng.lognormal(noise * rng.normal(), SPREAD, queries) for _ in range(runs)]

    return Process(
        draw, lambda percent: math.exp(math.hypot(SPREAD, noise) * NormalDist().inv_cdf(percent / 100))
    )


def one_server() -> Process:
    """Times in a queue with one server, arrivals and services at random (M/M/1): neighbours are alike."""

    def draw(rng: np.random.Generator, queries: int, runs: int) -> list[np.ndarray]:
        found = []
        for _ in range(runs):
            services = rng.exponential(1, FIRST + queries)
            due = np.cumsum(rng.exponential(1 / LOAD, FIRST + queries))
            found.append((answered(due, services) - due)[FIRST:])
        return found

    return Process(draw, lambda percent: -math.log(1 - percent / 100) / (1 - LOAD))


def one_stalls() -> Process:
    """Of the runs one stands still once: a twentieth of its queries waits, the later ones less."""

    def draw(rng: np.random.Generator, queries: int, runs: int) -> list[np.ndarray]:
        found = lognormal(0).draw(rng, queries, runs)
        waiting = round(STALLED * queries)
        start = rng.integers(queries - waiting)
        found[rng.integers(runs)][start : start + waiting] += np.linspace(STALL, 0, waiting)
        return found

    def percentile(percent: float) -> float:
        """Of five runs, by 2,000 that were drawn."""
        if not known:
            rng = np.random.default_rng(9)
            every = np.concatenate([run for _ in range(400) for run in draw(rng, 2000, 5)])
            known.append(every)
        return float(np.percentile(known[0], percent))

    known: list[np.ndarray] = []
    return Process(draw, percentile)


PROCESSES = {
    "independent": lognormal(0),
    "runs 9% apart": lognormal(RUN_NOISE),
    "a queue at 60% of its capacity": one_server(),
    "one run of five stalls": one_stalls(),
}
