"""How the pictures that only reports have are laid out."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ann_benchmarks.common.numbers import plain_number
from ann_benchmarks.plotting.figure import GREY

WIDTH = 9.0  # inches, of every picture
LONGEST = 60  # characters of a name beside an axis
ROW = 0.3  # inches, of a horizontal bar
MARGIN = 1.3


def height_for(rows: int) -> float:
    """Return the height of a picture with so many rows of bars."""
    return MARGIN + ROW * rows


def tidy(axes: Axes, title: str, grid: Literal["x", "y"] = "y") -> None:
    """Give axes a title above their left end, a light grid and no frame."""
    axes.set_title(title, loc="left", fontsize=11, pad=10, parse_math=False)
    axes.grid(axis=grid, color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="0.7", labelcolor=GREY, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.7")


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write names beside horizontal bars, from the top."""
    axes.set_yticks(range(len(names)), [shortened(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def shortened(name: str) -> str:
    """Return a name that leaves room for a picture."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def spread_out(axes: Axes, axis: str = "x") -> None:
    """Make an axis logarithmic, with its numbers written out."""
    axes.set(**{f"{axis}scale": "log"})
    of = getattr(axes, f"{axis}axis")
    of.set_major_formatter(FuncFormatter(plain_number))
    low, high = getattr(axes, f"get_{axis}lim")()
    of.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,), numticks=50))
    of.set_minor_formatter(NullFormatter())
