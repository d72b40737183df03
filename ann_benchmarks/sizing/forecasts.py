"""Forecasts: each law fitted to the samples of an index, and what they say of more rows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import KIB
from ann_benchmarks.results.runs import Run, number

from .growth import FittedLaw, Prediction, fit
from .laws import argument, blocks, build, ram, seconds, size
from .laws.law import GRAPH, KINDS

EACH = (argument.LAW, blocks.LAW, seconds.LAW, seconds.TAIL, build.LAW, size.LAW, size.TABLE, size.MEMORY)
LAWS = {law.name: law for law in (*EACH, ram.LAW)}
FEWEST_SIZES = 3  # a law is fitted to as many samples at least
Key = tuple[str, int]  # of a curve: a law, and the clients where they matter, else 0


@dataclass(frozen=True)
class Forecast:
    """The fitted laws of one index; `runs` are the results of its largest sample by number of clients."""

    name: str
    kind: str
    runs: Mapping[int, Run]
    curves: Mapping[Key, FittedLaw]
    rows: float  # of the largest sample
    missed: float = math.inf  # the fewest rows with which no query argument reached the recall

    def predict(self, law: str, rows: float, clients: int = 0) -> Prediction | None:
        """Return a figure at a number of rows; None where it is not known."""
        curve = self.curves.get((law, clients))
        found = curve.predict(rows) if curve else None
        if found is None or (LAWS[law].is_at_recall and not self.reaches(rows)):
            return None
        return found.mapped(lambda figure: LAWS[law].restored(figure, rows, self.largest))

    def add_ram(self, low: float, high: float) -> "Forecast":
        """Add the least RAM, in bytes, that the largest sample needs: it lies between these two."""
        of_size = self.curves.get((size.LAW.name, 0))
        if of_size is None:
            return self
        known = {(ram.LAW.name, 0): ram.fit_ram(low, high, self.rows, of_size)}
        return replace(self, curves={**self.curves, **known})

    def reaches(self, rows: float) -> bool:
        """Whether some query argument may reach the recall, as far as is known."""
        if rows >= self.missed:
            return False
        most = number(self.largest, "target_most") if self.kind == GRAPH else None
        argument = self.predict("argument", rows)
        return argument is None or most is None or argument.value <= most

    @property
    def largest(self) -> Run:
        """A result of the largest sample."""
        return next(iter(self.runs.values()))

    @property
    def farthest(self) -> float:
        """The largest number of rows for which anything is predicted."""
        return max(curve.largest * curve.growth.farthest for curve in self.curves.values())

    @property
    def samples(self) -> list[float]:
        """The rows of each sample, ascending."""
        return sorted({rows for curve in self.curves.values() for rows, _ in curve.measured})


def forecast(runs: Iterable[Run], target: float) -> Forecast | None:
    """Fit all laws to the results of one index on several samples; None where they are too few."""
    runs = list(runs)
    reaching = [run for run in runs if number(run, "target_recall") == target and number(run, "rows")]
    kinds = {KINDS.get(str(run.attrs.get("target_parameter"))) for run in reaching}
    sizes = {number(run, "rows") or 0.0 for run in reaching}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if kind is None or len(sizes) < FEWEST_SIZES:
        return None
    loads = sorted({run.series.clients or 1 for run in reaching})
    curves: dict[Key, FittedLaw] = {}
    row_bytes = max(run.metrics["indexsize"] * KIB / (number(run, "rows") or 1) for run in reaching)
    for law in EACH:
        base = curves.get((law.base, 0))
        if law.base and base is None:
            continue
        for clients in loads if law.per_load else loads[:1]:
            ours = [run for run in reaching if (run.series.clients or 1) == clients]
            read = [(number(run, "rows") or 0.0, law.read(run, target)) for run in ours]
            pairs = [(rows, figure) for rows, figure in read if figure and math.isfinite(figure)]
            if len({rows for rows, _ in pairs}) >= FEWEST_SIZES:
                key = law.name, clients if law.per_load else 0
                most = law.bytes_full / row_bytes if row_bytes > 0 else math.inf  # a server may hide sizes
                curves[key] = fit(law.growth[kind], pairs, base, most)
    if not any(name == seconds.LAW.name for name, _ in curves):
        return None
    largest = {run.series.clients or 1: run for run in reaching if number(run, "rows") == max(sizes)}
    missing = [
        rows for run in runs if number(run, "target_missed") == target and (rows := number(run, "rows"))
    ]
    name = reaching[0].series.family
    return Forecast(name, kind, largest, curves, max(sizes), min(missing, default=math.inf))
