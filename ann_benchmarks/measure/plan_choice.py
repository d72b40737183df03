"""The choice of a planner, after the runs of a point: its time, and that of other plans for the same queries.

A plug-in says which plans there are, and answers queries by each of them. What they are worth is judged here.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ann_benchmarks.plugin import PlanAnswers
from ann_benchmarks.results.regret import regret_of

from .timed import Subject

PLANS = "planner_plans"  # the attribute that is stored whenever plans were compared
MOST_QUERIES = 100
LEAST_QUERIES = 10  # answered by several plans, for their times to mean something
SECONDS = 2.0  # for all of it
_ROUNDING = 1e-9
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
    regret = regret_of(seconds[0], [seconds[place] for place in as_good])
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
