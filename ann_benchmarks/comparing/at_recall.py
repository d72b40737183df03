"""One point of each series at a recall, whatever its arguments: --at-recall."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.equal_recall import Standing, standing

from .measurements import Key, MeasuredPoint
from .sides import by_key


def at_recall(side: Sequence[MeasuredPoint], recall: float) -> list[MeasuredPoint]:
    """Return each series' repetitions as they are at a recall; UserError where no series reaches it.

    The throughput is taken between the points next to that recall, which all repetitions choose together. All
    other figures are those of the nearest point.
    """
    series: dict[Key, list[list[MeasuredPoint]]] = {}
    for key, repetitions in by_key(side).items():
        if all(point.recall is not None and point.estimate("qps") for point in repetitions):
            series.setdefault(key[:-1], []).append(repetitions)
    found = []
    for key, points in series.items():
        speeds = [replace(one[0].speed, rates=[r for m in one for r in m.speed.rates]) for one in points]
        if stands := standing(speeds, recall):
            found += [replace(point, key=(*key, "")) for point in _repetitions(points, stands)]
    if not found:
        raise UserError(f"no point reaches a recall of {recall:g}: {side[0].path.parent} and others")
    return found


def _repetitions(points: Sequence[Sequence[MeasuredPoint]], stands: Standing) -> list[MeasuredPoint]:
    """Return the nearest point of each repetition, with the throughput at the recall."""
    levels = [{point.source: point.speed.level for point in one} for one in points]
    means = [fmean(of_point.values()) for of_point in levels]
    found = []
    for point in points[stands.chosen[0]]:
        level = stands.shift + math.fsum(
            weight * levels[i].get(point.source, means[i]) for i, weight in stands.weights.items()
        )
        scale = math.exp(point.speed.level - level)
        seconds = [scale / rate for rate in point.speed.rates]
        attrs = {**point.attrs, "run_seconds": seconds, "best_search_time": min(seconds)}
        found.append(replace(point, attrs=attrs, stands=stands))
    return found
