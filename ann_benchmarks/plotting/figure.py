"""The recall/QPS figure, and any other of two metrics."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..atomic import atomic_path
from ..errors import UserError
from .frontier import pareto_frontier
from .metrics import RECALLS, all_metrics, plot_label
from .runs import Run
from .scales import Scale, apply_scale, parse_scale
from .styles import DASHES, LIGHT_COLORS, MARKERS, Style, assign_styles

Points = Sequence[tuple[float, float]]
LONGEST_LEGEND = 30  # entries in one column
GREY = "0.35"


def points_by_algorithm(runs: Iterable[Run], x: str, y: str) -> dict[str, list[tuple[float, float]]]:
    """Return for each algorithm the values of two metrics, one pair per run."""
    series: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        series.setdefault(run.algorithm, []).append((run.metrics[x], run.metrics[y]))
    return series


def create_plot(
    series: Mapping[str, Points],
    x: str,
    y: str,
    output: Path,
    x_scale: str = "linear",
    y_scale: str = "linear",
    raw: bool = False,
    title: str = "",
    styles: Mapping[str, Style] | None = None,
) -> int:
    """Draw the Pareto frontier of each series of (x, y) values into a picture; return the points drawn.

    `x` and `y` name the metrics; `raw` adds the points behind the frontier in faded colours. The format
    follows the name's ending. UserError if nothing can be drawn or the file not written.
    """
    scales = (parse_scale(x_scale, "x"), parse_scale(y_scale, "y"))
    styles = styles or assign_styles(series)
    figure = Figure(figsize=(10, 6.5))
    axes = figure.subplots()
    drawn = draw_series(axes, series, x, y, raw, styles)
    if not drawn:
        raise UserError(f"nothing to plot: no result has both {x} and {y}")
    decorate(axes, drawn, x, y, scales, title)
    save(figure, output)
    return len(drawn)


def draw_series(
    axes: Axes, series: Mapping[str, Points], x: str, y: str, raw: bool, styles: Mapping[str, Style]
) -> list[tuple[float, float]]:
    """Draw every series and the legend beside them, in the order of their heights; return what was drawn."""
    frontiers = {name: pareto_frontier(points, x, y) for name, points in series.items()}

    def mean_height(name: str) -> float:
        heights = [abs(series[name][i][1]) for i in frontiers[name][0]]
        return sum(map(math.log, heights)) / len(heights)

    drawn: list[tuple[float, float]] = []
    handles, names = [], []
    for name in sorted((n for n in series if frontiers[n][0]), key=mean_height, reverse=True):
        frontier, every = frontiers[name]
        style = styles[name]
        color, marker = LIGHT_COLORS[style.color], MARKERS[style.marker]
        dash = DASHES[style.dash].split()
        line_style = (0, tuple(map(float, dash))) if dash else "-"
        shown = [series[name][i] for i in frontier]
        (line,) = axes.plot(
            *zip(*shown, strict=True),
            color=color,
            marker=marker,
            ms=7,
            lw=2,
            ls=line_style,
            mec="white",
            mew=0.6,
            clip_on=False,
        )
        behind = [series[name][i] for i in every if i not in set(frontier)] if raw else []
        if behind:
            axes.plot(
                *zip(*behind, strict=True),
                color=color,
                marker=marker,
                ms=4,
                ls="",
                alpha=0.3,
                zorder=1,
                clip_on=False,
            )
        drawn += shown + behind
        handles.append(line)
        names.append(name)
    if handles:
        add_legend(axes, handles, names)
    return drawn


def add_legend(axes: Axes, handles: list, names: list[str]) -> None:
    """Add a legend to the right of the axes, where it covers no data, with the names as they are."""
    legend = axes.legend(
        handles,
        ["name"] * len(names),  # set below: here a leading "_" would hide an entry and "$" begin a formula
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        ncols=math.ceil(len(names) / LONGEST_LEGEND),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def decorate(axes: Axes, drawn: Points, x: str, y: str, scales: tuple[Scale, Scale], title: str) -> None:
    """Add scales, labels, grid and the title that says which way is better."""
    for i, (name, metric) in enumerate((("x", x), ("y", y))):
        apply_scale(axes, name, scales[i], [point[i] for point in drawn], metric in RECALLS)
    axes.set_xlabel(all_metrics[x].description)
    axes.set_ylabel(all_metrics[y].description)
    axes.set_title(plot_label(x, y), loc="left", fontsize=10, color=GREY, pad=8)
    axes.annotate(
        title,
        (0, 1),
        xytext=(0, 26),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=13,
        fontweight="bold",
        parse_math=False,
    )
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
