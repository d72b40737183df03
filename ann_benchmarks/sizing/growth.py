"""How a figure grows with the rows: a floor and a power, fitted to few samples with what is known before.

The fit is the most probable one (MAP) of a normal distribution over the logarithms, and its covariance is
Laplace's approximation: the inverse of the curvature there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LEVEL = 0.9  # of the intervals of predictions
Z = 1.6449  # standard deviations of a normal distribution on each side that hold this share
STEPS = 60  # a fit needs a few of these
SLACK = 0.01  # a sample may have a row more or less than its share
FARTHEST = 20.0  # times the rows of the largest sample, the most that the laws were tested with


class Known(NamedTuple):
    """What is known of a parameter before anything is measured: a mean and its standard deviation."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Growth:
    """What is known of a figure before it is measured: it is about floor + c * base * rows**exponent.

    The base is 1, or another figure that this one follows. `floor` is the logarithm of the floor, if it has
    one; `noise` the standard deviation of the logarithm of one measurement; `drift` that of the law itself
    for each factor e beyond the largest sample; `farthest` the factor up to which the law was tested.
    """

    exponent: Known
    noise: float
    drift: float
    floor: Known | None = None
    farthest: float = FARTHEST


class Prediction(NamedTuple):
    """A predicted figure with its 90% interval, in the unit of what was measured."""

    value: float
    low: float
    high: float

    def mapped(self, change: Callable[[float], float]) -> "Prediction":
        """Return another figure that grows, or falls, with this one."""
        low, high = sorted((change(self.low), change(self.high)))
        return Prediction(change(self.value), low, high)


@dataclass(frozen=True)
class FittedLaw:
    """A fitted figure by rows: `parameters` are (log of the scale, exponent, log of the floor)."""

    growth: Growth
    measured: Sequence[tuple[float, float]]  # (rows, figure) of each sample
    parameters: np.ndarray
    covariance: np.ndarray
    base: "FittedLaw | None" = None
    excess: float = 1.0  # how many times farther from the law the figures are than their noise
    most: float = math.inf  # rows from which on the power no longer grows

    @property
    def largest(self) -> float:
        """The rows of the largest sample."""
        return max(rows for rows, _ in self.measured)

    def predict(self, rows: float) -> Prediction | None:
        """Return the figure at a number of rows; None beyond what was tested."""
        if rows > self.largest * self.growth.farthest * (1 + SLACK):
            return None
        value, variance = self.moments(rows)
        wide = Z * math.sqrt(variance + (self.excess * self.growth.noise) ** 2)
        return Prediction(math.exp(value), math.exp(value - wide), math.exp(value + wide))

    def moments(self, rows: float) -> tuple[float, float]:
        """Return the mean of the figure's logarithm, and its variance without that of one measurement."""
        x = math.log(min(rows, self.most) / min(self.largest, self.most))
        of_base, base_variance = self.base.moments(rows) if self.base else (0.0, 0.0)
        value, slopes = _logarithm(self.parameters, x, of_base)
        drift = self.growth.drift * max(math.log(rows / self.largest), 0.0)
        fitted = self.excess**2 * slopes @ self.covariance @ slopes
        return value, fitted + slopes[0] ** 2 * base_variance + drift**2


def fit(
    growth: Growth,
    measured: Sequence[tuple[float, float]],
    base: FittedLaw | None = None,
    most: float = math.inf,
) -> FittedLaw:
    """Fit a law to pairs of rows and a figure above 0; `base` is the curve of what the figure follows.

    From `most` rows on, the power no longer grows.

    Figures that lie farther from the law than their noise widen its intervals (Birge's ratio).
    """
    rows, y = np.log(np.array(measured)).T
    x = np.minimum(rows, math.log(most)) - min(rows.max(), math.log(most))
    bases = [base.moments(one)[0] if base else 0.0 for one, _ in measured]
    top = int(rows.argmax())
    before = [Known(float(y[top]) - bases[top], 3.0), growth.exponent, growth.floor or Known(-99.0, 1e-6)]
    means = np.array([one.mean for one in before])
    weights = np.diag([one.deviation**-2.0 for one in before])
    parameters, damping = means.copy(), 1.0
    if growth.floor:  # begins below the figures
        parameters[2] = min(means[2], float(y.min()) - 0.2)

    def state(at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the cost, half its gradient and half its curvature."""
        pairs = [_logarithm(at, place, of_base) for place, of_base in zip(x, bases, strict=True)]
        misses = (np.array([value for value, _ in pairs]) - y) / growth.noise
        slopes = np.array([slope for _, slope in pairs]) / growth.noise
        away = at - means
        cost = float(misses @ misses + away @ weights @ away)
        return cost, slopes.T @ misses + weights @ away, slopes.T @ slopes + weights

    cost, gradient, curvature = state(parameters)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        tried = state(parameters - step)
        if tried[0] <= cost:
            parameters, (cost, gradient, curvature), damping = parameters - step, tried, damping / 4
        else:
            damping *= 4
    excess = math.sqrt(max(cost / len(measured), 1.0))
    return FittedLaw(growth, measured, parameters, np.linalg.inv(curvature), base, excess, most)


def _logarithm(parameters: np.ndarray, x: float, of_base: float) -> tuple[float, np.ndarray]:
    """Return log(floor + scale * base * e**(exponent * x)), and its derivatives by the parameters."""
    scale, exponent, floor = parameters
    grown = scale + of_base + exponent * x
    value = np.logaddexp(grown, floor)
    share = math.exp(grown - value)
    return float(value), np.array([share, share * x, 1 - share])
