"""The points of a plot: two metrics of each result with their intervals; and the table of all results."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.at_recall import AtRecall, indexes_at_recall
from ann_benchmarks.results.metrics import KNN, QPS_AT_RECALL, RECALL, TARGET_RECALL, all_metrics, drawable
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.intervals import Interval, interval_text
from ann_benchmarks.statistics.percentiles import PERCENTILES

from .builds import IndexNames
from .parts import Table, known_table

TAKEN = 0.35  # of the distance between two places, by all lines side by side
MOST_STEP = 0.04  # between two lines
LEAST_GAP = 0.05  # closer places are one


@dataclass(frozen=True)
class Point:
    """Two metrics of a result, with their 95% intervals where these are known.

    `found_for` is the recall that it was searched for, `label` what is written next to it. A point that
    `stays` is drawn wherever the frontier runs.
    """

    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    found_for: float | None = None
    label: str = ""
    stays: bool = False
    raised: float = 0.0  # the recall of ann-benchmarks less the recall


def points_by_algorithm(
    runs: Iterable[Run], x: str, y: str, target: float = TARGET_RECALL
) -> dict[str, list[Point]]:
    """Return for each algorithm the points that two metrics make of its results, where both are known.

    The throughput at the target recall has one point for each built index; its other metrics are those of
    the result next to that recall.
    """
    if QPS_AT_RECALL not in (x, y):
        chosen = [(run, point_of(run, x, y)) for run in runs]
    else:
        found = indexes_at_recall(runs, target)
        names = IndexNames(at.run for at in found)
        chosen = [
            (at.run, replace(point_of(at.run, x, y, at), label=names.label(at.run), stays=True))
            for at in found
        ]
    series: dict[str, list[Point]] = {}
    for run, point in chosen:
        if drawable(point.x, point.y):
            series.setdefault(run.algorithm, []).append(point)
    return series


def point_of(run: Run, x: str, y: str, at: AtRecall | None = None) -> Point:
    """Return the point that two metrics make of a result, with the throughput at a recall of `at`."""

    def value_of(name: str) -> tuple[float, Interval | None]:
        if at and name == QPS_AT_RECALL:
            return at.qps, at.interval
        return run.metrics[name], interval(run, name)

    (x_value, x_interval), (y_value, y_interval) = map(value_of, (x, y))
    found_for = number(run, "target_recall")
    raised = run.metrics[KNN] - run.metrics[RECALL] if KNN in (x, y) else 0.0
    return Point(x_value, y_value, x_interval, y_interval, found_for, "", found_for is not None, raised)


def point_at(at: AtRecall, metric: str, x: float) -> Point:
    """Return the throughput at a recall, or another metric of the result next to it, at a place."""
    if metric == "qps":
        return Point(x, at.qps, None, at.interval)
    return Point(x, at.run.metrics[metric], None, interval(at.run, metric))


def divided(point: Point, whole: float) -> Point:
    """Return a point whose y is a share of `whole`."""
    bounds = point.y_interval
    shares = Interval(*(end / whole for end in bounds)) if bounds else None
    return replace(point, y=point.y / whole, y_interval=shares)


def side_by_side(places: Iterable[float], lines: int) -> list[float]:
    """Return how far to move each of some lines, so that their bars do not hide each other.

    All of them together take a share of the smallest distance between two places, which on a logarithmic
    axis are logarithms.
    """
    gaps = [gap for one, other in pairwise(sorted({*places})) if (gap := other - one) > LEAST_GAP]
    step = min(TAKEN * min(gaps, default=1.0) / max(lines, 1), MOST_STEP)
    return [(number - (lines - 1) / 2) * step for number in range(lines)]


def ordered(points: Sequence[Point]) -> list[Point]:
    """Return the points with finite values by x."""
    return sorted((p for p in points if math.isfinite(p.x) and math.isfinite(p.y)), key=lambda point: point.x)


def result_table(runs: Sequence[Run], title: str = "") -> Table:
    """Return all results with their intervals; UserError without any."""
    if not runs:
        raise UserError("no result was selected")
    runs = sorted(runs, key=lambda run: (run.dataset, run.algorithm, run.metrics["recall"]))
    columns = {
        "Curve": [run.algorithm for run in runs],
        "Parameters": [run.parameters for run in runs],
        "Dataset": [run.dataset for run in runs],
        "k": [str(run.count) for run in runs],
    }
    for name in ("recall", "qps", *PERCENTILES):
        write = all_metrics[name].write
        columns[all_metrics[name].title] = [
            write(run.metrics[name]) + interval_text(interval(run, name), write) for run in runs
        ]
    title = title or f"All points ({len(runs)})"
    return known_table(columns, title, ("Curve", "Parameters", "Dataset"), ("Dataset", "k"))
