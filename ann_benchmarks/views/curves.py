"""Charts of curves: frontiers of two metrics, in one panel or several, and lines over anything."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import plain_number
from ann_benchmarks.common.text import warn
from ann_benchmarks.results.metrics import all_metrics, pareto_frontier, plot_label

from .figures import BARS, LIGHT_COLORS, Axis, Chart, Curve, Panel, Style, assign_styles, heading_curve
from .points import Point, ordered
from .published import PublishedPoints

NOTABLE = 0.005  # of recall
MOST_PANELS = 25
FAR = 4.0  # the largest x over the smallest, from which on a logarithmic axis shows more
MOST_TICKS = 12  # values of x that are written below the axis; of more, round ones are


@dataclass(frozen=True)
class View:
    """What a picture of two metrics shows: which ones, on which scales, and which points.

    `raw` adds the points behind the frontier, in faded colours.
    """

    x: str = "recall"
    y: str = "qps"
    x_scale: str = "linear"
    y_scale: str = "linear"
    raw: bool = False

    @property
    def metrics(self) -> tuple[str, str]:
        """The names of both metrics."""
        return self.x, self.y

    def axes(self) -> tuple[Axis, Axis]:
        """Return both axes."""
        x, y = all_metrics[self.x], all_metrics[self.y]
        return (
            Axis(x.description, self.x_scale, metric=self.x, is_share=x.is_share),
            Axis(y.description, self.y_scale, metric=self.y, is_share=y.is_share),
        )


def metric_chart(
    series: Mapping[str, Sequence[Point]],
    view: View,
    title: str = "",
    styles: Mapping[str, Style] | None = None,
    others: PublishedPoints | None = None,
) -> Chart:
    """Return the Pareto frontier of each series.

    `others` are points of another machine. Without a point the picture is an empty frame.
    """
    curves = frontier_curves(series, view, styles or assign_styles(series))
    points = [point for curve in curves if curve.role != "faded" for point in curve.points]
    if slack := slack_note(points):
        warn(slack)
    theirs = published_curves(others, metrics=view.metrics) if others else []
    heading = plot_label(*view.metrics)
    panel = Panel([*curves, *theirs], *view.axes(), heading)
    return Chart(title, [panel], note=bars_note(points, view.metrics))


def facet_chart(
    panels: Mapping[str, Mapping[str, Sequence[Point]]], view: View, title: str, styles: Mapping[str, Style]
) -> Chart:
    """Return a panel with the frontiers of each value of a facet; UserError if there are too many."""
    if len(panels) > MOST_PANELS:
        raise UserError(f"{len(panels)} panels are more than {MOST_PANELS}: choose some by --series")
    columns = 3 if len(panels) == 3 else math.ceil(math.sqrt(len(panels)))
    every = [point for series in panels.values() for points in series.values() for point in points]
    shown = [
        Panel(frontier_curves(series, view, styles), *view.axes(), heading)
        for heading, series in panels.items()
    ]
    return Chart(title, shown, columns, "xy", plot_label(*view.metrics), bars_note(every, view.metrics))


def frontier_curves(
    series: Mapping[str, Sequence[Point]], view: View, styles: Mapping[str, Style]
) -> list[Curve]:
    """Return the curves of every series, in the order of their heights, and the marks of what was found."""
    frontiers = {
        name: pareto_frontier([(point.x, point.y) for point in points], *view.metrics)
        for name, points in series.items()
    }

    def mean_height(name: str) -> float:
        heights = [abs(series[name][i].y) for i in frontiers[name][0]]
        return sum(map(math.log, heights)) / len(heights)

    curves: list[Curve] = []
    for name in sorted((name for name in series if frontiers[name][0]), key=mean_height, reverse=True):
        frontier, every = frontiers[name]
        behind = [series[name][i] for i in every if i not in set(frontier)]
        parts = {
            "line": [series[name][i] for i in frontier],
            "mark": [point for point in behind if point.stays],
            "faded": [point for point in behind if view.raw and not point.stays],
        }
        curves += [
            Curve(name if role == "line" else "", points, styles[name], role)
            for role, points in parts.items()
            if points
        ]
    shown = [point for curve in curves if curve.role != "faded" for point in curve.points]
    if found := [point for point in shown if point.found_for is not None]:
        recalls = sorted({point.found_for for point in found if point.found_for is not None})
        text = f"found for recall {', '.join(f'{recall:g}' for recall in recalls)}"
        curves.append(Curve(text, found, role="ring"))
    return curves


def bars_note(points: Sequence[Point], metrics: tuple[str, str]) -> str:
    """Say which metrics have bars and what these are, and what the recall of ann-benchmarks adds."""
    shown = [
        all_metrics[metric]
        for name, metric in zip("xy", metrics, strict=True)
        if any(getattr(point, f"{name}_interval") for point in points)
    ]
    bounded = dict.fromkeys(metric.bounds.of for metric in shown if metric.bounds)
    texts = [f"{BARS} of {' and of '.join(bounded)}"] if shown else []
    return "; ".join(filter(None, [*texts, slack_note(points)]))


def slack_note(points: Iterable[Point]) -> str:
    """Say how much the slack of ann-benchmarks adds to the recall; nothing where that is little."""
    raised = max((point.raised for point in points), default=0.0)
    return f"the slack of 0.001 raises recall by up to {100 * raised:.1f} points" if raised > NOTABLE else ""


def published_curves(
    others: PublishedPoints,
    styles: Mapping[str, Style] | None = None,
    metrics: tuple[str, str] | None = None,
) -> list[Curve]:
    """Return published points, joined where they are steps of a curve, below their heading.

    A name that has a style gets its marker. With two metrics a curve joins its Pareto frontier only.
    """
    curves = [heading_curve(others.label)]
    for number, (name, points) in enumerate(others.series.items()):
        marker = styles[name].marker if styles and name in styles else number
        joined = points
        if others.joined and metrics:
            frontier, _ = pareto_frontier([(point.x, point.y) for point in points], *metrics)
            joined = [points[i] for i in frontier]
        role = "published" if others.joined else "published mark"
        curves.append(Curve(name, joined, Style(number, marker, 1), role))
    return curves


def line_chart(
    series: Mapping[str, Sequence[Point]],
    axes: tuple[str, str],
    title: str,
    direction: str = "",
    others: PublishedPoints | None = None,
    styles: Mapping[str, Style] | None = None,
) -> Chart:
    """Return a line through the points of each series, by x; UserError without any."""
    lines = {name: known for name, points in series.items() if (known := ordered(points))}
    if not lines:
        raise UserError(f"nothing to plot: no result has both {axes[0]} and {axes[1]}")
    styles = styles or {name: Style(i, i, i // len(LIGHT_COLORS)) for i, name in enumerate(lines)}
    curves = [Curve(name, points, styles[name]) for name, points in lines.items()]
    note = BARS if any(point.y_interval for curve in curves for point in curve.points) else ""
    if others:
        theirs = {name: ordered(points) for name, points in others.series.items()}
        curves += published_curves(replace(others, series=theirs), styles)
    xs = {point.x for curve in curves for point in curve.points}
    ticks = {x: plain_number(x) for x in xs} if len(xs) <= MOST_TICKS else {}
    panel = Panel(curves, Axis(axes[0], far=FAR, ticks=ticks), Axis(axes[1]), direction)
    return Chart(title, [panel], note=note)
