"""Indexes that are compared, a row each: their figures and doubts, and the SQL of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.numbers import KIB, UNKNOWN, figure_text, size_text, three_digits
from ann_benchmarks.common.text import from_json
from ann_benchmarks.results.at_recall import AtRecall, describe_measuring
from ann_benchmarks.results.comparable import Comparison, shared_place
from ann_benchmarks.results.measurement import OVERSTATED
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.contests import Ratio
from ann_benchmarks.statistics.distributions import incomplete_beta
from ann_benchmarks.statistics.intervals import FEWEST_RUNS, ONE_IN, interval_text
from ann_benchmarks.statistics.speeds import BETWEEN, EXACT, WITHIN

from .builds import IndexNames
from .memory import MemoryNeed, least_text
from .parts import Table, known_table, qps_text, speedup_text

LEAST_OVERSTATED = 0.0005  # recall; the choice of a query argument that adds less is not mentioned
OVERSHOT = 0.02  # recall above the target; less is not mentioned


@dataclass(frozen=True)
class Recipe:
    """The statements that build the index of a result and query it, for a table of one's own."""

    name: str
    build: str
    query: str


def find_recipe(run: Run) -> Recipe | None:
    """Return the SQL that was stored with a result; None without it.

    A backslash begins a command of psql, and none of ours has one.
    """
    lines = [from_json(run.attrs.get(name) or "[]", list[Any]()) for name in ("build_sql", "query_sql")]
    texts = ["\n".join(map(str, each)) for each in lines]
    if run.series.has_several_servers or not all(texts) or "\\" in "".join(texts):
        return None
    return Recipe(run.series.family, *texts)


def build_seconds(run: Run) -> float:
    """Return what the index took to build: without the loading where that is known, 0 where nothing is."""
    return number(run, "index_build_time") or run.metrics["build"]


def contender_table(
    compared: Sequence[Comparison], short: Mapping[str, float], need: Sequence[MemoryNeed], error_rate: float
) -> Table:
    """Return a row for each index, the fastest first; `short` are those that miss the recall, with theirs."""
    names = list(dict.fromkeys(name for one in compared for name in one.standings))
    index_names = IndexNames([run for one in compared for run in one.runs])
    first = {name: next(one for one in compared if name in one.standings) for name in names}
    runs = {name: first[name].fastest[name] for name in names}
    columns: dict[str, list[str]] = {"Index": [index_names.find(run) for run in runs.values()]}
    doubts: dict[str, list[str]] = {name: [] for name in names}
    for one in compared:
        ratios, fastest = one.contest.ratios(error_rate), next(iter(one.standings))
        columns[f"Queries/s, {one.client_text}"] = [
            qps_text(at) + interval_text(at.interval) if (at := one.standings.get(name)) else UNKNOWN
            for name in names
        ]
        factors = {
            name: factor_text(found, one.standings[fastest], one.standings[name])
            for name, found in ratios.items()
        }
        columns[f"Times slower, {one.client_text}"] = [
            factors.get(name, "1" if name == fastest and factors else UNKNOWN) for name in names
        ]
        columns[f"p99 (ms), {one.client_text}"] = [
            figure_text(one.fastest[name].metrics["p99"] if name in one.fastest else None) for name in names
        ]
        for name, at in one.standings.items():
            doubts[name] += row_doubts(at, one.target)
            if (other := index_names.find(at.run)) != index_names.find(runs[name]):
                doubts[name].append(f"with {one.client_text}, {other}")
            if name in ratios and ratios[name].through:
                doubts[name].append(f"compared through {ratios[name].through}")
            elif name in ratios and not ratios[name].rounds:
                doubts[name].append(describe_measuring(one.fastest[fastest], at.run))
    columns["Build (s)"] = [figure_text(build_seconds(run) or None) for run in runs.values()]
    columns["Size"] = [size_text(run.metrics["indexsize"], KIB) for run in runs.values()]
    columns["Least RAM"] = [least_text([one for one in need if one.algorithm == name]) for name in names]
    columns["In doubt"] = ["; ".join(dict.fromkeys(doubts[name])) or UNKNOWN for name in names]
    for name, highest in short.items():
        for heading, cells in columns.items():
            reached = f"its highest recall is {highest:.4f}"
            cells.append({"Index": name, "In doubt": reached}.get(heading, UNKNOWN))
    if (place := shared_place(compared)) is None:
        place = ": " + "; ".join(f"{one.client_text}{one.place_text}" for one in compared)
    caption = f"At a recall of {compared[0].target:g}{place}"
    return known_table(columns, caption, ("Index", "In doubt"))


def factor_text(found: Ratio, first: AtRecall, other: AtRecall) -> str:
    """Write a ratio; its interval alone where noise hides who is first: being first is partly chance."""
    if found.is_fair and found.is_noise and found.rounds:
        return " to ".join(map(three_digits, found.interval))
    return speedup_text(found, first.is_bound, other.is_bound)


def row_doubts(at: AtRecall, target: float) -> list[str]:
    """Say what is unusual about the figures of one index: its recall, its tail, its runs."""
    run, standing, found = at.run, at.standing, []
    recalls = [one.metrics["recall"] for one in at.runs]
    if standing.reach == BETWEEN:
        found.append(f"between recall {min(recalls):.3f} and {max(recalls):.3f}, p99 at {recalls[0]:.3f}")
    elif standing.reach == EXACT:
        found.append("exact")
    elif standing.reach == WITHIN:
        found.append(f"recall {recalls[0]:.3f}, whose interval reaches the target")
    elif recalls[0] > target + OVERSHOT:
        found.append(f"recall {recalls[0]:.3f}, well above the target")
    elif (overstated := number(run, OVERSTATED) or 0.0) >= LEAST_OVERSTATED:
        found.append(
            f"recall {recalls[0] - overstated:.3f} with other queries than those that chose its arguments"
        )
    if run.attrs.get("runs_disagree"):
        found.append("its runs differ by more than noise")
    if int(number(run, "run_count") or 0) < FEWEST_RUNS:
        found.append("single runs")
    return [*found, *([tail] if (tail := hidden_tail(run)) else [])]


def hidden_tail(run: Run) -> str:
    """Say how much the worst 5% of the queries found where the mean recall hides it; "" where it does not.

    It does where the 5th percentile, with its interval, lies below that of misses that are spread evenly.
    """
    fifth, bounds = run.metrics["recall-p5"], interval(run, "recall-p5")
    if bounds is None or run.series.filter:
        return ""
    low, high = (round(end * run.count) for end in bounds)
    if high >= evenly_missed(run.count, run.metrics["recall"]):
        return ""
    return f"5% of its queries find at most {round(fifth * run.count)} of {run.count} ({low} to {high})"


def evenly_missed(count: int, mean: float) -> int:
    """Return how many of `count` neighbours the 5th percentile has where misses are spread evenly.

    That is the percentile of a binomial distribution: each neighbour of each query is found with the chance
    `mean`, whatever the query is.
    """
    chances = (1 - incomplete_beta(mean, found + 1, count - found) for found in range(count))
    return next((found for found, chance in enumerate(chances) if chance >= 1 / ONE_IN), count)
