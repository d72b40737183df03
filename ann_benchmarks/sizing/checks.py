"""Predictions next to what was measured later, at a number of rows that no law was fitted to."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ann_benchmarks.results.runs import Run, number

from .forecasts import LAWS, Forecast
from .growth import Prediction

APART = 3.0  # the largest sample checks predictions if it has this many times the rows of the next one


class Check(NamedTuple):
    """A prediction, and what was measured; `clients` is 0 where they make no difference."""

    name: str  # of the index
    figure: str
    clients: int
    predicted: Prediction
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measured figure lies in the interval."""
        return self.predicted.low <= self.measured <= self.predicted.high


def held_rows(samples: Sequence[float]) -> float:
    """Return the rows of the sample that only checks, of samples in ascending order; 0 without one."""
    return samples[-1] if len(samples) > 1 and samples[-1] >= APART * samples[-2] else 0.0


def check(one: Forecast, runs: Iterable[Run], target: float) -> Iterator[Check]:
    """Compare the forecast of an index with its results on a sample that was held out."""
    reaching = [run for run in runs if number(run, "target_recall") == target]
    by_clients = {run.series.clients or 1: run for run in reaching}
    for law, clients in one.curves:
        run = by_clients.get(clients or min(by_clients, default=0))
        figure = run and measured_figure(law, run, target)
        predicted = run and one.predict(law, number(run, "rows") or 0.0, clients)
        if figure and math.isfinite(figure) and predicted:
            yield Check(one.name, law, clients, predicted, figure)


def measured_figure(law: str, run: Run, target: float) -> float | None:
    """Return the figure of a result as it is predicted; the query argument is the one that was found."""
    if law == "argument":
        return number(run, "target_value")
    read = LAWS[law].read(run, target)
    return read and LAWS[law].restored(read, number(run, "rows") or 0.0, run)
