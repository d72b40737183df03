"""The answer in a few sentences: which is the fastest, also with little memory, and what each needs."""

from collections.abc import Sequence

from ann_benchmarks.common.numbers import factor, size_text
from ann_benchmarks.results.comparable import Comparison, ram

from .memory import KEPT, Need
from .ratios import rates, ratio
from .statements import Statement, listed


def in_short(
    compared: Sequence[Comparison], scarce: Sequence[Comparison], found: Sequence[Need]
) -> list[Statement]:
    """Return the answer, nothing where no algorithms were compared; `scarce` is with the least memory."""
    speeds = rankings(compared)
    if not speeds:
        return []
    sentences = [speeds, *([memory(found)] if found else [])]
    if scarce:
        least = " and ".join(dict.fromkeys(size_of(ram(comparison.runs[0])) for comparison in scarce))
        there = rankings(scarce).removeprefix("with ")
        sentences.append(f"with {least}, the least that was tried, and {there}")
    return [Statement("In short", " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences))]


def rankings(compared: Sequence[Comparison]) -> str:
    """Say for each number of clients which is the fastest."""
    return "; ".join(text for comparison in compared if (text := ranking(comparison)))


def ranking(comparison: Comparison) -> str:
    """Name those that noise does not tell from the fastest, and how many times the others are behind."""
    (name, best), *others = comparison.fastest.items()
    ratios = {other: ratio(rates(best), rates(run)) for other, run in others}
    if not ratios:
        return ""
    alike = [other for other, times in ratios.items() if times.interval is None or times.is_noise]
    behind = [f"{factor(times.value)} times {other}" for other, times in ratios.items() if other not in alike]
    if alike:
        text = f"with {comparison.who_asks}, {listed([name, *alike])} are equally fast as far as noise tells"
        return f"{text}, {name} {listed(behind)}" if behind else text
    return f"with {comparison.who_asks}, {name} is the fastest: {listed(behind)}"


def memory(found: Sequence[Need]) -> str:
    """Say how much each algorithm needs with the number of clients with which it needs the most."""
    most: dict[str, float] = {}
    for need in found:
        ram = need.ram or float("inf")
        most[need.algorithm] = max(most.get(need.algorithm, 0.0), ram)
    needing: dict[float, list[str]] = {}
    for name, ram in most.items():
        needing.setdefault(ram, []).append(name)
    told = [
        f"{listed(names)} need{'s' * (len(names) == 1)} {size_of(ram)}"
        for ram, names in sorted(needing.items())
    ]
    return f"to keep {KEPT:.0%} of the throughput, {'; '.join(told)}"


def size_of(ram: float) -> str:
    """Write an amount of RAM; infinity is more than any tier had but that with all memory."""
    return "more than was tried below all memory" if ram == float("inf") else f"{size_text(int(ram))} of RAM"
