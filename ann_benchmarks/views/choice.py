"""Which index to take: the fastest with every number of clients, else by what noise hardly touches."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.results.at_recall import describe_measuring, speed_of_run
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.results.remarks import MOST_OTHERS
from ann_benchmarks.results.runs import Run
from ann_benchmarks.statistics.speeds import Speed

from .contenders import build_seconds
from .memory import MemoryNeed
from .parts import first_names, lead_text, listed, qps_text

MOST_DISTURBED = 0.5  # of the runs, beyond which no index is named
NOTABLE = 1.2  # times as much, from which on a cost decides between indexes that are equally fast
# What a query takes of the server, by its attribute of each run: noise of the machine hardly changes it.
SPENT = {
    "run_index_blocks_hit": "reads {}fewer blocks a query",
    "run_server_cpu_seconds": "takes {}less CPU a query",
}


@dataclass(frozen=True)
class Advice:
    """Which indexes to take, the best first, and why; none where the runs were disturbed."""

    names: Sequence[str]
    text: str


def choose(shown: Sequence[Comparison], need: Sequence[MemoryNeed], error_rate: float) -> Advice:
    """Choose an index: the fastest with every number of clients, or of those that may be it the cheapest.

    None is named where most runs were disturbed.
    """
    disturbed, known = disturbed_runs(run for one in shown for run in one.runs)
    if known and disturbed > MOST_DISTURBED * known:
        busy = f"in {disturbed:,} of {known:,} runs, others took more than {MOST_OTHERS:.0%} of its CPUs"
        return Advice([], f"Measure again when the machine is idle (--force): {busy}. No index is named.")
    order = list(dict.fromkeys(name for one in shown for name in one.standings))
    if len(order) == 1:
        is_alone = {run.series.family for run in shown[0].runs} == set(order)
        only = "was measured" if is_alone else "reaches the recall"
        rates = [f"{qps_text(one.standings[order[0]])} queries/s with {one.client_text}" for one in shown]
        return Advice(order, f"Only {order[0]} {only}: {listed(rates)}.")
    speeds = sentence("; ".join(filter(None, (ranking(one, error_rate) for one in shown))))
    alike = [find_equals(one, error_rate) for one in shown]
    common = [name for name in alike[0] if all(name in names for names in alike)]
    if not common:  # the clients decide
        firsts = {one.client_text: next(iter(one.standings)) for one in shown}
        takes = listed([f"{name} for {clients}" for clients, name in firsts.items()])
        return Advice(list(dict.fromkeys([*firsts.values(), *order])), f"Take {takes}. {speeds}")
    name, reason = prefer(common, shown, need)
    if len(common) > 1:
        reason = f": it {reason}" if reason else ", or any of them: nothing else tells them apart"
    return Advice([name, *(other for other in order if other != name)], f"Take {name}{reason}. {speeds}")


def prefer(
    names: Sequence[str], compared: Sequence[Comparison], need: Sequence[MemoryNeed]
) -> tuple[str, str]:
    """Return which of indexes that are equally fast to take, and why: by what noise hardly touches.

    Size decides first, then memory, blocks and CPU a query round by round, and last the build.
    """
    runs = {name: compared[0].fastest[name] for name in names}
    most = {name: [one.ram or math.inf for one in need if one.algorithm == name] for name in names}
    costs: list[tuple[str, Mapping[str, float]]] = [
        ("is {}smaller", {name: run.metrics["indexsize"] for name, run in runs.items()}),
        ("needs {}less memory", {name: max(rams, default=0.0) for name, rams in most.items()}),
        *((words, spent(attribute, names, compared[0])) for attribute, words in SPENT.items()),
        ("is built {}faster", {name: build_seconds(run) for name, run in runs.items()}),
    ]
    left, reasons = list(names), list[str]()
    for words, cost in costs:
        if len(left) > 1 and all(cost.get(name, 0) > 0 for name in left):
            least = min(cost[name] for name in left)
            dropped = [cost[name] for name in left if cost[name] >= NOTABLE * least]
            if dropped and least < math.inf:
                left = [name for name in left if cost[name] < NOTABLE * least]
                times = min(dropped) / least
                reasons.append(words.format(f"{three_digits(times)} times " if times < math.inf else ""))
    return left[0], " and ".join(reasons)


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


def ranking(comparison: Comparison, error_rate: float) -> str:
    """Name the fastest, those that noise does not separate from it, and how far the others are behind."""
    if len(comparison.standings) < 2:
        return ""
    ratios, fastest = comparison.contest.ratios(error_rate), comparison.fastest
    name, *alike = find_equals(comparison, error_rate)
    apart = {other: found for other, found in ratios.items() if other not in alike}
    behind = lead_text(apart)
    if any(not found.is_sure for found in apart.values()):
        doubts = [describe_measuring(fastest[name], fastest[other]) for other in apart]
        behind += f", {listed(list(dict.fromkeys(doubts)))}"
    filter = comparison.runs[0].series.filter
    who = f"with {comparison.client_text}" + (f" under the filter {filter}" if filter else "")
    if not alike:
        is_sure = all(found.is_sure for found in ratios.values())
        return f"{who}, {name} is {'the fastest:' if is_sure else 'ahead:'} {behind}"
    bounds = [ratios[other].interval for other in alike if ratios[other].is_fair]
    most = max(bound.high for bound in bounds) if len(bounds) == len(alike) else 0.0
    within = f" (equally fast within {three_digits(most)} times)" if most else ""
    above = [other for other in alike if not ratios[other].is_fair]
    within += f", because {listed(first_names(above))} had only higher recalls" if above else ""
    text = f"{who}, {listed(first_names([name, *alike]))} cannot be told apart{within}"
    return f"{text}, and {name} is {behind}" if behind else text


def sentence(text: str) -> str:
    """Return a text as a sentence; nothing of nothing."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


def disturbed_runs(runs: Iterable[Run]) -> tuple[int, int]:
    """Return in how many runs others took much of the machine's CPUs, and of how many runs that is known."""
    shares = [share for run in runs for share in run.attrs.get("run_others_cpu") or []]
    return sum(share > MOST_OTHERS for share in shares), len(shares)
