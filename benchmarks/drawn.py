"""Results that are drawn: contenders on a shared machine with two cores, whose speed wanders.

Runs differ by a noise of their own, and the speed of the machine by 16%. That changes from one measurement to
the next, or drifts with an autocorrelation from one round, or repetition, to the next.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.fields.series import Series
from ann_benchmarks.reporting.answer import statements
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.runs import Run

MACHINE = 0.16  # standard deviation of its speed's logarithm
TARGET, RECALL_ERROR = 0.95, 0.002  # half of the recall's interval, as of 10,000 queries
RUNS = 5  # of what was not measured in rounds
Throughputs = np.ndarray  # their logarithms, (contenders, runs)


def turns(rng: np.random.Generator, number: int, rounds: int, noise: float, drift: float) -> Throughputs:
    """Draw contenders that were measured in rounds, in random order, while the machine drifts."""
    speeds = wandering(rng, number * rounds, drift ** (1 / number)).reshape(rounds, number)
    return rng.permuted(speeds, axis=1).T + rng.normal(0, noise, (number, rounds))


def wandering(rng: np.random.Generator, number: int, correlation: float) -> np.ndarray:
    """Draw the speed of the machine, step by step: an autoregressive process of the first order."""
    drawn = rng.normal(0, MACHINE, number).tolist()
    fresh = math.sqrt(1 - correlation**2)
    for step in range(1, number):
        drawn[step] = correlation * drawn[step - 1] + fresh * drawn[step]
    return np.array(drawn)


@dataclass(frozen=True)
class DrawnRecall:
    """The recall of a result, half of its interval, and that of each part of the queries."""

    value: float = TARGET
    error: float = RECALL_ERROR
    parts: Sequence[float] = ()


def result(
    name: str, index: int, logarithms: np.ndarray, is_once: bool, recall: DrawnRecall = DrawnRecall()
) -> Run:
    """Return a result with these throughputs."""
    rates = 100 * np.exp(logarithms)
    metrics = dict.fromkeys(standard_metrics, 1.0) | {"recall": recall.value, "qps": float(rates.mean())}
    attrs = {
        "run_seconds": (1 / rates).tolist(),
        "run_count": len(rates),
        "recall_low": recall.value - recall.error,
        "recall_high": min(recall.value + recall.error, 1.0),
        "recall_parts": recall.parts,
        "build_arguments": f'["euclidean", {{"M": {index}}}]',
    }
    if not is_once:
        attrs |= {"rounds": "drawn", "run_rounds": list(range(len(rates)))}
    return Run("drawn", 10, "euclidean", Series(name, clients=1), f"{name}({index})", metrics, attrs)


def results(field: Sequence[int], drawn: Throughputs, recall_error: float = RECALL_ERROR) -> list[Run]:
    """Return results with these throughputs; `field` has the number of indexes of each algorithm."""
    names = [(name, index) for name, indexes in enumerate(field) for index in range(indexes)]
    is_once = drawn.shape[1] <= RUNS
    recall = DrawnRecall(error=recall_error)
    return [
        result(f"a{name}", index, row, is_once, recall)
        for (name, index), row in zip(names, drawn, strict=True)
    ]


def summary(runs: Sequence[Run]) -> str:
    """Return the first sentences of a report."""
    return " ".join(one.text for one in statements(runs, True, TARGET) if one.about == "In short")


def names_one(runs: Sequence[Run]) -> bool:
    """Whether a report names a fastest, or one that is ahead."""
    return any(words in summary(runs) for words in ("the fastest with", "ahead with"))


def repetition(source: int, at: int, logarithms: np.ndarray, is_best: bool = False) -> MeasuredPoint:
    """Return a repetition measured at an hour; with `is_best`, only its best run is stored."""
    seconds = np.exp(-logarithms)
    started = datetime.fromtimestamp(3600 * at, timezone.utc).isoformat()
    attrs = {"best_search_time": seconds.min(), "started_at": started, "run_count": len(seconds)}
    attrs |= {} if is_best else {"run_seconds": seconds.tolist()}
    return MeasuredPoint(Path("drawn/10/a/x.hdf5"), ("x",), source, attrs)


def equals(rng: np.random.Generator, rates: Throughputs) -> list[Run]:
    """Return two results that are equally fast at equal recall, with a point each near a recall of 0.99.

    The logarithm of the throughput falls with the effort, minus the logarithm of what is missed, as with real
    indexes. Recalls are those of 1,000 queries; some are harder than others for both indexes.
    """
    parts, neighbors, missed = 50, 200, 0.01  # of the queries; of a part's queries; of the neighbours
    slope, hardness = rng.uniform(-1.2, -0.4), rng.gamma(1.0, 1.0, parts)
    runs = []
    for number, row in enumerate(rates):
        effort = rng.uniform(0, 0.3)  # more than at that recall
        misses = rng.poisson(missed * np.exp(-effort) * neighbors * hardness)
        recalls = (1 - np.minimum(misses / neighbors, 1)).tolist()
        error = 1.96 * float(np.std(recalls, ddof=1)) / parts**0.5
        recall = DrawnRecall(float(np.mean(recalls)), error, recalls)
        runs.append(result(f"a{number}", 0, row + slope * effort, len(row) == RUNS, recall))
    return runs
