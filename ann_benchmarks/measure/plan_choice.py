"""The choice of a planner, after the runs of a point: its time, and that of other plans for the same queries.

A plug-in says which plans there are, and answers queries by each of them. What they are worth is judged here.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ann_benchmarks.plugin import PlanAnswers
from ann_benchmarks.statistics.intervals import CONFIDENCE

from .timed import Subject

PLANS = "planner_plans"  # the attribute that is stored whenever plans were compared
MOST_QUERIES = 100
LEAST_QUERIES = 10  # answered by several plans, for their times to mean something
SECONDS = 2.0  # for all of it
_ROUNDING = 1e-9
_SAMPLES = 2000  # of the queries, with replacement
_SEED = 0

# The recall and the completeness of each query, of answers (queries, at least count).
Shares = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def plan_figures(subject: Subject, shares_of: Shares) -> dict[str, Any]:
    """Have up to 100 queries answered by every plan; return what is stored, nothing where none is chosen.

    The queries are evenly spaced and in random order: where time is short, the first of them are used.
    UserError for an answer that cannot be right.
    """
    queries = subject.queries
    taken = min(len(queries), MOST_QUERIES)
    numbers = np.arange(taken) * len(queries) // taken
    np.random.default_rng(_SEED).shuffle(numbers)
    compared = subject.plugin.compare_plans([queries[number] for number in numbers], subject.count, SECONDS)
    if compared is None:
        return {}
    ways = [_figures(subject, way, numbers, shares_of) for way in compared.answers]
    facts = {**compared.facts, PLANS: json.dumps(ways)}
    answered = [len(way.seconds) for way in compared.answers]
    if len(ways) < 2 or answered[0] < LEAST_QUERIES:
        return facts
    own = ways[0]
    as_good = [
        place
        for place, way in enumerate(ways)
        if place and answered[place] == answered[0]
        and all(way[name] >= own[name] - _ROUNDING for name in ("recall", "completeness"))
    ]  # fmt: skip
    seconds = [np.asarray(way.seconds, dtype=float) for way in compared.answers]
    regret = judge_regret(seconds[0], [seconds[place] for place in as_good])
    return facts | {
        "planner_regret": regret.ratio,
        "planner_regret_low": regret.low,
        "planner_regret_high": regret.high,
        "planner_best": "" if regret.best is None else ways[as_good[regret.best]]["plan"],
    }


def _figures(subject: Subject, way: PlanAnswers, numbers: np.ndarray, shares_of: Shares) -> dict[str, Any]:
    """Return the figures of one way, means of the queries that it has answered; None without any."""
    figures: dict[str, Any] = {"way": way.way, "plan": way.plan, "queries": len(way.seconds)}
    if not len(way.seconds):
        return figures | dict.fromkeys(("seconds", "recall", "completeness"))
    mine = numbers[: len(way.seconds)]
    answers: list[Any] = [[]] * len(subject.queries)
    for number, ids in zip(mine, way.ids, strict=True):
        answers[number] = ids
    recalls, complete = shares_of(subject.checked(answers))
    return figures | {
        "seconds": float(np.mean(way.seconds)),
        "recall": float(recalls[mine].mean()),
        "completeness": float(complete[mine].mean()),
    }


class Regret(NamedTuple):
    """How many times as long the choice takes, with a 95% interval, and the place of the best other way.

    `best` is None where no other way is faster: then the regret is 1.
    """

    ratio: float
    low: float
    high: float
    best: int | None


def judge_regret(own: np.ndarray, others: Sequence[np.ndarray]) -> Regret:
    """Return the mean of `own` over the smallest mean of all, each (queries,) in s, and at least 1.

    The interval is from drawing queries with replacement, the same ones for all ways (the paired percentile
    bootstrap, Efron 1979). Its lower end is of the way that is the best here, judged together with the others
    (Bonferroni), because chance chooses it among them. Its upper end is of the best one of each draw: ways
    that are equally fast differ by chance, which does not make the regret smaller.
    """
    seconds = np.array([own, *others])
    best = int(np.argmin(seconds.mean(axis=1)))
    queries = seconds.shape[1]
    drawn = np.random.default_rng(_SEED).integers(queries, size=(_SAMPLES, queries))
    means = seconds[:, drawn].mean(axis=2)
    beyond = (1 - CONFIDENCE) / 2
    low = float(np.quantile(means[0] / means[best], beyond / max(len(others), 1)))
    high = float(np.quantile(means[0] / means.min(axis=0), 1 - beyond))
    ratio = float(seconds[0].mean() / seconds[best].mean())
    return Regret(ratio, max(min(low, ratio), 1.0), max(high, ratio), best - 1 if best else None)
