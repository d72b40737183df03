"""Charts with a row for each result or build: latencies from the median to p99, and seconds part by part."""

import math
from collections.abc import Mapping, Sequence

from ann_benchmarks.common.numbers import figure_text
from ann_benchmarks.common.text import shortened
from ann_benchmarks.results.runs import Run, interval

from .builds import PARTS, BuildCosts
from .figures import BARS, Axis, Chart, Curve, Panel, Style
from .points import Point

LONGEST = 60  # characters of a name
WIDTH, ROW = 6.5, 0.3  # inches, of the panel and of a row
ROOM_FOR_TEXT = 1.18  # of the longest bar
PART_COLORS, LATENCY_COLORS = (4, 5, 0), {"p50": 4, "p99": 0}
GREY = 6  # the number of the colour of spans


def latency_chart(named: Mapping[str, Run], title: str) -> Chart:
    """Return for each result by its name, whose median is known, a span from there to its p99."""
    runs = list(named.values())
    medians, tails = ([run.metrics[name] for run in runs] for name in LATENCY_COLORS)
    curves = [Curve("", row_spans(medians, tails), Style(GREY, 0, 0), "span")]
    for marker, (name, color) in enumerate(LATENCY_COLORS.items()):
        points = [
            Point(run.metrics[name], -row, interval(run, name), label=latency_label(run, name))
            for row, run in enumerate(runs)
        ]
        curves.append(Curve(name, points, Style(color, marker, 0), "mark"))
    has_bars = any(point.x_interval for curve in curves for point in curve.points)
    x = Axis("Latency (ms); to the left is better", "log")
    return row_chart(title, curves, x, [*named], BARS * has_bars)


def latency_label(run: Run, name: str) -> str:
    """Write the longest latency that is known beside its point."""
    is_longest = name == ("p99" if math.isfinite(run.metrics["p99"]) else "p50")
    return figure_text(run.metrics[name]) if is_longest else ""


def build_chart(builds: Sequence[BuildCosts]) -> Chart:
    """Return the seconds of each build, one part after the other: of building, if only the sum is known."""
    several = len({build.run.dataset for build in builds}) > 1
    names = [f"{build.short_name}{f', {build.run.dataset}' if several else ''}" for build in builds]
    ends, curves = [0.0] * len(builds), []
    for color, (part, label) in zip(PART_COLORS, PARTS.items(), strict=True):
        rest = [build.total if part == "index" else 0.0 for build in builds]
        known = [build.seconds(part) for build in builds]
        seconds = [own if one is None else one for one, own in zip(known, rest, strict=True)]
        begins, ends = ends, [end + more for end, more in zip(ends, seconds, strict=True)]
        texts = [f"{figure_text(end)} s" if part == "index" else "" for end in ends]
        if any(seconds):
            curves.append(Curve(label, row_spans(begins, ends, texts), Style(color, 0, 0), "bar"))
    x = Axis("Seconds; shorter is better", "linear", limits=(0, max(ends) * ROOM_FOR_TEXT or 1))
    return row_chart("What building took", curves, x, names)


def row_spans(begins: Sequence[float], ends: Sequence[float], labels: Sequence[str] = ()) -> list[Point]:
    """Return the points of a curve that has a piece in each row, with a text at its end."""
    points = []
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        text = labels[row] if labels else ""
        points += [Point(begin, -row), Point(end, -row, label=text), Point(math.nan, math.nan)]
    return points


def row_chart(title: str, curves: Sequence[Curve], x: Axis, names: Sequence[str], note: str = "") -> Chart:
    """Return a panel with these names of rows from the top."""
    ticks = {-float(row): shortened(name, LONGEST) for row, name in enumerate(names)}
    y = Axis("", "linear", limits=(0.4 - len(names), 0.6), ticks=ticks)
    return Chart(title, [Panel(curves, x, y)], note=note, size=(WIDTH, ROW * len(names) + ROW))
