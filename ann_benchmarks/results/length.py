"""Whether runs were long enough for their latencies, and how long they have to be."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ann_benchmarks.statistics.intervals import FEWEST_RUNS
from ann_benchmarks.statistics.percentiles import (
    EFFECTIVE_SIZE,
    MANY_RUNS,
    QUERIES,
    is_shown,
    least_relaxations,
    least_size,
)

AMPLE = 1.1  # times what is needed: a run ends with its last query, not on the second
FEWEST_OF_ADVICE = 5  # runs: of fewer, what they are worth varies by several times from point to point
JUDGED = ("p95", "p99")  # what a median takes is no more, and for p99.9 most runs are too short


def length_remark(facts: Mapping[str, Any]) -> str:
    """Say that runs were too short for their latencies, and what is needed; nothing where they were not."""
    if facts.get("queries_unanswered") or facts.get("steady_state") is False:
        return ""  # there is no steady state to wait for
    runs, seconds = int(facts.get("run_count") or 1), facts.get("active_seconds") or 0.0
    name, times = _missing(facts) if runs >= FEWEST_RUNS else ("", 0.0)
    if runs < FEWEST_OF_ADVICE:
        times = 0.0
    steady = least_relaxations("p99") * float(facts.get("relaxation_seconds") or 0.0) / runs
    if seconds < steady:
        return (
            f"at {facts['rate'] / facts['closed_loop_rate']:.0%} of a closed loop's throughput, a queue"
            " changes slowly, and the latencies of short runs are mostly too low: give --duration"
            f" {math.ceil(AMPLE * max(steady, times * seconds))}"
        )
    if not name:
        return ""
    if not times:
        return (
            f"latencies differ too much for an interval of {name}, and {runs} runs are too few to say how"
            f" long they have to be: give {FEWEST_OF_ADVICE} runs or rounds, or more"
        )
    more = f"--duration {math.ceil(AMPLE * times * seconds)}, or more runs"
    if not seconds or runs >= MANY_RUNS:
        more = f"{math.ceil(AMPLE * times * runs)} runs or rounds"
    return (
        f"latencies resemble each other within runs, or differ between them, so much that {name} has no"
        f" interval: give {more}"
    )


def _missing(facts: Mapping[str, Any]) -> tuple[str, float]:
    """Return the rarest percentile without an interval, and how many times as much has to be measured."""
    worth = facts.get(EFFECTIVE_SIZE)
    if worth:
        for name in reversed(JUDGED):
            if is_shown(name, facts.get(QUERIES, 0)) and worth < least_size(name):
                return name, least_size(name) / worth
    return "", 0.0


def relaxations(runs: Iterable[Mapping[str, Any]]) -> float:
    """Return how many times the queue forgets what was before in all runs; infinity where it is not known."""
    found = [
        run["active_seconds"] / run["relaxation_seconds"] for run in runs if run.get("relaxation_seconds")
    ]
    return math.fsum(found) if found else math.inf
