"""One figure of all points: each compared, and all together by their geometric mean."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from .judging import Difference, Noise, adjusted, difference, paired_difference, together
from .measurements import METRICS, Figure, Key, Measurement


@dataclass(frozen=True)
class PointPair:
    """One point of A and B, each measured once or several times."""

    key: Key
    label: str
    a: list[Measurement]
    b: list[Measurement]


@dataclass(frozen=True)
class Compared:
    """Each point with its difference, and the geometric mean of all."""

    metric: str
    points: list[tuple[PointPair, Difference]]
    mean: Difference


def compare_figure(
    metric: str, pairs: Sequence[PointPair], noise: Sequence[Measurement], paired: bool
) -> Compared | None:
    """Compare a figure of all points; None where no point has it on both sides.

    Of an index that several points share, or that was found as it had been built, it counts once.
    """
    of_point, of_mean = _noise(metric, noise)
    is_paired = paired and not METRICS[metric].of_index
    known = [pair for pair in pairs if _figures(metric, pair.a) and _figures(metric, pair.b)]
    calm_a, calm_b = (_mean_variance(metric, side) for side in ([p.a for p in known], [p.b for p in known]))
    found: list[PointPair] = []
    differences: list[Difference] = []
    seen = set()
    for pair in known:
        a, b = _figures(metric, pair.a), _figures(metric, pair.b)
        if METRICS[metric].of_index:
            a, b = _distinct(a), _distinct(b)
            values = tuple(f.value for f in a), tuple(f.value for f in b)
            if values in seen:
                continue
            seen.add(values)
        found.append(pair)
        if is_paired:
            differences.append(paired_difference(*_side_by_side(metric, pair)))
        else:
            differences.append(difference(_as_noisy(a, calm_a), _as_noisy(b, calm_b), of_point))
    if not found:
        return None
    differences = adjusted(differences)
    means = None if METRICS[metric].of_index else _means(metric, found)
    of_repetitions = None
    if means and (max(map(len, means)) > 1 or of_mean):
        of_repetitions = paired_difference(*means) if is_paired else difference(*means, of_mean)
    return Compared(metric, list(zip(found, differences, strict=True)), together(differences, of_repetitions))


def _figures(metric: str, measurements: Iterable[Measurement]) -> list[Figure]:
    return [figure for m in measurements if (figure := m.figure(metric)) is not None]


def _side_by_side(metric: str, pair: PointPair) -> tuple[list[Figure], list[Figure]]:
    """Return the figures of the repetitions that have it on both sides, in their order."""
    sides = [{m.source: figure for m in side if (figure := m.figure(metric))} for side in (pair.a, pair.b)]
    common = sorted(sides[0].keys() & sides[1].keys())
    return [sides[0][source] for source in common], [sides[1][source] for source in common]


def _distinct(figures: Iterable[Figure]) -> list[Figure]:
    return list({figure.value: figure for figure in figures}.values())


def _mean_variance(metric: str, sides: Iterable[Sequence[Measurement]]) -> float:
    variances = [figure.variance for side in sides for figure in _figures(metric, side)]
    known = [value for value in variances if not math.isnan(value)]
    return fmean(known) if known else math.nan


def _as_noisy(figures: Iterable[Figure], least: float) -> list[Figure]:
    """Give points whose runs happened to agree the noise that all of their side have on average."""
    return [f if math.isnan(f.variance) else f._replace(variance=max(f.variance, least)) for f in figures]


def _means(metric: str, pairs: Sequence[PointPair]) -> tuple[list[Figure], list[Figure]] | None:
    """Return, of each repetition of A and of B, the geometric mean over the points that all of them have."""
    tables = [_table(metric, side) for side in ((p.a for p in pairs), (p.b for p in pairs))]
    sources = [sorted({source for row in table.values() for source in row}) for table in tables]
    whole = [
        pair.key
        for pair in pairs
        if all(len(table[pair.key]) == len(all_of) for table, all_of in zip(tables, sources, strict=True))
    ]
    if not whole:
        return None
    means = [
        [_geometric_mean([table[key][source] for key in whole]) for source in all_of]
        for table, all_of in zip(tables, sources, strict=True)
    ]
    return means[0], means[1]


def _table(metric: str, points: Iterable[Iterable[Measurement]]) -> dict[Key, dict[int, float]]:
    """Return figures by point and repetition."""
    table: dict[Key, dict[int, float]] = {}
    for point in points:
        for m in point:
            if figure := m.figure(metric):
                table.setdefault(m.key, {})[m.source] = figure.value
    return table


def _geometric_mean(values: Iterable[float]) -> Figure:
    return Figure(math.exp(fmean(map(math.log, values))), math.nan, 1)


def _noise(metric: str, noise: Sequence[Measurement]) -> tuple[Noise | None, Noise | None]:
    """Return how well a point repeats, and how well the mean of all points does.

    The points of one repetition are slow together, so that several add no degrees of freedom.
    """
    rows = [row for row in _table(metric, [noise]).values() if len(row) > 1]
    if not rows:
        return None, None
    most = max(map(len, rows))
    point = Noise(fmean(variance(map(math.log, row.values())) for row in rows), most - 1)
    whole = [row for row in rows if row.keys() == rows[0].keys()]
    means = [math.log(_geometric_mean([row[source] for row in whole]).value) for source in rows[0]]
    return point, Noise(variance(means), len(means) - 1)
