"""What all pictures share: labels, legends, notes, interval bars, the frame, and the file."""

import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, FigureBase

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.views.figures import DASHES, LIGHT_COLORS
from ann_benchmarks.views.points import Point

GREY = "0.35"
GREYS = ("0.5", "0.72")
SIZE = 7.5  # of the letters of a label, in points, as all lengths here
WIDTH = 0.56  # of a letter, in sizes
AWAY = 7.0  # from the middle of a point to its label
RADIUS = 4.0  # of a point
ROW = 13.0  # height of a line of text
SHADES = ("0.95", "1.0")  # of bands, in turn
ROOM_A_LETTER = 0.013  # of the width, for the name of a band
ARROWHEADS = (("<", ">"), ("v", "^"))  # at the lower and the upper end of either axis
SIDES = ((1, -1), (1, 1), (-1, 1), (-1, -1))  # below on the right first: a curve of ever larger indexes rises

Box = tuple[float, float, float, float]  # left, bottom, right, top
EDGED: dict[str, Any] = {"ms": 7, "mec": "white", "mew": 0.6}


def line_style(number: int) -> Any:
    """Return matplotlib's style of a line with one of the dashes."""
    dash = DASHES[number % len(DASHES)].split()
    return (0, tuple(map(float, dash))) if dash else "-"


def coordinates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the x and the y of points."""
    return [point.x for point in points], [point.y for point in points]


def named_legend(
    owner: Axes | FigureBase, handles: Sequence[Artist], names: Sequence[str], **how: Any
) -> None:
    """Add a legend with the names as they are: matplotlib hides a leading "_", and "$" begins a formula."""
    how = {"frameon": False, "fontsize": 9, "handlelength": 3.2, **how}
    legend = owner.legend([*handles], ["name"] * len(names), **how)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def add_text(axes: Axes, text: str, at: tuple[float, float], away: tuple[float, float], **how: Any) -> None:
    """Write text at a place, in shares of the axes, moved by a number of points."""
    how = {"xycoords": "axes fraction", "parse_math": False, **how}
    if text:
        axes.annotate(text, at, xytext=away, textcoords="offset points", **how)


def add_grid(axes: Axes) -> None:
    """Add the grid; take away what says nothing."""
    axes.grid(which="major", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="0.7", labelcolor=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.7")


def shade(axes: Axes, bands: Sequence[tuple[float, float, str]]) -> None:
    """Draw bands over time, with their names above as far as there is room."""
    free, whole = -math.inf, max((end for _, end, _ in bands), default=1.0) - min(bands, default=(0.0,))[0]
    for number, (start, end, name) in enumerate(bands):
        axes.axvspan(start, end, color=SHADES[number % 2], zorder=0, lw=0)
        axes.margins(x=0.01)
        if name and start >= free:
            how = {"xycoords": ("data", "axes fraction"), "fontsize": 8, "color": GREY}
            add_text(axes, name, (start, 1.0), (2, 4), **how)
            free = start + len(name) * ROOM_A_LETTER * whole


def mark(axes: Axes, uprights: Sequence[tuple[str, float, int | None]]) -> None:
    """Draw thin vertical lines, and what they are above all points."""
    texts = [text for text, _, _ in uprights if text]
    if texts:
        leave_room(axes, len(texts) * ROW)
    for row, (text, x, number) in enumerate(uprights):
        color = GREY if number is None else LIGHT_COLORS[number]
        axes.axvline(x, color=color, lw=0.9, ls=(0, (1, 2)), zorder=0.5)
        is_right = axes.transAxes.inverted().transform(axes.transData.transform((x, 1)))[0] > 0.6
        place: dict[str, Any] = {"ha": "right" if is_right else "left", "va": "top", "fontsize": 8.5}
        place |= {"xycoords": ("data", "axes fraction"), "bbox": {"fc": "white", "ec": "none", "pad": 0.5}}
        if text:
            add_text(axes, text, (x, 1), (-4 if is_right else 4, -row * ROW), color=color, **place)


def leave_room(axes: Axes, height: float) -> None:
    """Raise the upper end of the y axis by this height, in points of the picture."""
    axes.autoscale_view()
    (low, high), is_log = axes.get_ylim(), axes.get_yscale() == "log"
    share = height / (axes.bbox.height * 72 / axes.figure.dpi)
    start, end = (math.log(low), math.log(high)) if is_log else (low, high)
    top = start + (end - start) / (1 - share)
    axes.set_ylim(low, math.exp(top) if is_log else top)


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
    """Draw the intervals of points, each in its colour, below the points; the axes keep their limits.

    An arrowhead at the edge marks a bar that goes on.
    """
    segments, colors = [], []
    limits = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    how: dict[str, Any] = {
        "ms": 4,
        "ls": "",
        "alpha": 0.7,
        "clip_on": False,
        "scalex": False,
        "scaley": False,
    }
    for point, color in points:
        for number, interval in enumerate((point.x_interval, point.y_interval)):
            ends = [[end, point.y] if number == 0 else [point.x, end] for end in interval or ()]
            segments += [ends] if ends else []
            colors += [color] if ends else []
            low, high = limits[number]
            for end, marker in zip(ends, ARROWHEADS[number], strict=False):
                if not low <= end[number] <= high:
                    place = [*end]
                    place[number] = min(max(end[number], low), high)
                    axes.plot(*([value] for value in place), marker=marker, color=color, **how)
    if segments:
        bars = LineCollection(segments, colors=colors, linewidths=1.0, alpha=0.5, zorder=1.5)
        axes.add_collection(bars, autolim=False)


def add_labels(axes: Axes, points: Sequence[Point], color: str) -> None:
    """Write each point's label on the first side with room for it; without room, leave it out."""
    if not any(point.label for point in points):
        return
    axes.autoscale_view()  # drawing does this too, and the limits must be those drawn
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
