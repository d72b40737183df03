"""What is said about a comparison: what else changed, words for differences, warnings, whether it fails."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.results.measurement import has_mean_throughput
from ann_benchmarks.statistics.differences import HIGHER, LOWER, MANY, NOISY, Difference
from ann_benchmarks.statistics.intervals import Interval

from .matching import PointPair, SideBySide
from .measurements import MACHINE, METRICS, MeasuredPoint, properties, property_names

NOT_SLOWER, SLOWER, UNDECIDED = 0, 1, 2  # exit statuses
ALL_POINTS = "all points, geometric mean"


class Change(NamedTuple):
    """Something that differs between A and B, and in how many of the points."""

    what: str
    a: str
    b: str
    points: int


def changes(pairs: Sequence[PointPair]) -> list[Change]:
    """Return what differs, machine and versions first."""
    numbers: dict[tuple[str, str, str], int] = {}
    for pair in pairs:
        sides = [[properties(point.attrs) for point in side] for side in (pair.a, pair.b)]
        for what in dict.fromkeys(name for side in sides for point in side for name in point):
            values = (dict.fromkeys(point[what] for point in side if what in point) for side in sides)
            before, after = (", ".join(side) or "-" for side in values)
            if before != after:
                place = (what, before, after)
                numbers[place] = numbers.get(place, 0) + 1
    rank = {name: i for i, name in enumerate(property_names())}

    def order(change: Change) -> tuple[int, str]:
        name = "framework_version" if change.what.endswith("_version") else change.what
        return rank.get(name, len(rank)), change.what

    return sorted((Change(*place, points) for place, points in numbers.items()), key=order)


@dataclass(frozen=True)
class Criteria:
    """How to judge: the error rate, and the size of a difference that matters, as a share."""

    error_rate: float = 0.05
    worth: float = 0.05

    @property
    def confidence(self) -> str:
        """The intervals' confidence."""
        return percent(1 - self.error_rate)

    def verdict(self, metric: str, difference: Difference) -> str:
        """Say it in the words of a metric, with a question mark where no repetitions confirm it."""
        found = difference.verdict(self.error_rate, self.worth)
        word = {HIGHER: METRICS[metric].more, LOWER: METRICS[metric].less}.get(found)
        return found if word is None else word + "?" * (not difference.is_sure)


def slowdown(metric: str, difference: Difference) -> float:
    """Return by which share the throughput has fallen or the time has risen; below 0 where it is better."""
    return 1 - difference.ratio if metric == "qps" else difference.ratio - 1


def failures(compared: SideBySide, criteria: Criteria) -> list[str]:
    """Name what is slower by more than `worth`, and beyond noise: points, or all of them together.

    Half of the error rate is for the geometric mean, half for the points (a single point is tested once).
    """
    metric, found = compared.judged_by, compared.judged
    if found is None:
        return []
    is_one = len(found.points) == 1
    rate = criteria.error_rate if is_one else criteria.error_rate / 2
    tested = [(pair.label, d) for pair, d in found.points] + ([] if is_one else [(ALL_POINTS, found.mean)])
    return [
        f"{label}: {slowdown(metric, d):.1%}"
        for label, d in tested
        if d.is_sure
        and criteria.worth < slowdown(metric, d)
        and d.verdict(rate, criteria.worth) in (HIGHER, LOWER)
    ]


def status(compared: SideBySide, criteria: Criteria, has_to_see: bool = False) -> int:
    """Return the exit status of --fail-if-slower; with `has_to_see`, noise that could hide it is 2, too."""
    if failures(compared, criteria):
        return SLOWER
    found = compared.judged
    if found is None or not found.mean.is_sure:
        return UNDECIDED
    is_noisy = found.mean.verdict(criteria.error_rate, criteria.worth) == NOISY
    return UNDECIDED if has_to_see and is_noisy else NOT_SLOWER


WORDS = {
    NOT_SLOWER: "B is not shown to be slower by more than {worth}",
    SLOWER: "B is slower by more than {worth}",
    UNDECIDED: "cannot tell whether B is slower by more than {worth}",
}


def conclusion(compared: SideBySide, criteria: Criteria, has_to_see: bool = False) -> str:
    """Return what --fail-if-slower decides, in one sentence with the ratio of all points and its interval."""
    found_status = status(compared, criteria, has_to_see)
    decided = WORDS[found_status].format(worth=percent(criteria.worth))
    found = compared.judged
    title = METRICS[compared.judged_by].title
    if found is None:
        return f"{decided}: {title} is not known for both sides"
    low, high = found.mean.interval(criteria.error_rate)
    known = not math.isnan(low)
    bounds = f"{criteria.confidence} interval {low:.3f} to {high:.3f}" if known else "interval unknown"
    over = "" if len(found.points) == 1 else f", the geometric mean of {len(found.points)} points"
    worst = "".join(f"; {text}" for text in failures(compared, criteria) if not text.startswith(ALL_POINTS))
    is_noisy = found_status != SLOWER and found.mean.verdict(criteria.error_rate, criteria.worth) == NOISY
    hidden = "; the noise could hide it" if is_noisy else ""
    return f"{decided}: {title} B / A is {found.mean.ratio:.3f} ({bounds}{over}){worst}{hidden}"


def warnings(compared: SideBySide, criteria: Criteria) -> Iterator[str]:
    """Say what the reader of the figures has to know."""
    found = compared.judged
    if found is None:
        yield f"{METRICS[compared.judged_by].title} is not known for both sides"
        return
    differing = changes(compared.pairs)
    if any(change.what in MACHINE[:4] for change in differing):
        yield "A and B were measured on different machines, which may explain the differences"
    for what, text in (("truth", "vectors"), ("dataset", "datasets")):
        if any(change.what == what for change in differing):
            yield f"A and B were measured on different {text}"
    if not all(has_mean_throughput(point.attrs) for pair in compared.pairs for point in (*pair.a, *pair.b)):
        yield "ann-benchmarks states the best of its runs: the best run of each side is compared"
    if compared.is_in_blocks:
        yield (
            "the repetitions of A and of B did not take turns, so that a drift of the machine's speed looks"
            " like a difference. The verdicts have a question mark. Measure A1 B1 A2 B2 A3 B3, in this order,"
            " and add --paired"
        )
    if "runs" in {d.by for _, d in found.points}:
        yield (
            "each side was measured once, and only the runs within it show the noise. The verdicts have a"
            " question mark, because restarts, builds and the time of day may add to it. Measure repetitions"
            " (--a A1 A2 A3 --b B1 B2 B3)"
        )
    if unjudged := sum(not d.is_judged for _, d in found.points):
        yield f"{counted(unjudged, 'point')} not judged: one measurement with one run does not show the noise"
    if found.mean.verdict(criteria.error_rate, criteria.worth) == NOISY:
        yield (
            f"too noisy to see a difference of {percent(criteria.worth)}: over all points, about 8 of 10 such"
            f" comparisons see one of {share_text(found.mean.visible(criteria.error_rate))}"
        )
        least = replace(found.mean, error=found.doubt, freedom=MANY).visible(criteria.error_rate)
        if least > criteria.worth:
            yield (
                f"measuring for longer would not show less than {share_text(least)}: that is how well these"
                " queries show the throughput at equal recall. Use a dataset with more queries, or points"
                " nearer to the recall"
            )
    if apart := sum(map(recall_differs, compared.pairs)):
        yield (
            f"{counted(apart, 'point')} with a recall that differs beyond noise: QPS at different recalls are"
            " not comparable (compare points of run.py --target-recall)"
        )
    if limited := sum(
        any(point.attrs.get("clients_were_limit") for point in (*pair.a, *pair.b)) for pair in compared.pairs
    ):
        yield f"{counted(limited, 'point')} where the clients, not the server, were the limit"


def recall_differs(pair: PointPair) -> bool:
    """Whether the recalls differ by more than noise (Newcombe's hybrid of Wilson's intervals, 1998).

    Repetitions send the same queries, so that the median repetition stands for all.
    """
    a, b = (median_recall(side) for side in (pair.a, pair.b))
    if a is None or b is None:
        return False
    (mean, (_, high)), (other_mean, (other_low, _)) = sorted((a, b), key=lambda recall: recall[0])
    return other_mean - mean > math.hypot(high - mean, other_mean - other_low)


def median_recall(side: list[MeasuredPoint]) -> tuple[float, Interval] | None:
    """Return the median of the known recalls, with its interval."""
    known = sorted((m.recall, m.recall_interval or Interval(0, 1)) for m in side if m.recall is not None)
    return known[len(known) // 2] if known else None


def percent(share: float) -> str:
    """Write a share as it was typed."""
    return f"{100 * share:.10g}%"


def share_text(value: float) -> str:
    """Write by which share something is more."""
    if math.isnan(value):
        return "-"
    if value >= 10:
        return f"a factor of {value + 1:,.0f}"
    return f"{value:.0%}" if value >= 0.0995 else f"{value:.1%}"
