"""What is said of a comparison: words for each difference, warnings, and whether it fails a build."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ann_benchmarks.results.intervals import Interval

from .changes import changes, is_of_machine
from .figures import PointPair
from .judging import HIGHER, LOWER, NOISY, Difference
from .matching import Comparison
from .measurements import METRICS, Measurement

NOT_SLOWER, SLOWER, NOTHING_TOLD = 0, 1, 2  # exit statuses


@dataclass(frozen=True)
class Asked:
    """How to judge: the error rate, and the size of a difference that matters, as a share."""

    error_rate: float = 0.05
    worth: float = 0.05

    @property
    def confidence(self) -> str:
        """The intervals' confidence."""
        return percent(1 - self.error_rate)

    def verdict(self, metric: str, difference: Difference) -> str:
        """Say it in the words of a figure, with a question mark where no repetitions say so."""
        found = difference.verdict(self.error_rate, self.worth)
        word = {HIGHER: METRICS[metric].more, LOWER: METRICS[metric].less}.get(found)
        return found if word is None else word + "?" * (not difference.is_sure)


def slowdown(metric: str, difference: Difference) -> float:
    """Return by which share the throughput has fallen or the time has risen; below 0 where it is better."""
    return 1 - difference.ratio if metric == "qps" else difference.ratio - 1


def failures(comparison: Comparison, asked: Asked) -> list[str]:
    """Name what is slower by more than `worth`, and slower beyond noise: points, or all of them together.

    Half of the error rate is for the geometric mean, half for the points (of one point, there is one test).
    """
    metric = comparison.judged_by
    compared = comparison.figures.get(metric)
    if compared is None:
        return []
    is_one = len(compared.points) == 1
    rate = asked.error_rate if is_one else asked.error_rate / 2
    tested = [(pair.label, d) for pair, d in compared.points]
    tested += [] if is_one else [("all points, geometric mean", compared.mean)]
    return [
        f"{label}: {slowdown(metric, d):.1%}"
        for label, d in tested
        if d.is_sure and asked.worth < slowdown(metric, d) and d.verdict(rate, asked.worth) in (HIGHER, LOWER)
    ]


def status(comparison: Comparison, asked: Asked, has_to_see: bool = False) -> int:
    """Return the exit status of --fail-if-slower; with `has_to_see`, so does noise that could hide it: 2."""
    if failures(comparison, asked):
        return SLOWER
    compared = comparison.figures.get(comparison.judged_by)
    if compared is None or not compared.mean.is_sure:
        return NOTHING_TOLD
    if has_to_see and compared.mean.verdict(asked.error_rate, asked.worth) == NOISY:
        return NOTHING_TOLD
    return NOT_SLOWER


def warnings(comparison: Comparison, asked: Asked) -> Iterator[str]:
    """Say what the reader of the figures has to know."""
    metric = comparison.judged_by
    compared = comparison.figures.get(metric)
    if compared is None:
        yield "no figure is known of both sides"
        return
    found = changes(comparison.pairs)
    if any(is_of_machine(change) for change in found):
        yield "A and B were measured on different machines: the differences are of these, too"
    for what, said in (("truth", "on different vectors"), ("dataset", "on different datasets")):
        if any(change.what == what for change in found):
            yield f"A and B were measured {said}"
    by = {d.by for _, d in compared.points}
    if "runs" in by:
        yield (
            "each side was measured once, and only the runs within tell the noise: verdicts have a question"
            " mark, for restarts, builds and the time of day may do more; repetitions (--a A1 A2 A3 --b B1 B2"
            " B3) or --noise tell"
        )
    unjudged = sum(not d.is_judged for _, d in compared.points)
    if unjudged:
        yield f"{_points(unjudged)} not judged: of one measurement with one run, nothing tells the noise"
    noisy = compared.mean.verdict(asked.error_rate, asked.worth) == NOISY
    if noisy:
        visible = compared.mean.visible(asked.error_rate)
        yield (
            f"too noisy to tell a difference of {percent(asked.worth)}: over all points, one of"
            f" {share_text(visible)} is seen in about 8 of 10 such comparisons"
        )
    apart = [pair for pair in comparison.pairs if recall_differs(pair)]
    if apart:
        yield (
            f"{_points(len(apart))} with another recall, beyond noise: QPS at different recalls are not"
            " comparable (compare points of run.py --target-recall)"
        )
    limits = [
        pair
        for pair in comparison.pairs
        if any(m.attrs.get("clients_were_limit") for m in (*pair.a, *pair.b))
    ]
    if limits:
        yield f"{_points(len(limits))} in which the clients, not the server, were the limit"


def recall_differs(pair: PointPair) -> bool:
    """Whether the recalls differ by more than noise (Newcombe's hybrid of Wilson's intervals, 1998).

    Of repetitions, which ask the same queries, the one in the middle stands for all.
    """
    a, b = (_middle(side) for side in (pair.a, pair.b))
    if a is None or b is None:
        return False
    (_, mean, high), (other_low, other_mean, _) = sorted((a, b), key=lambda of: of[1])
    return other_mean - mean > math.hypot(high - mean, other_mean - other_low)


def _middle(side: list[Measurement]) -> tuple[float, float, float] | None:
    known = sorted((m.recall, m.recall_interval or Interval(0, 1)) for m in side if m.recall is not None)
    if not known:
        return None
    recall, (low, high) = known[len(known) // 2]
    return low, recall, high


def _points(number: int) -> str:
    return f"{number} point{'s' * (number > 1)}"


def percent(share: float) -> str:
    """Write a share as it was typed."""
    return f"{100 * share:.10g}%"


def share_text(value: float) -> str:
    """Write how much more of something there is."""
    if math.isnan(value):
        return "-"
    return (
        f"{value:.0%}"
        if 0.0995 <= value < 10
        else f"{value:.1%}"
        if value < 10
        else f"a factor of {value + 1:,.0f}"
    )
