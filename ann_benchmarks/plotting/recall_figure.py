"""The picture of recall by query: a step line a series, with the share of queries below each recall."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ann_benchmarks.common.numbers import percent_text, share_text
from ann_benchmarks.results.tails import RecallTail

from .canvas import EDGED, add_legend, add_note, frame, line_style, save
from .styles import LIGHT_COLORS, MARKERS, Style

SIZE = (8.5, 5.0)  # inches
FEW_STEPS = 20  # with marks
COMPARED = "compare two lines only where their mean recalls are nearly equal"


def create_recall_figure(
    tails: Sequence[RecallTail], output: Path, title: str, styles: Mapping[str, Style]
) -> None:
    """Draw the share of queries with a recall below x. A series whose queries miss nothing has no line.

    The y axis is logarithmic, because a tail is a small share of the queries.
    """
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    handles, names = [], []
    for tail in tails:
        name = tail.run.algorithm
        style, is_marked = styles[name], tail.steps <= FEW_STEPS
        (line,) = axes.plot(
            [x for x, _ in tail.below],
            [y for _, y in tail.below],
            **{**EDGED, "ms": 5 if is_marked else 0},
            marker=MARKERS[style.marker],
            ls=line_style(style.dash),
            color=LIGHT_COLORS[style.color],
            drawstyle="steps-pre",
            lw=1.6,
        )
        handles.append(line)
        names.append(f"{name}, mean recall {share_text(tail.mean)}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: percent_text(share)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(right=1.0)
    axes.set_xlabel("Recall of a query")
    axes.set_ylabel("Share of queries below it")
    frame(axes, title)
    add_note(axes, f"lower is better; {COMPARED}")
    add_legend(axes, handles, names)
    save(figure, output)
