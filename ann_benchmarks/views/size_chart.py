"""Throughput over the rows as a chart: what was measured on samples, and what is predicted of more."""

import math

from ann_benchmarks.statistics.intervals import Interval

from .figures import Axis, Chart, Curve, Panel, assign_styles
from .points import Point
from .sizes import Sizes, grid


def size_chart(sizes: Sizes, title: str) -> Chart:
    """Return throughput over rows: what was measured as points, what is predicted as lines with bands."""
    looks = assign_styles(one.name for one in sizes.forecasts)
    panels = []
    for clients in sizes.clients:
        curves = []
        for one in sizes.forecasts:
            style = looks[one.name]
            predicted = [
                Point(rows, 1 / found.value, y_interval=Interval(1 / found.high, 1 / found.low))
                for rows in grid(sizes, sizes.samples[0])
                if (found := one.predict("seconds", rows, clients))
            ]
            curve = one.curves.get(("seconds", clients))
            measured = [Point(rows, 1 / seconds) for rows, seconds in curve.measured] if curve else []
            curves += [
                Curve("", predicted, style, "band"),
                Curve(one.name, measured, style, "mark"),
            ]
        heading = f"{clients} client{'s' * (clients > 1)}"
        panels.append(
            Panel(
                curves,
                Axis("Rows", "log", ticks=row_ticks(sizes)),
                Axis("Queries per second (1/s)", "log"),
                heading,
            )
        )
    note = "points: measured; lines: predicted, with 90% intervals"
    return Chart(title, panels, columns=len(panels), shared="y", note=note)


def row_ticks(sizes: Sizes) -> dict[float, str]:
    """Return round numbers of rows within the picture, and how they are written, such as 500k."""
    first, last = sizes.samples[0], max(*sizes.rows, sizes.samples[-1])
    powers = range(math.floor(math.log10(first)), math.floor(math.log10(last)) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return {
        rows: f"{rows / 1e6:g}m" if rows >= 1e6 else f"{rows / 1000:g}k"
        for rows in ticks
        if first <= rows <= last
    }
