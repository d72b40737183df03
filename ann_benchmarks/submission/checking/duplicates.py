"""Finds points that are others again, scaled, shuffled or moved in time."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ann_benchmarks.statistics.intervals import FEWEST_RUNS

from .points import CheckedPoint

FEWEST = 64  # latencies; as many in the same order, or of the same values, are of one measurement
NEAR, NEAREST = 1e-3, 1e-6  # relative: in all of a distribution, and in all of a few runs
PIECES = 32  # of a run, whose order by their mean latency identifies it


class Copies:
    """Finds points that are others again, scaled, shuffled or moved in time."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, object], str] = {}
        self._alike: dict[tuple[str, int], list[tuple[np.ndarray, str]]] = defaultdict(list)

    def problems(self, point: CheckedPoint) -> Iterator[str]:
        """Yield in what a point with its arrays is one of those before it."""
        times, counts = point.times, point.counts
        same: list[tuple[object, str]] = [
            (one, "has a run that began at the very time of one of") for one in point.numbers("run_started")
        ]
        alike = list[tuple[np.ndarray, float, str]]()
        if len(times) >= FEWEST and len(np.unique(times)) >= FEWEST:
            # No factor changes the order of the pieces of a run by their means, nor the shape of all.
            pieces = [np.mean(piece) for piece in np.array_split(times, PIECES)]
            same.append((_digest(np.argsort(pieces)), "has latencies in the order of those of"))
            shape = np.quantile(times, np.linspace(0, 1, FEWEST)) / times.mean()
            alike.append((shape, NEAR, "has latencies distributed as those of"))
        if np.count_nonzero(counts) >= PIECES:
            same.append((_digest(counts), "has the histogram of"))
        for name in ("run_seconds", "run_p50"):
            values = np.array(point.numbers(name))
            if len(values) >= FEWEST_RUNS and len(np.unique(values)) == len(values):
                alike.append(
                    (values / values.mean(), NEAREST, f"has runs that compare (by {name}) as those of")
                )
        for mark, what in same:
            if (other := self._same.setdefault((what, mark), point.file)) != point.file:
                yield f"{what} {other}"
        for values, tolerance, what in alike:
            before = self._alike[what, len(values)]
            known = np.array([one for one, _ in before]).reshape(-1, len(values))
            for place in np.flatnonzero((np.abs(known - values) <= tolerance * values).all(axis=1))[:1]:
                yield f"{what} {before[place][1]}"
            before.append((values, point.file))


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
