"""The points of a plot: two metrics of each result, how sure they are, and what is special about it."""

from collections.abc import Iterable
from dataclasses import dataclass

from ann_benchmarks.results.built import fastest_of_each_index
from ann_benchmarks.results.frontier import drawable
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import QPS_AT_RECALL, TARGET_RECALL, qps_at_recall
from ann_benchmarks.results.runs import Run, interval, number


@dataclass(frozen=True)
class Point:
    """Two metrics of a result, with their 95% intervals where these are known.

    `found_for` is the recall that it was searched for, `label` what is written beside it. A point that
    `stays` is drawn wherever the frontier runs.
    """

    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    found_for: float | None = None
    label: str = ""
    stays: bool = False


def points_by_algorithm(
    runs: Iterable[Run], x: str, y: str, target: float = TARGET_RECALL, intervals: bool = True
) -> dict[str, list[Point]]:
    """Return for each algorithm the points that two metrics make of its results, where both are known.

    The throughput at the target recall has one point for each built index: its fastest result.
    """
    of_indexes = QPS_AT_RECALL in (x, y)
    chosen = fastest_of_each_index(runs, target) if of_indexes else [(run, "") for run in runs]
    series: dict[str, list[Point]] = {}
    for run, label in chosen:
        x_value, y_value = (
            qps_at_recall(run.metrics, target) if name == QPS_AT_RECALL else run.metrics[name]
            for name in (x, y)
        )
        if drawable(x_value, y_value):
            found_for = number(run, "target_recall")
            point = Point(
                x_value,
                y_value,
                interval(run, x) if intervals else None,
                interval(run, y) if intervals else None,
                found_for,
                label,
                stays=of_indexes or found_for is not None,
            )
            series.setdefault(run.algorithm, []).append(point)
    return series
