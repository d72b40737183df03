"""What claims share: ways that take turns, ratios with intervals, counted verdicts, the table and JSON."""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.common.numbers import figure_text
from ann_benchmarks.statistics.distributions import student_quantile

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """Ways that do the same work; each takes the number of a round and returns figures by their names.

    The first way is the one that the goal is of. Ratios are to the figures of `base`.
    """

    title: str
    ways: Mapping[str, Callable[[int], Figures]]
    base: str


class Row(NamedTuple):
    """Figures that are compared with nothing, or with what is expected of them: a line of a table."""

    title: str
    figures: Mapping[str, float | str]


@dataclass(frozen=True)
class Goal:
    """Bounds of the ratio of a figure to that of the base."""

    figure: str
    least: float = 0.0
    most: float = math.inf

    def judge(self, ratio: "RoundsRatio") -> str:
        """Say whether the ratio's interval lies within the bounds, outside, or partly."""
        if self.least <= ratio.low and ratio.high <= self.most:
            return "goal kept"
        return "goal missed" if ratio.high < self.least or ratio.low > self.most else "goal undecided"

    def __str__(self) -> str:
        bounds = [f"at least {self.least:g}"] * (self.least > 0)
        bounds += [f"at most {self.most:g}"] * (self.most < math.inf)
        return f"{self.figure} {' and '.join(bounds)} times that of the base"


class RoundsRatio(NamedTuple):
    """The geometric mean of the rounds' ratios with its 95% interval, and the least and largest of them."""

    value: float
    low: float
    high: float
    least: float
    largest: float

    def __str__(self) -> str:
        interval = f" ({self.low:.3f} to {self.high:.3f})" * math.isfinite(self.low)
        return f"{self.value:.3f}{interval}, rounds {self.least:.3f} to {self.largest:.3f}"


def compare_rounds(own: Sequence[float], base: Sequence[float]) -> RoundsRatio:
    """Compare figures, all above 0, round by round."""
    logs = np.log(np.asarray(own, float) / np.asarray(base, float))
    half = math.nan
    if len(logs) > 1:
        half = student_quantile(0.975, len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    mean = logs.mean()
    return RoundsRatio(
        *(float(np.exp(end)) for end in (mean, mean - half, mean + half, logs.min(), logs.max()))
    )


def take_turns(ways: Mapping[str, Callable[[int], Figures]], rounds: int) -> dict[str, list[Figures]]:
    """Call every way with the number of each round, which begins with another way; return what each gave."""
    found: dict[str, list[Figures]] = {way: [] for way in ways}
    names = [*ways]
    with tqdm(total=rounds * len(names), leave=False, disable=None) as bar:
        for number in range(rounds):
            turn = number % len(names)
            for way in names[turn:] + names[:turn]:
                bar.set_description(f"round {number + 1} of {rounds}, {way}")
                found[way].append(ways[way](number))
                bar.update()
    return found


def count_shares(times: int, draw: Callable[[], Iterable[float]]) -> list[float]:
    """Draw a known process many times; return the mean of each verdict: its share, if it is yes or no."""
    return [float(mean) for mean in np.mean([tuple(draw()) for _ in range(times)], axis=0)]


class ClaimReport:
    """Measures what a claim yields, prints it as it comes, and keeps it in a JSON file where one is given."""

    def __init__(self, name: str, goal: Goal | None, args: argparse.Namespace) -> None:
        """Nothing is measured yet."""
        self._goal, self._rounds, self._file = goal, args.rounds, args.json
        self._columns: Sequence[str] = ()
        options = {option: str(v) if isinstance(v, Path) else v for option, v in vars(args).items()}
        self._document: dict[str, Any] = {"claim": name, "goal": str(goal), "options": options}
        self._document |= {"host": host_facts(), "cases": [], "rows": []}

    def add(self, found: Case | Row) -> None:
        """Measure a case, or take a row."""
        if isinstance(found, Row):
            self._print_row(found)
            self._document["rows"].append({"title": found.title, **found.figures})
        else:
            print(f"{found.title}: {self._rounds} rounds", file=sys.stderr, flush=True)
            rounds = take_turns(found.ways, self._rounds)
            self._document["cases"].append({"title": found.title, "base": found.base, "rounds": rounds})
            self._print_case(found, rounds)
        if self._file:
            with atomic_path(self._file) as path:
                path.write_text(json.dumps(self._document, indent=1, default=float))

    def _print_case(self, case: Case, rounds: Mapping[str, list[Figures]]) -> None:
        print(f"{case.title}; over {case.base}: geometric mean (95% interval), least and largest round")
        first = next(iter(rounds))
        for way, own in rounds.items():
            for figure in own[0]:
                values, base = ([one[figure] for one in some] for some in (own, rounds[case.base]))
                line = f"  {way:20} {figure:18} {figure_text(median(values)):>10}"
                if way != case.base and min(*values, *base) > 0:
                    ratio = compare_rounds(values, base)
                    line += f"   {ratio}"
                    if self._goal and (way, figure) == (first, self._goal.figure):
                        line += f"; {self._goal.judge(ratio)}: {self._goal}"
                print(line, flush=True)

    def _print_row(self, row: Row) -> None:
        widths = {name: max(len(name), 9) for name in row.figures}
        if self._columns != [*row.figures]:
            self._columns = [*row.figures]
            print(f"\n{'':44} " + "  ".join(f"{name:>{width}}" for name, width in widths.items()))
        texts = (value if isinstance(value, str) else figure_text(value) for value in row.figures.values())
        cells = (f"{text:>{width}}" for text, width in zip(texts, widths.values(), strict=True))
        print(f"{row.title:44} " + "  ".join(cells), flush=True)
