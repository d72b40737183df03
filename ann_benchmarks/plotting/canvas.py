"""What all pictures share: labels, legends, notes, interval bars, the frame, and the file."""

import math
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.results.metrics import all_metrics, pareto_frontier
from ann_benchmarks.views.points import Point

from .published import PublishedPoints
from .styles import DASHES, MARKERS

GREY = "0.35"
GREYS = ("0.5", "0.72")
LONGEST_LEGEND = 30  # entries in one column
SIZE = 7.5  # of the letters of a label, in points, as all lengths here
WIDTH = 0.56  # of a letter, in sizes
AWAY = 7.0  # from the middle of a point to its label
RADIUS = 4.0  # of a point
NOTABLE = 0.005  # of recall
BARS = "bars: 95% intervals"
SIDES = ((1, -1), (1, 1), (-1, 1), (-1, -1))  # below on the right first: a curve of ever larger indexes rises

Box = tuple[float, float, float, float]  # left, bottom, right, top
LONGEST_LABEL = 34  # of a line in the legend
HOLLOW: dict[str, Any] = {"lw": 1.3, "ms": 5, "mfc": "white"}
DASH = (0, (4.0, 2.0))
EDGED: dict[str, Any] = {"ms": 7, "mec": "white", "mew": 0.6, "clip_on": False}


def line_style(number: int) -> Any:
    """Return matplotlib's style of a line with one of the dashes."""
    dash = DASHES[number % len(DASHES)].split()
    return (0, tuple(map(float, dash))) if dash else "-"


def coordinates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the x and the y of points."""
    return [point.x for point in points], [point.y for point in points]


def add_legend(axes: Axes, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Add a legend to the right of the axes, where it covers no data."""
    columns = math.ceil(len(names) / LONGEST_LEGEND)
    # A handle is so long that the gap of a dash is not behind the marker.
    place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    named_legend(axes, handles, names, ncols=columns, handlelength=4.2, **place)


def named_legend(owner: Axes | Figure, handles: Sequence[Artist], names: Sequence[str], **how: Any) -> None:
    """Add a legend with the names as they are: matplotlib hides a leading "_", and "$" begins a formula."""
    how = {"frameon": False, "fontsize": 9, "handlelength": 3.2, **how}
    legend = owner.legend([*handles], ["name"] * len(names), **how)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def add_text(axes: Axes, text: str, at: tuple[float, float], away: tuple[float, float], **how: Any) -> None:
    """Write text at a place, in shares of the axes, moved by a number of points."""
    how = {"xycoords": "axes fraction", "parse_math": False, **how}
    axes.annotate(text, at, xytext=away, textcoords="offset points", **how)


def add_note(axes: Axes, text: str) -> None:
    """Write below the axes how the picture is to be read."""
    add_text(axes, text, (1, 0), (0, -46), ha="right", fontsize=8, color="0.5")


def frame(axes: Axes, title: str) -> None:
    """Add the title above all else and the grid."""
    add_text(axes, title, (0, 1), (0, 26), fontsize=13, fontweight="bold")
    add_grid(axes)


def add_grid(axes: Axes) -> None:
    """Add the grid; take away what says nothing."""
    axes.grid(which="major", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="0.7", labelcolor=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.7")


def save(figure: Figure, output: Path) -> None:
    """Write the figure to a file that is whole or not there."""
    extension = output.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if extension not in known:
        raise UserError(f"cannot draw '{output}': its name must end in one of .{', .'.join(sorted(known))}")
    try:
        with warnings.catch_warnings(), atomic_path(output) as temporary:
            warnings.filterwarnings("ignore", "Glyph .* missing")
            figure.savefig(temporary, format=extension, bbox_inches="tight", dpi=144)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error


def draw_bars(axes: Axes, points: Iterable[tuple[Point, str]]) -> None:
    """Draw the intervals of points, each in its colour, below the points; the axes keep their limits."""
    segments, colors = [], []
    for point, color in points:
        if point.x_interval:
            segments.append([(end, point.y) for end in point.x_interval])
            colors.append(color)
        if point.y_interval:
            segments.append([(point.x, end) for end in point.y_interval])
            colors.append(color)
    bars = LineCollection(segments, colors=colors, linewidths=1.0, alpha=0.5, zorder=1.5)
    axes.add_collection(bars, autolim=False)


def bars_note(points: Iterable[Point], x: str, y: str) -> str:
    """Say which metrics have bars and what these are, and what the recall of ann-benchmarks adds."""
    points = list(points)
    shown = [
        *([all_metrics[x]] if any(point.x_interval for point in points) else []),
        *([all_metrics[y]] if any(point.y_interval for point in points) else []),
    ]
    bounded = dict.fromkeys(metric.bounds.of for metric in shown if metric.bounds)
    texts = [f"{BARS} of {' and of '.join(bounded)}"] if shown else []
    return "; ".join(filter(None, [*texts, slack_note(points)]))


def slack_note(points: Iterable[Point]) -> str:
    """Say how much the slack of ann-benchmarks adds to the recall; nothing where that is little."""
    raised = max((point.raised for point in points), default=0.0)
    return f"the slack of 0.001 raises recall by up to {100 * raised:.1f} points" if raised > NOTABLE else ""


def add_labels(axes: Axes, points: Sequence[Point], color: str) -> None:
    """Write each point's label on the first side where there is room; where there is none, leave it out."""
    if not any(point.label for point in points):
        return
    axes.autoscale_view()  # as drawing does later: the limits must be what they will be
    pixels = axes.transData.transform([(point.x, point.y) for point in points])
    scale = 72 / axes.figure.dpi
    places = (pixels * scale).tolist()
    inside: Box = tuple(np.array(axes.bbox.extents) * scale)
    taken = [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places]
    for point, (x, y) in zip(points, places, strict=True):
        for right, up in SIDES if point.label else ():
            box = label_box(x, y, right, up, len(point.label))
            if within(box, inside) and not any(overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(
                    point.label,
                    (point.x, point.y),
                    xytext=(right * AWAY, up * AWAY),
                    textcoords="offset points",
                    ha="left" if right > 0 else "right",
                    va="bottom" if up > 0 else "top",
                    fontsize=SIZE,
                    color=color,
                    parse_math=False,
                )
                break


def label_box(x: float, y: float, right: int, up: int, letters: int) -> Box:
    """Return about what a label on one side of a point covers."""
    near, far = x + right * AWAY, x + right * (AWAY + letters * WIDTH * SIZE)
    low, high = y + up * AWAY, y + up * (AWAY + SIZE)
    return min(near, far), min(low, high), max(near, far), max(low, high)


def within(box: Box, other: Box) -> bool:
    """Whether a box lies wholly in another."""
    return box[0] >= other[0] and box[1] >= other[1] and box[2] <= other[2] and box[3] <= other[3]


def overlap(box: Box, other: Box) -> bool:
    """Whether two boxes have a common area."""
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def picture_path(output: Path, name: str) -> Path:
    """Return where a picture goes that the user wants at `output`: in a folder, it gets this name."""
    if output.is_dir():
        return output / name
    return output if output.suffix else output.with_name(f"{output.name}.png")


def heading(label: str) -> tuple[Line2D, str]:
    """Return the entry of a legend above those of another machine."""
    return Line2D([], [], ls=""), textwrap.fill(label, LONGEST_LABEL)


def greys(names: Iterable[str]) -> dict[str, str]:
    """Give each name one of the greys."""
    return {name: GREYS[i % len(GREYS)] for i, name in enumerate(dict.fromkeys(names))}


def draw_published(
    axes: Axes,
    others: PublishedPoints,
    markers: Mapping[str, str] | None = None,
    metrics: tuple[str, str] | None = None,
) -> tuple[list[Line2D], list[str]]:
    """Draw the points, joined where they are steps of a curve; return what to add to the legend.

    Names in `markers` get these. With two metrics a curve joins its Pareto frontier only.
    """
    first, text = heading(others.label)
    handles, names = [first], [text]
    colors = greys(others.series)
    for i, (name, points) in enumerate(others.series.items()):
        marker = (markers or {}).get(name) or MARKERS[i % len(MARKERS)]
        look = {"color": colors[name], "marker": marker, "clip_on": False, "zorder": 1.8, **HOLLOW}
        curve = list(points)
        if others.joined and metrics:
            frontier, _ = pareto_frontier([(point.x, point.y) for point in points], *metrics)
            curve = [points[j] for j in frontier]
        handles += axes.plot(*coordinates(curve), ls=DASH if others.joined else "", **look)
        names.append(name)
    return handles, names
