"""Which index to take: the fastest with every number of clients, else by what noise hardly touches."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.results.at_recall import describe_measuring, may_reach, speed_of_run
from ann_benchmarks.results.comparable import Comparison, comparisons
from ann_benchmarks.results.remarks import MOST_OTHERS
from ann_benchmarks.results.runs import Run
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.speeds import Speed

from .builds import IndexNames
from .contenders import build_seconds
from .memory import MemoryNeed
from .parts import first_names, listed

MOST_DISTURBED = 0.5  # of the runs, beyond which no index is named
NOTABLE = 1.2  # times as much, from which on a cost decides between indexes that are equally fast
# What a query takes of the server, by its attribute of each run: noise of the machine hardly changes it.
SPENT = {
    "run_index_blocks_hit": "{}fewer blocks a query than {}",
    "run_server_cpu_seconds": "{}less CPU a query than {}",
}


@dataclass(frozen=True)
class Advice:
    """Which indexes to take, the best first, and why; none where the runs were disturbed."""

    names: Sequence[str]
    text: str


def choose(
    runs: Iterable[Run], shown: Sequence[Comparison], need: Sequence[MemoryNeed], error_rate: float
) -> Advice:
    """Choose an index: the fastest with every number of clients, or of those that may be it the cheapest.

    `runs` are all results, `shown` what is compared. None is named where most runs were disturbed, or where
    no two indexes were measured under the same conditions.
    """
    disturbed, known = disturbed_runs(run for one in shown for run in one.runs)
    if known and disturbed > MOST_DISTURBED * known:
        busy = f"in {disturbed:,} of {known:,} runs, other programs took over {MOST_OTHERS:.0%} of its CPUs"
        return Advice([], f"Measure again when the machine is idle (--force): {busy}. No index is named.")
    order = list(dict.fromkeys(name for one in shown for name in one.standings))
    if len(order) == 1:
        beside = [run for run in runs if run.series.family != order[0]]
        reaches = any(may_reach(run, shown[0].target) for run in beside)
        how = "was measured under these conditions" if reaches else "reaches the recall"
        return Advice(order, f"Only {order[0]} {how if beside else 'was measured'}.")
    if all(len({run.series.family for run in one.runs}) == 1 for one in shown):
        return Advice([], "No two indexes were measured under the same conditions. No index is named.")
    alike = [find_equals(one, error_rate) for one in shown]
    common = [name for name in alike[0] if all(name in names for names in alike)]
    leads = [text for one in shown if (text := lead_text(one, error_rate))]
    if not common:  # the clients decide
        firsts = {one.client_text: next(iter(one.standings)) for one in shown}
        takes = listed([f"{name} for {clients}" for clients, name in firsts.items()])
        names = list(dict.fromkeys([*firsts.values(), *order]))
        return Advice(names, f"Use {takes}: {'; '.join(leads) or 'each may be the fastest'}.")
    name, reasons = prefer(common, shown, need)
    ties = [one for one, names in zip(shown, alike, strict=True) if len(names) > 1]
    where = f" with {listed([one.client_text for one in ties])}" if leads else ""
    named = [name] if reasons else [name, *(other for other in common if other != name)]
    equal = [f"as fast as any{where}{within_text(named, ties, error_rate)}"] if ties else []
    equal += ["nothing else tells them apart"] if len(named) > 1 else []
    text = f"Use {listed(first_names(named), 'or')}: {'; '.join([*leads, *equal, *reasons])}."
    return Advice([name, *(other for other in order if other != name)], text)


def contested(runs: Iterable[Run], target: float) -> list[Comparison]:
    """Return the comparisons that the answer is from: with one client and with the most; none reached: none.

    What lies between is in the table. Where nothing else was measured, nothing is compared.
    """
    reaching = [one for one in comparisons(runs, target) if one.fastest]
    several = [one for one in reaching if len({run.series.family for run in one.runs}) > 1] or reaching
    return [several[0], *several[-1:]] if len(several) > 1 else several


def rank_indexes(runs: Sequence[Run], target: float) -> list[Run]:
    """Return the results with the most clients of each index that reaches a recall, the best index first."""
    shown = contested(runs, target)
    if not shown:
        return []
    fastest = shown[-1].fastest
    names = [*choose(runs, shown, [], ERROR_RATE / len(shown)).names, *fastest]
    return [fastest[name] for name in dict.fromkeys(names) if name in fastest]


def prefer(
    names: Sequence[str], compared: Sequence[Comparison], need: Sequence[MemoryNeed]
) -> tuple[str, list[str]]:
    """Return which of indexes that are equally fast to take, and why: by what noise hardly touches.

    Size decides first, then memory, blocks and CPU a query round by round, and last the build. An index is
    dropped by the least that it may cost, and by the most that another one may.
    """
    runs, index_names = {name: compared[0].fastest[name] for name in names}, IndexNames(compared[0].runs)
    needs = {name: [one for one in need if one.algorithm == name] for name in names}
    most = {name: max((one.ram or math.inf for one in needs[name]), default=0.0) for name in names}
    least = {name: max((one.perhaps or math.inf for one in needs[name]), default=0.0) for name in names}
    sizes = {name: run.metrics["indexsize"] for name, run in runs.items()}
    builds = {name: build_seconds(run) for name, run in runs.items()}
    queries = [(words, spent(attribute, names, compared[0])) for attribute, words in SPENT.items()]
    costs: list[tuple[str, Mapping[str, float], Mapping[str, float]]] = [
        ("{}smaller than {}", sizes, sizes),
        ("{}less memory than {}", most, least),
        *((words, cost, cost) for words, cost in queries),
        ("built {}faster than {}", builds, builds),
    ]
    left, decided = list(names), []
    for words, upper, lower in costs:
        if len(left) > 1 and all(upper.get(name, 0) > 0 for name in left):
            bound = NOTABLE * min(upper[name] for name in left)
            if dropped := [name for name in left if math.inf > bound <= lower[name]]:
                left = [name for name in left if name not in dropped]
                decided.append((words, upper, min(lower[name] for name in dropped), dropped))
    reasons = []
    for words, upper, other, dropped in decided:
        if (own := upper[left[0]]) < other:
            times = f"{three_digits(other / own)} times " if other < math.inf else ""
            # Another definition of the same algorithm may be built sooner.
            whose = [index_names.find(runs[name]) for name in dropped] if upper is builds else dropped
            reasons.append(words.format(times, listed(first_names(whose))))
    return left[0], reasons


def spent(attribute: str, names: Sequence[str], comparison: Comparison) -> dict[str, float]:
    """Return what a query of each index takes at the recall, over the least, where rounds tell them apart."""

    def thrift(run: Run) -> Speed:
        return replace(speed_of_run(run), rates=[1 / value for value in run.attrs[attribute]])

    known = [run for run in comparison.runs if run.series.family in names and is_spent(run, attribute)]
    found = replace(comparison, runs=known, speed=thrift) if known else None
    if found is None or found.fastest.keys() != set(names):
        return {}
    ratios = found.contest.ratios()
    return {next(iter(found.fastest)): 1.0} | {
        name: ratio.value if ratio.is_sure else 1.0 for name, ratio in ratios.items()
    }


def is_spent(run: Run, attribute: str) -> bool:
    """Whether it is known of every run what a query took."""
    values = run.attrs.get(attribute) or []
    return len(values) == run.attrs.get("run_count") and all(value > 0 for value in values)


def find_equals(comparison: Comparison, error_rate: float) -> list[str]:
    """Return the fastest, and those that noise or their recalls do not separate from it."""
    ratios = comparison.contest.ratios(error_rate) if len(comparison.standings) > 1 else {}
    alike = [name for name, found in ratios.items() if found.is_noise or not found.is_fair]
    return [next(iter(comparison.standings)), *alike]


def within_text(names: Sequence[str], ties: Sequence[Comparison], error_rate: float) -> str:
    """Say by how much others may be faster than these indexes, or that higher recalls hide it."""
    most = 1.0
    for one in ties:
        (first, *others), ratios = find_equals(one, error_rate), one.contest.ratios(error_rate)
        is_named = first in names
        for other in others if is_named else [name for name in others if name in names]:
            if not (found := ratios[other]).is_fair:
                return " (others had only higher recalls)"
            most = max(most, found.interval.high if other in names else 1, is_named / found.interval.low)
    return f" (within {most:.2g} times)"


def lead_text(comparison: Comparison, error_rate: float) -> str:
    """Say how far the fastest is ahead of the next with a number of clients; nothing where it may not be."""
    if len(comparison.standings) < 2 or len(find_equals(comparison, error_rate)) > 1:
        return ""
    ratios, fastest = comparison.contest.ratios(error_rate), comparison.fastest
    first, other = list(fastest)[:2]
    found, unsure = ratios[other], [name for name, found in ratios.items() if not found.is_sure]
    how = "".join(f", {describe_measuring(fastest[first], fastest[name])}" for name in unsure[:1])
    rank = f"{'ahead' if unsure else 'the fastest'} with {comparison.client_text}"
    whose = " and others" if unsure and other not in unsure else ""
    times = f"{three_digits(found.value)} times as fast as {other}{found.note} ({found.certainty})"
    return f"{rank}, {times}{whose}{how}"


def disturbed_runs(runs: Iterable[Run]) -> tuple[int, int]:
    """Return in how many runs others took much of the machine's CPUs, and of how many runs that is known."""
    shares = [share for run in runs for share in run.attrs.get("run_others_cpu") or []]
    return sum(share > MOST_OTHERS for share in shares), len(shares)
