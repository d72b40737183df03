"""Statements of every kind are wrong in at most 5% of studies, whatever noise they were measured in.

Studies are drawn whose truth is known, and read by the code that judges measured ones. A column is a process:
runs that differ by 0.5, 3 or 10%; a machine that drifts, or whose speed steps, by 16%; sessions that differ
by 16% (runs by 3% in these three). A row is the share of studies, in per cent, with a wrong statement:

    prices       a server 1% below, or above, the queries/s or the p99 that are needed is said to keep them,
                 or not to; a recall of 0.949 is said to reach 0.95, by 1,000 queries; of five servers, a slow
                 one is named the cheapest that is not
    memory       75% of the throughput is said to be 80%, or 85% not to be, on one of four tiers
    fastest      of equal indexes, one is named fastest or ahead: two, six of one algorithm and one, or six;
                 measured once, with one run, or in rounds; where one build, or each of six, has a speed of
                 its own in all of them (3% and 2.5%); at recalls of 0.99
    comparisons  compare.py is sure of a difference: 5 and 5 repetitions, in turn or all of A first; and where
                 A are files of ann-benchmarks, the best of five runs
    intervals    those of the mean and of p99 miss it; the levels of runs have a correlation with the next
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.load.request import Objective
from ann_benchmarks.pricing.costs import CostRequest
from ann_benchmarks.pricing.prices import read_prices
from ann_benchmarks.results.runs import Run
from ann_benchmarks.statistics.intervals import mean_interval
from ann_benchmarks.statistics.percentiles import stored_percentiles
from ann_benchmarks.views.costs import CostAnswer, cost_answers
from ann_benchmarks.views.memory import needs

from . import drawn
from .drawn import MACHINE, RUNS, TARGET, DrawnRecall
from .harness import Row, count_shares

GOAL = None
NEAR = 0.01  # from a bound
GB = 1 << 30
SPREAD, QUERIES, P99 = 0.5, 400, 2.326348  # of the latencies of a run, whose median is 1 ms
PRICES = read_prices(Path(__file__).parents[1] / "prices" / "example.yml")
ROUNDS = 12
INDEXES = 6
REPETITIONS = 5

Levels = np.ndarray  # logarithms of throughputs, (sessions, runs)
Draw = Callable[..., Levels]
Judges = dict[str, Callable[[], bool]]
PROCESSES: dict[str, dict[str, Any]] = {
    **{f"{noise:.1%}": {"noise": noise} for noise in (0.005, 0.03, 0.1)},
    **{kind: {"kind": kind} for kind in ("drift", "steps", "sessions")},
}


def draw_levels(
    rng: np.random.Generator, sessions: int, runs: int = RUNS, *, noise: float = 0.03, kind: str = ""
) -> Levels:
    """Draw runs of sessions, one after the other, on a machine whose speed goes by a process."""
    speed = np.zeros(sessions * runs)
    if kind == "sessions":
        speed = np.repeat(rng.normal(0, MACHINE, sessions), runs)
    elif kind == "drift":
        speed = drawn.wandering(rng, speed.size, 0.98)
    elif kind == "steps":
        since = np.maximum.accumulate(np.where(rng.random(speed.size) < 0.1, np.arange(speed.size), 0))
        speed = rng.normal(0, MACHINE, speed.size)[since]
    return (speed + rng.normal(0, noise, speed.size)).reshape(sessions, runs)


def draw_rounds(draw: Draw, number: int, rounds: int = ROUNDS) -> Levels:
    """Draw contenders that take turns in one session."""
    return draw(1, number * rounds).reshape(rounds, number).T


def cases(args: argparse.Namespace) -> Iterator[Row]:
    rng = np.random.default_rng(args.seed)
    for part in args.parts:
        if part == "intervals":
            yield from intervals(rng, args.sets)
            continue
        found: dict[str, dict[str, float]] = {}
        for name, process in PROCESSES.items():
            for title, judge in PARTS[part](rng, partial(draw_levels, rng, **process)).items():
                share = count_shares(args.sets, lambda j=judge: (j(),))[0]
                found.setdefault(title, {})[name] = 100 * share
        yield from (Row(title, figures) for title, figures in found.items())


def server(levels: np.ndarray, ram: int | str, rng: np.random.Generator | None = None, **more: Any) -> Run:
    """Return a result on a tier with so many GB, with latencies if there is a generator to draw them."""
    run = drawn.result(more.pop("name", "a"), 0, levels, True, more.pop("recall", DrawnRecall(error=0.0)))
    low, high = mean_interval([1 / seconds for seconds in run.attrs["run_seconds"]])
    facts = {"qps_low": low, "qps_high": high, "cores": 2, "memory_bytes": 64 * GB, "clients": 1}
    facts |= {"index_size": 2 * GB / 1024, "table_size": 3 * GB / 1024}
    facts |= {"tier": f"1GB:{ram}", "tier_method": "cgroup", "tier_shared_buffers": GB}
    facts |= {"tier_ram": ram * GB} if isinstance(ram, int) else {}
    metrics = run.metrics | {"indexsize": facts["index_size"]}
    if rng is not None:
        facts |= stored_percentiles([rng.lognormal(-level, SPREAD, QUERIES) / 1e3 for level in levels])
        metrics["p99"] = 1e3 * facts["latency_p99"]
    series = run.series.replaced(tier_method="cgroup", tier_memory=f"sb1GB-ram{ram}")
    return replace(run, series=series, attrs=run.attrs | facts, metrics=metrics)


def price(runs: Sequence[Run], latency: float = 0.0, rate: float | None = None) -> CostAnswer:
    """Return what servers cost that have a bound for p99, in ms, and queries/s."""
    objective = Objective.parse(f"p99:{latency:.6f}ms") if latency else None
    (found,) = cost_answers(runs, TARGET, CostRequest(PRICES, objective, rate))
    return found


def prices(rng: np.random.Generator, draw: Draw) -> Judges:
    def is_said(wrong: str, shift: float, **bounds: float) -> bool:
        run = server(draw(1)[0] + shift, 8, rng if "latency" in bounds else None)
        return str(price([run], **bounds).costs[0].kept) == wrong

    def is_recall_said() -> bool:
        found = rng.binomial(10, rng.beta(9.49, 0.51, 1000)) / 10
        recall = DrawnRecall(float(found.mean()), 1.96 * float(found.std()) / len(found) ** 0.5)
        return str(price([server(draw(1)[0], 8, recall=recall)]).costs[0].kept) == "yes"

    def is_named() -> bool:
        shares = {4: 0.8, 8: 0.9, 16: 0.97, 32: 1.1, 64: 1.4}
        runs = [
            server(row + np.log(share), ram)
            for (ram, share), row in zip(shares.items(), draw(5), strict=True)
        ]
        lead = price(runs, rate=100.0).statements[0].text
        slow = any(f"is tier 1GB:{ram} (" in lead for ram, share in shares.items() if share < 1)
        return lead.startswith("The cheapest") and slow

    p99 = float(np.exp(P99 * SPREAD))
    return {
        "price: 1% too few queries/s, yes": partial(is_said, "yes", -NEAR, rate=100.0),
        "1% more queries/s, no": partial(is_said, "no", NEAR, rate=100.0),
        "p99 too long by 1%, yes": partial(is_said, "yes", -NEAR, latency=p99),
        "p99 shorter by 1%, no": partial(is_said, "no", NEAR, latency=p99),
        "recall 0.949, yes": is_recall_said,
        "cheapest of five, too slow": is_named,
    }


def memory(rng: np.random.Generator, draw: Draw) -> Judges:
    def judge(share: float, is_enough: bool) -> bool:
        ladder = {"all": 1.0, 32: 1.0, 8: 1.0, 4: share, 2: 0.2}
        rows = zip(ladder.items(), draw(len(ladder)), strict=True)
        (need,) = needs([server(row + np.log(kept), ram) for (ram, kept), row in rows], TARGET)
        if is_enough:
            return need.perhaps is None or need.perhaps > 4 * GB
        return need.ram is not None and need.ram <= 4 * GB

    return {
        "memory: 75% kept, enough": partial(judge, 0.75, False),
        "85% kept, not enough": partial(judge, 0.85, True),
    }


def fastest(rng: np.random.Generator, draw: Draw) -> Judges:
    def is_named(field: Sequence[int], runs: int = 0, states: Sequence[float] = ()) -> bool:
        rates = draw(sum(field), runs) if runs else draw_rounds(draw, sum(field))
        rates[: len(states)] += rng.normal(0, states)[:, None]
        return drawn.names_one(drawn.results(field, rates))

    fields = {"two": [1, 1], "six and one": [INDEXES, 1], "six": [1] * INDEXES}
    return {
        **{f"fastest of {name}, once": partial(is_named, field, RUNS) for name, field in fields.items()},
        **{f"fastest of {name}, in rounds": partial(is_named, field) for name, field in fields.items()},
        "fastest of two, single runs": partial(is_named, [1, 1], 1),
        "fastest of two, a build 3% off": partial(is_named, [1, 1], 0, [0.03]),
        "fastest of six, each 2.5% off": partial(is_named, fields["six"], 0, [0.025] * INDEXES),
        "fastest of two, recalls near 0.99": lambda: drawn.names_one(drawn.equals(rng, draw_rounds(draw, 2))),
    }


def comparisons(rng: np.random.Generator, draw: Draw) -> Judges:
    def differ(is_in_turn: bool, is_theirs: bool = False) -> bool:
        places = np.arange(2 * REPETITIONS).reshape(*((-1, 2) if is_in_turn else (2, -1)))
        levels = draw(2 * REPETITIONS)
        sides = [
            [drawn.repetition(n, int(at), levels[at], is_theirs and side == 0) for n, at in enumerate(row)]
            for side, row in enumerate(places.T if is_in_turn else places)
        ]
        mean = compare(*sides).metrics["qps"].mean
        return mean.is_sure and mean.p < 0.05

    return {
        "compare.py: in turn": partial(differ, True),
        "all of A first": partial(differ, False),
        "the best of runs against ours": partial(differ, True, True),
    }


def intervals(rng: np.random.Generator, sets: int) -> Iterator[Row]:
    true = float(np.exp(MACHINE**2 / 2)), float(np.exp(P99 * np.hypot(SPREAD, MACHINE)))

    def miss(correlation: float, runs: int) -> tuple[bool, bool]:
        levels = drawn.wandering(rng, runs, correlation)
        mean = mean_interval(np.exp(levels).tolist())
        facts = stored_percentiles([rng.lognormal(-one, SPREAD, QUERIES) for one in levels])
        low, high = facts["latency_p99_low"], facts["latency_p99_high"]
        return not mean.low <= true[0] <= mean.high, low > true[1] or high < true[1]

    for correlation in (0.9, 0.0):
        figures = {}
        for runs in (5, 10, 30, 100):
            shares = count_shares(sets, partial(miss, correlation, runs))
            figures |= {f"mean, {runs}": 100 * shares[0], f"p99, {runs}": 100 * shares[1]}
        yield Row(f"intervals: runs alike by {correlation:g}", figures)


PARTS = {part.__name__: part for part in (prices, memory, fastest, comparisons)}
OPTIONS = {
    "parts": {"choices": [*PARTS, "intervals"], "default": [*PARTS, "intervals"]},
    "sets": {"default": 400, "help": "studies drawn for each figure"},
}
