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


def once(rng: np.random.Generator, number: int, noise: float) -> Throughputs:
    """Draw contenders that were measured one after the other."""
    return rng.normal(rng.normal(0, MACHINE, (number, 1)), noise, (number, RUNS))


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
    metrics = dict.fromkeys(standard_metrics, 1.0) | {"recall": recall.value, "qps": float(rates.max())}
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
    is_once = drawn.shape[1] == RUNS
    recall = DrawnRecall(error=recall_error)
    return [
        result(f"a{name}", index, row, is_once, recall)
        for (name, index), row in zip(names, drawn, strict=True)
    ]


def summary(runs: Sequence[Run]) -> str:
    """Return the first sentences of a report."""
    return " ".join(one.text for one in statements(runs, True, TARGET) if one.about == "In short")


def repetition(source: int, at: int, logarithms: np.ndarray) -> MeasuredPoint:
    """Return a repetition that was measured at an hour."""
    seconds = np.exp(-logarithms)
    started = datetime.fromtimestamp(3600 * at, timezone.utc).isoformat()
    attrs = {"best_search_time": seconds.min(), "run_seconds": seconds.tolist(), "started_at": started}
    return MeasuredPoint(Path("drawn/10/a/x.hdf5"), ("x",), source, attrs)
