"""What the sentences of an answer share: their form, and how sure a ratio is, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.results.contest import Ratio

MEASURED_ONCE = "measured once, at different times"


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def certainty(found: Ratio) -> str:
    """Say how sure a ratio is."""
    if found.interval is None:
        return "single runs: noise is not ruled out"
    low, high = map(three_digits, found.interval)
    return f"95% interval {low} to {high}" + (f", {found.rounds} rounds" if found.rounds else "")


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
