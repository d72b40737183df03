"""Ratios of throughputs in tables: how they are written, and what they leave open."""

from collections.abc import Iterator, Mapping, Sequence

from ann_benchmarks.common.numbers import UNKNOWN, three_digits
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.contest import Ratio
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.runs import Run

from .statements import doubt


def speedup_text(found: Ratio, is_bound: bool, is_of_bound: bool) -> str:
    """Write a ratio of throughputs, or the bound that it is where one side has only higher recalls."""
    if not found.is_fair:
        return UNKNOWN if is_bound else f"at most {three_digits(found.value)}"
    bound = LOWER_BOUND * (is_bound and not is_of_bound)
    return f"{bound}{three_digits(found.value)}{interval_text(found.interval, three_digits)}{found.where}"


def notes_on(ratios: Mapping[int, Ratio], runs: Sequence[Run], base: Run) -> Iterator[str]:
    """Say how sure ratios of throughputs to the base are; their keys are the places of results."""
    if any(found.interval for found in ratios.values()):
        yield "The intervals of QPS speedups hold for all rows together; one that contains 1 is noise."
    once = [doubt(base, runs[place])[0] for place, found in ratios.items() if not found.rounds]
    for how in dict.fromkeys(once):
        yield f"Some indexes were {how}, which changes more than these intervals show."
