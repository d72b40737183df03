"""Different indexes at the same recall: of each, the fastest point that reaches it."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ann_benchmarks.common.errors import UserError

from .measurements import Key, Measurement


def fastest_at(side: Sequence[Measurement], recall: float) -> list[Measurement]:
    """Return the fastest point of each series that reaches a recall, whatever its arguments.

    A point of several repetitions has reached it where the lowest of them has; its throughput is their mean.
    """
    points: dict[Key, list[Measurement]] = {}
    for measurement in side:
        points.setdefault(measurement.key, []).append(measurement)
    fastest: dict[Key, tuple[float, list[Measurement]]] = {}
    for key, repetitions in points.items():
        rates = [figure.value for m in repetitions if (figure := m.figure("qps"))]
        if not rates or any(m.recall is None or m.recall < recall for m in repetitions):
            continue
        rate = math.fsum(map(math.log, rates)) / len(rates)
        if key[:-1] not in fastest or rate > fastest[key[:-1]][0]:
            fastest[key[:-1]] = (rate, repetitions)
    if not fastest:
        raise UserError(f"no point reaches a recall of {recall:g}: {side[0].path.parent} and others")
    return [replace(m, key=(*key, "")) for key, (_, repetitions) in fastest.items() for m in repetitions]
