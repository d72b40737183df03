"""A and B, point by point: what is compared with what, and what has no partner."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.errors import UserError

from .figures import Compared, PointPair, compare_figure
from .measurements import METRICS, Key, Measurement


@dataclass(frozen=True)
class Comparison:
    """What was matched, and each figure that is known of both sides; `only_a` and `only_b` had no partner."""

    pairs: list[PointPair]
    only_a: list[str]
    only_b: list[str]
    repetitions: tuple[int, int]
    figures: dict[str, Compared]
    chosen: str | None = None

    @property
    def judged_by(self) -> str:
        """The figure that decides: what was chosen, else throughput or, where it was given, p99."""
        return self.chosen or ("qps" if "qps" in self.figures else "p99")


def compare(
    a: Sequence[Measurement],
    b: Sequence[Measurement],
    noise: Sequence[Measurement] = (),
    chosen: str | None = None,
    paired: bool = False,
) -> Comparison:
    """Match two sides and compare every figure; the chosen one decides.

    `noise` are repetitions, of anything, that tell how well figures repeat; `paired` are those of A and B
    that were measured in turn.
    """
    repetitions = (len({m.source for m in a}), len({m.source for m in b}))
    if paired and (repetitions[0] != repetitions[1] or repetitions[0] < 2 or noise):
        raise UserError(
            f"--paired is for as many repetitions of A as of B, two at least, without --noise; here are"
            f" {repetitions[0]} and {repetitions[1]}"
        )
    if noise and max(len({m.source for m in same}) for same in _by_key(noise).values()) < 2:
        raise UserError("--noise needs repetitions of the same points: two folders at least, better five")
    of_a, of_b = _by_key(a), _by_key(b)
    keys = [key for key in of_a if key in of_b]
    labels = _labels([of_a[key] + of_b[key] for key in keys])
    pairs = [PointPair(key, label, of_a[key], of_b[key]) for key, label in zip(keys, labels, strict=True)]
    figures = {metric: compare_figure(metric, pairs, noise, paired) for metric in METRICS}
    return Comparison(
        pairs,
        ["/".join(key) for key in of_a if key not in of_b],
        ["/".join(key) for key in of_b if key not in of_a],
        repetitions,
        {metric: compared for metric, compared in figures.items() if compared is not None},
        chosen,
    )


def _by_key(side: Iterable[Measurement]) -> dict[Key, list[Measurement]]:
    groups: dict[Key, list[Measurement]] = {}
    for measurement in side:
        groups.setdefault(measurement.key, []).append(measurement)
    return groups


def _labels(points: Sequence[Sequence[Measurement]]) -> list[str]:
    """Name points as their plug-in does, with the parts of their keys in which they differ besides."""
    folders = [point[0].key[:-1] for point in points]
    places = range(max(map(len, folders), default=0))
    varying = [place for place in places if len({folder[place : place + 1] for folder in folders}) > 1]
    labels = []
    for point, folder in zip(points, folders, strict=True):
        names = dict.fromkeys(m.point for m in point)
        parts = [folder[place] for place in varying if place < len(folder) and folder[place]]
        labels.append(" ".join([*parts, " | ".join(names)]))
    return labels
