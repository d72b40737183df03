"""A and B, point by point: what is compared with what, each metric of it, and what has no partner."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS, recall_doubt
from ann_benchmarks.statistics.differences import (
    Difference,
    Estimate,
    add_doubt,
    adjust,
    difference,
    difference_of_pairs,
    mean_difference,
    paired_difference,
)

from .measurements import (
    METRICS,
    Estimates,
    Key,
    MeasuredPoint,
    alike_throughputs,
    are_in_blocks,
    group_by_key,
    known_estimates,
)


@dataclass(frozen=True)
class PointPair:
    """One point of A and B, each measured once or several times."""

    key: Key
    label: str
    a: list[MeasuredPoint]
    b: list[MeasuredPoint]


@dataclass(frozen=True)
class Compared:
    """One metric: each point with its difference, and the geometric mean of all.

    `doubt` is the part of the mean's error that no further measurement of the same queries reduces.
    """

    points: list[tuple[PointPair, Difference]]
    mean: Difference
    doubt: float = 0.0


@dataclass(frozen=True)
class SideBySide:
    """What was matched, and each metric that is known of both sides; `only_a` and `only_b` had no partner."""

    pairs: list[PointPair]
    only_a: list[str]
    only_b: list[str]
    repetitions: tuple[int, int]
    metrics: dict[str, Compared]
    chosen: str | None = None
    is_in_blocks: bool = False  # by the times of the repetitions

    @property
    def judged_by(self) -> str:
        """The metric that decides: the chosen one, else throughput or, where it was given, p99."""
        return self.chosen or ("qps" if "qps" in self.metrics else "p99")

    @property
    def judged(self) -> Compared | None:
        """What decides; None where it is not known for both sides."""
        return self.metrics.get(self.judged_by)


def compare(
    a: Sequence[MeasuredPoint],
    b: Sequence[MeasuredPoint],
    chosen: str | None = None,
    paired: bool = False,
) -> SideBySide:
    """Match two sides and compare every metric; the chosen one decides.

    `paired` says that the repetitions of A and B were measured in turn.
    """
    repetitions = (len({point.source for point in a}), len({point.source for point in b}))
    if paired and (repetitions[0] != repetitions[1] or repetitions[0] < 2):
        raise UserError(
            "--paired needs as many repetitions of A as of B, at least two; there are"
            f" {repetitions[0]} and {repetitions[1]}"
        )
    a, b = alike_throughputs(a, b)
    of_a, of_b = group_by_key(a), group_by_key(b)
    keys = [key for key in of_a if key in of_b]
    for key in keys:
        _check_questions(of_a[key], of_b[key])
    labels = _labels([of_a[key] + of_b[key] for key in keys])
    pairs = [PointPair(key, label, of_a[key], of_b[key]) for key, label in zip(keys, labels, strict=True)]
    in_blocks = are_in_blocks(a, b)
    compared = {metric: compare_metric(metric, pairs, paired) for metric in METRICS}
    if in_blocks:
        compared = {name: found and _judge_blocks(name, found) for name, found in compared.items()}
    return SideBySide(
        pairs,
        ["/".join(key) for key in of_a if key not in of_b],
        ["/".join(key) for key in of_b if key not in of_a],
        repetitions,
        {metric: found for metric, found in compared.items() if found is not None},
        chosen,
        in_blocks,
    )


def _check_questions(a: Sequence[MeasuredPoint], b: Sequence[MeasuredPoint]) -> None:
    """Refuse to compare answers to different questions, which names of series may match."""
    for field in FIELDS.values():
        if field.compares:
            continue
        of_a, of_b = ({point.attrs.get(field.attribute) or "" for point in side} for side in (a, b))
        if len(of_a | of_b) > 1:
            none = f"no {field.id}"
            named = [" and ".join(sorted(str(one or none) for one in side)) for side in (of_a, of_b)]
            raise UserError(
                f"A has results of {named[0]}, B of {named[1]}: results under different {field.id}s are not"
                f" compared; name series of one {field.id}"
            )


def _labels(points: Sequence[Sequence[MeasuredPoint]]) -> list[str]:
    """Name points as their plug-in does, with the parts of their keys in which they differ."""
    folders = [point[0].key[:-1] for point in points]
    places = range(max(map(len, folders), default=0))
    varying = [place for place in places if len({folder[place : place + 1] for folder in folders}) > 1]
    labels = []
    for point, folder in zip(points, folders, strict=True):
        names = dict.fromkeys(repetition.name for repetition in point)
        parts = [folder[place] for place in varying if place < len(folder) and folder[place]]
        labels.append(" ".join([*parts, " | ".join(names)]))
    return labels


def compare_metric(metric: str, pairs: Sequence[PointPair], paired: bool) -> Compared | None:
    """Compare a metric of all points; None where no point has it on both sides.

    Each built index counts once, whether several points share it or a later run found it.
    """
    every = [known_estimates(metric, chain(*side)) for side in ([p.a for p in pairs], [p.b for p in pairs])]
    per_index = METRICS[metric].per_index
    is_paired = paired and not per_index
    known = [pair for pair in pairs if all(pair.key in side for side in every)]
    sides = [{pair.key: side[pair.key] for pair in known} for side in every]
    calm = [_mean_variance(side) for side in sides]
    found: list[PointPair] = []
    differences: list[Difference] = []
    seen = set()
    for pair in known:
        a, b = ([*side[pair.key].values()] for side in sides)
        if per_index:
            a, b = ([*{one.value: one for one in side}.values()] for side in (a, b))
            values = tuple(one.value for one in a), tuple(one.value for one in b)
            if values in seen:
                continue
            seen.add(values)
        found.append(pair)
        if metric == "qps" and (in_rounds := _compare_rounds([pair])) is not None:
            differences.append(in_rounds)
        elif is_paired:
            first, second = (side[pair.key] for side in sides)
            common = sorted(first.keys() & second.keys())
            differences.append(paired_difference([first[n] for n in common], [second[n] for n in common]))
        else:
            a, b = (_raise_noise(side, least) for side, least in zip((a, b), calm, strict=True))
            differences.append(difference(a, b))
    if not found:
        return None
    doubts = [_doubt(pair) if metric == "qps" else 0.0 for pair in found]
    differences = adjust([add_doubt(d, doubt) for d, doubt in zip(differences, doubts, strict=True)])
    repeated = None
    means = None if per_index else _means(sides)
    if means and max(map(len, means)) > 1:
        repeated = paired_difference(*means) if is_paired else difference(*means)
    if metric == "qps" and repeated is None:
        repeated = _compare_rounds(found)
    if repeated is not None:
        repeated = add_doubt(repeated, max(doubts))
    mean = mean_difference(differences, repeated)
    return Compared(list(zip(found, differences, strict=True)), mean, max(doubts))


def _doubt(pair: PointPair) -> float:
    """Return the deviation of the ratio's logarithm for want of queries, or of a point at the recall."""
    a, b = pair.a[0].stands, pair.b[0].stands
    return math.hypot(recall_doubt(a, b), a.doubt, b.doubt) if a is not None and b is not None else 0.0


def _judge_blocks(metric: str, found: Compared) -> Compared:
    """Judge by what was measured in blocks: nothing shows how far the machine's speed has drifted."""

    def judged(one: Difference) -> Difference:
        is_doubtful = METRICS[metric].drifts and one.is_sure and one.by != "rounds"
        return replace(one, by="blocks") if is_doubtful else one

    return replace(found, points=[(pair, judged(one)) for pair, one in found.points], mean=judged(found.mean))


def _compare_rounds(pairs: Sequence[PointPair]) -> Difference | None:
    """Compare the throughputs of points that were measured in the same rounds; None where they were not.

    Of several points, each round counts once with their geometric mean: what slows one slows the others.
    The ratio is that of the rounds; the throughputs beside it are those of all runs, as in plots and reports.
    """
    if any(len(side) != 1 or side[0].has_rate for pair in pairs for side in (pair.a, pair.b)):
        return None
    sides = [[pair.a[0].speed for pair in pairs], [pair.b[0].speed for pair in pairs]]
    if len({speed.mark for side in sides for speed in side}) != 1:
        return None
    shared = sorted(set.intersection(*(set(speed.round_levels) for side in sides for speed in side)))
    in_a, in_b = ([fmean(speed.round_levels[n] for speed in side) for n in shared] for side in sides)
    if len(shared) < FEWEST_ROUNDS:
        return None
    found = difference_of_pairs(in_a, in_b, "rounds")
    a, b = (math.exp(fmean(speed.level for speed in side)) for side in sides)
    return replace(found, a=a, b=b, paired_ratio=found.ratio)


def _mean_variance(side: Estimates) -> float:
    variances = [found.variance for repetitions in side.values() for found in repetitions.values()]
    known = [value for value in variances if not math.isnan(value)]
    return fmean(known) if known else math.nan


def _raise_noise(found: Iterable[Estimate], least: float) -> list[Estimate]:
    """Give points whose runs happened to agree the noise that all of their side have on average."""
    return [e if math.isnan(e.variance) else e._replace(variance=max(e.variance, least)) for e in found]


def _means(sides: Sequence[Estimates]) -> tuple[list[Estimate], list[Estimate]] | None:
    """Return, of each repetition of A and of B, the geometric mean over the points that all of them have."""
    sources = [sorted({source for row in side.values() for source in row}) for side in sides]
    whole = [
        key
        for key in sides[0]
        if all(len(side[key]) == len(each) for side, each in zip(sides, sources, strict=True))
    ]
    if not whole:
        return None
    a, b = (
        [_geometric_mean(side[key][source] for key in whole) for source in each]
        for side, each in zip(sides, sources, strict=True)
    )
    return a, b


def _geometric_mean(found: Iterable[Estimate]) -> Estimate:
    return Estimate(math.exp(fmean(math.log(one.value) for one in found)), math.nan, 1)
