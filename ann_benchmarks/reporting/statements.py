"""What the sentences of an answer share: their form, and how sure a ratio is, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.results.at_recall import how_measured
from ann_benchmarks.results.contest import FEWEST_ROUNDS, Ratio
from ann_benchmarks.results.runs import Run


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def doubt(first: Run, second: Run) -> tuple[str, str]:
    """Say how two results were measured whose ratio is not sure, and what follows from that."""
    how = how_measured(first, second)
    if "too few" in how:
        return how, f": {FEWEST_ROUNDS} are the least"
    return how, ", which changes more than these intervals show: the same rounds compare more surely"


def certainty_of_all(ratios: Iterable[Ratio], doubts: Iterable[str]) -> str:
    """Say why ratios are not sure."""
    single = any(found.interval is None for found in ratios)
    return f"{'single runs, ' * single}{listed(list(dict.fromkeys(doubts)))}"


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
