"""Labels beside points, where they cover neither points nor each other."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from .points import Point

SIZE = 7.5  # of the letters, in points, as all lengths here
WIDTH = 0.56  # of a letter, in sizes
AWAY = 7.0  # from the middle of a point to its label
RADIUS = 4.0  # of a point
SIDES = ((1, -1), (1, 1), (-1, 1), (-1, -1))  # below on the right first: a curve of ever larger indexes rises

Box = tuple[float, float, float, float]  # left, bottom, right, top


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
