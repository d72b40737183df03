"""What the sentences of an answer share: their form, and how sure a ratio is, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.common.output import counted
from ann_benchmarks.results.comparable import speed_of_run
from ann_benchmarks.results.contest import FEWEST_ROUNDS, Ratio
from ann_benchmarks.results.runs import Run

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


def doubt(first: Run, second: Run) -> tuple[str, str]:
    """Say how two results were measured whose ratio is not sure, and what follows from that."""
    one, other = speed_of_run(first), speed_of_run(second)
    shared = one.by_round.keys() & other.by_round.keys() if one.mark == other.mark else ()
    if 0 < len(shared) < FEWEST_ROUNDS:
        found = f"measured in {counted(len(shared), 'round')}, too few to be believed"
        return found, f": {FEWEST_ROUNDS} are the least"
    return MEASURED_ONCE, ", which changes more than these intervals show: rounds compare more surely"


def certainty_of_all(ratios: Iterable[Ratio], doubts: Iterable[str]) -> str:
    """Say why ratios are not sure."""
    single = any(found.interval is None for found in ratios)
    return f"{'single runs, ' * single}{listed(list(dict.fromkeys(doubts)))}"


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
