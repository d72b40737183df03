"""The picture of changes beside queries: what happened over time, with its phases."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.figure import GREY, save
from ann_benchmarks.plotting.styles import LIGHT_COLORS
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.windows import over_time

from .canvas import shortened, tidy

PANEL = 1.5  # inches
COLUMN = 6.5
RECALL, SIZE = "Recall", "Index (MB)"
SHADES = ("0.95", "1.0")
PANELS = {
    "Queries/s": "queries",
    "Query p99 (ms)": "query_p99",
    "Writes/s": "writes",
    "Write p99 (ms)": "write_p99",
    RECALL: "recall",
    SIZE: "index_size",
}


def draw_writes(records: Sequence[Record], path: Path) -> None:
    """Draw the workloads side by side, with a panel for each figure that any of them tells."""
    drawn = [over_time(record.windows) for record in records]
    names = [
        name for name in PANELS if any(math.isfinite(v) for _, told in drawn for v in told[PANELS[name]])
    ]
    if not names:
        raise UserError("no record tells what happened over time")
    size = (COLUMN * len(records), PANEL * len(names) + 1)
    figure = Figure(figsize=size)
    grid = figure.subplots(
        len(names),
        len(records),
        sharex="col",
        sharey="row",
        squeeze=False,
        gridspec_kw={"hspace": 0.18, "wspace": 0.06},
    )
    for place, (record, (middles, figures)) in enumerate(zip(records, drawn, strict=True)):
        for row, name in enumerate(names):
            axes = grid[row, place]
            shade(axes, record, is_top=row == 0)
            drawn_at, heights = middles, figures[PANELS[name]]
            if name == RECALL:  # told now and then: what lies between is joined
                told = [(x, y) for x, y in zip(middles, heights, strict=True) if math.isfinite(y)]
                drawn_at, heights = [x for x, _ in told], [y for _, y in told]
            axes.plot(drawn_at, heights, ".-", lw=1.4, ms=4, color=LIGHT_COLORS[row % len(LIGHT_COLORS)])
            tidy(axes, "")
            axes.margins(x=0.01)
            if place == 0:
                axes.set_ylabel(name, fontsize=9, color=GREY)
        grid[0, place].set_title(shortened(record.name), loc="left", fontsize=11, pad=20, parse_math=False)
        grid[-1, place].set_xlabel("Seconds in which something was measured", fontsize=9)
    for row, name in enumerate(names):
        if name not in (RECALL, SIZE):
            grid[row, 0].set_ylim(bottom=0)  # of the whole row, when all of it is drawn
    save(figure, path)


def shade(axes: Axes, record: Record, is_top: bool) -> None:
    """Mark the phases, with their names above the first panel, as far as there is room."""
    end = max((phase.start + phase.seconds for phase in record.phases), default=1.0)
    free = -math.inf  # where the last name ends
    for number, phase in enumerate(record.phases):
        axes.axvspan(phase.start, phase.start + phase.seconds, color=SHADES[number % 2], zorder=0, lw=0)
        if is_top and phase.start >= free:
            at = (phase.start, 1.0)
            how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": GREY}
            axes.annotate(phase.name, at, (2, 4), xycoords=("data", "axes fraction"), parse_math=False, **how)
            free = phase.start + len(phase.name) * 0.013 * end
