"""The scales of a figure's axes: matplotlib's, and ann-benchmarks' aN that spreads what is near 1."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import plain_number, read_number

LEAST_POWER, MOST_POWER = 0.01, 100.0  # beyond which all values fall on one place
SCALES = ("linear", "log", "symlog", "logit")
NEAR_ONE = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 0.99999, 1)
Transform = Callable[[np.ndarray], np.ndarray]
PADDING = 0.03  # of the length of the axis, left free beyond the outermost points
NEXT_TO_ONE = 0.9  # about the beginning of an axis if all values are 1
EDGE = 0.1  # of the length of a logit axis, from the largest share below 1 to 1
SMALLEST_GAP = 0.045  # of the length of the axis, between two ticks
CHARACTER = 0.011  # of the length of an axis, that a character of what is written below it takes
ROOM = 0.1  # of the length of the axis, that bars may add to it at either end


@dataclass(frozen=True)
class Scale:
    """A scale by name; `power` is N of the scale aN, which shows x at 1 - (1 - x)^(1/N)."""

    name: str
    power: float = 1.0

    def __str__(self) -> str:
        return f"a{self.power:g}" if self.name == "a" else self.name

    @property
    def is_for_shares(self) -> bool:
        """Whether it spreads what is near 1, and can show nothing beyond."""
        return self.name in ("a", "logit")


def parse_scale(text: str, axis: str) -> Scale:
    """Read a scale from the command line; `axis` is "x", where aN is allowed too, or "y"."""
    if text in SCALES:
        return Scale(text)
    if axis == "x" and text.startswith("a"):
        power = read_number(text[1:])
        if power is not None and LEAST_POWER <= power <= MOST_POWER:
            return Scale("a", power)
    known = ", ".join(SCALES) + (", or aN with N from 0.01 to 100, such as a3" if axis == "x" else "")
    raise UserError(f"unknown {axis} scale '{shown(text)}': use {known}")


def logit(v: np.ndarray) -> np.ndarray:
    """Return log-odds: where a logit scale puts a value."""
    return np.log(v / (1 - v))


def expit(p: np.ndarray) -> np.ndarray:
    """Return the inverse of `logit`."""
    return 1 / (1 + np.exp(-p))


def functions(scale: Scale) -> tuple[Transform, Transform]:
    """Return the function from values to positions of a scale, and its inverse."""
    power = scale.power
    by_name: dict[str, tuple[Transform, Transform]] = {
        "linear": (np.positive, np.positive),
        "log": (np.log, np.exp),
        "symlog": (np.arcsinh, np.sinh),  # nearly
        "logit": (logit, expit),
        "a": (
            lambda v: 1 - np.clip(1 - v, 0, None) ** (1 / power),
            lambda p: 1 - np.clip(1 - p, 0, None) ** power,
        ),
    }
    return by_name[scale.name]


def add_room(values: Sequence[float], ends: Sequence[float], scale: Scale) -> list[float]:
    """Return the values, and the ends of bars around them as far as the axis is to reach for these.

    A few wide intervals must not press the points together: what is further away leaves the picture.
    """
    forward, inverse = functions(scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        positions = forward(np.array(values))
        positions = positions[np.isfinite(positions)]
        if not positions.size or not len(ends):
            return list(values)
        low, high = positions.min(), positions.max()
        room = ROOM * ((high - low) or abs(high))
        near = inverse(np.clip(forward(np.array(ends)), low - room, high + room))
    return [*values, *near.tolist()]


class UpToOne(MaxNLocator):
    """Ticks for shares of 1: none beyond it, although the axis may end a little further on."""

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two values."""
        return [tick for tick in super().tick_values(vmin, vmax) if tick <= 1 + 1e-9]


def apply_scale(axes: Axes, name: str, scale: Scale, values: Sequence[float], is_share: bool) -> None:
    """Give the axis `name`, x or y, its scale, limits around `values` and readable ticks.

    `is_share` says that the metric cannot exceed 1. UserError if the scale cannot show the values.
    """
    if scale.is_for_shares:
        spread_near_one(axes, name, scale, values)
        return
    axes.set(**{f"{name}scale": scale.name})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_formatter(FuncFormatter(plain_number))
    if scale.name == "linear" and is_share:
        low, high = min(values), max(values)
        pad = PADDING * ((high - low) or 0.1)
        axes.set(**{f"{name}lim": (low - pad, min(high + pad, 1 + pad))})
        axis.set_major_locator(UpToOne(nbins=10, steps=[1, 2, 5, 10]))
    if scale.name == "log":
        decades = math.log10(max(values) / min(values))
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1 else (1.0, 2.0, 5.0) if decades < 4 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=50))
        axis.set_minor_formatter(NullFormatter())


def spread_near_one(axes: Axes, name: str, scale: Scale, values: Sequence[float]) -> None:
    """Give an axis the scale aN or logit, and ticks at round shares of 1 that leave room for each other."""
    if max(values) > 1:
        raise UserError(
            f"the {scale} scale is for values between 0 and 1, which these are not: use linear or log"
        )
    forward: Transform
    if scale.name == "logit":
        # 1 is infinitely far away: it is shown at the end of the axis, a step beyond the largest share.
        inside = [v for v in values if 0 < v < 1] or [NEXT_TO_ONE]
        start, end = logit(np.array([min(inside), max(inside)]))
        length = float(end - start) or 10.0
        beyond = EDGE if max(values) == 1 else PADDING
        low, high = expit(np.array([start - PADDING * length, end + beyond * length]))
        inverse: Transform = expit

        def forward(v: np.ndarray) -> np.ndarray:
            return logit(np.clip(v, low, high))
    else:
        low, high = max(min(values) - PADDING * ((1 - min(values)) or 1 - NEXT_TO_ONE), 0.0), 1.0
        forward, inverse = functions(scale)
    limits = (low, max(high, max(values)))
    getattr(axes, f"set_{name}scale")("function", functions=(forward, inverse))
    axis = getattr(axes, f"{name}axis")
    width = CHARACTER if name == "x" else 0.0
    axis.set_ticks(spaced([tick for tick in NEAR_ONE if low <= tick <= limits[1]], forward, limits, width))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(plain_number))
    axes.set(**{f"{name}lim": limits})


def spaced(
    ticks: list[float],
    forward: Transform,
    limits: tuple[float, float],
    width: float = 0.0,
    letters: Callable[[float], int] = lambda tick: len(plain_number(tick)),
) -> list[float]:
    """Drop the ticks that would be written over each other, keeping those nearest to 1.

    `width` is that of a character along the axis, as a share of its length; `letters` counts those of a tick.
    """
    start, end = forward(np.array(limits))
    kept: list[float] = []
    last, written = math.inf, 0
    for tick in reversed(ticks):
        position = float((forward(np.array(tick)) - start) / (end - start))
        own = letters(tick)
        if last - position >= max(SMALLEST_GAP, width * (1 + (own + written) / 2)):
            kept.append(tick)
            last, written = position, own
    return kept[::-1]
