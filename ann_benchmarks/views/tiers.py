"""Results on tiers: what memory each has, what it does at a recall, and a table of each index."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any

from ann_benchmarks.common.numbers import KIB, counted, figure_text, size_text
from ann_benchmarks.fields.rows import chosen_fields
from ann_benchmarks.results.at_recall import (
    LOWER_BOUND,
    AtRecall,
    Key,
    build_arguments,
    built_index,
    find_at_recall,
    latency_notes,
    ratio_of_throughputs,
)
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.intervals import interval_text

from .parts import Part, Table

LATENCIES = ("p50", "p99")
COLUMNS = (
    *("Available RAM", "shared_buffers", "Clients"),
    *(all_metrics[name].title for name in (QPS_AT_RECALL, *LATENCIES)),
)
# Columns that there are where results differ in them, with the name of a property of the series.
DIFFERING = {**{field.title: field.name for field in chosen_fields("tier") if field.title}, "Load": "special"}


@dataclass(frozen=True)
class TierRun:
    """A result whose tier has an amount of memory; sizes in bytes.

    `ram` is None where the tier has all of the machine's; `available` is what was measured.
    """

    run: Run
    ram: int | None
    available: int | None
    shared_buffers: int | None
    index_size: float | None

    @property
    def algorithm(self) -> str:
        """What a comparison is between."""
        return self.run.series.family

    @property
    def name(self) -> str:
        """The name of its line: the curve's without the memory, which of several servers is that of each."""
        return self.run.series.drop("tier_memory").label + share_note(self.run)

    @property
    def clients(self) -> int:
        """The number of clients; an algorithm's own process is one."""
        return self.run.series.clients or 1

    @property
    def index(self) -> tuple[str, ...]:
        """What identifies the built index."""
        return self.algorithm, *map(str, built_index(self.run)[1:])


@dataclass(frozen=True)
class TierAtRecall(TierRun):
    """The result that stands for others with the same memory at a recall, and their throughput there."""

    at: AtRecall


def share_note(run: Run) -> str:
    """Return what follows a name where several servers have the memory beside it, each of them."""
    return " (each server)" if run.series.has_several_servers else ""


def tier_runs(runs: Iterable[Run]) -> list[TierRun]:
    """Return the results on tiers that do not leave the memory alone.

    Where a line has no tier with all of it, the same on the machine as it is stands for one.
    """
    runs, found = list(runs), list[TierRun]()
    for run in runs:
        ram, measured, at_start, limit, buffers = (
            int(value) if (value := number(run, name)) and value > 0 else None
            for name in ("tier_ram", "tier_available", "tier_available_at_start", "container_memory_bytes",
                         "tier_shared_buffers")
        )  # fmt: skip
        available = measured or at_start or limit
        if run.attrs.get("tier") and (ram or (buffers and available)):
            size = run.metrics["indexsize"] * KIB
            found.append(TierRun(run, ram, available, buffers, size if size > 0 else None))
    whole = {one.name for one in found if one.ram is None}
    for one in {one.name: one for one in found if one.name not in whole}.values():
        series, name = one.run.series, one.run.series.drop("tier_memory", "tier_method").label
        for run in (run for run in runs if (run.algorithm, *built_index(run)[1:]) == (name, *one.index[1:])):
            own = replace(run, series=run.series.replaced(tier_method=series.tier_method))
            memory = int(number(run, "memory_bytes") or 0) or None
            found.append(TierRun(own, None, None if whole else memory, None, one.index_size))
    return found


def tiers_at_recall(
    runs: Iterable[TierRun], key: Callable[[TierRun], Key], target: float
) -> list[TierAtRecall]:
    """Return what stands at a recall for the results of each key, the fastest first.

    Left out is what does not reach it.
    """
    groups: dict[Key, list[Run]] = {}
    by_run = {id(one.run): one for one in runs}
    for one in by_run.values():
        groups.setdefault(key(one), []).append(one.run)
    ranked = sorted(find_at_recall(groups, target).values(), key=lambda at: -at.qps)
    return [TierAtRecall(**vars(by_run[id(at.run)]), at=at) for at in ranked]


def whole_machine(runs: Iterable[TierRun]) -> int | None:
    """Return where tiers with all of the machine's RAM are drawn: the median of what was measured."""
    measured = [tier_run.available for tier_run in runs if tier_run.ram is None and tier_run.available]
    return round(median(measured)) if measured else None


def tier_tables(runs: Sequence[TierRun], target: float) -> list[Part]:
    """Return a table of each built index, with a row for each tier where it reaches a recall, and notes."""
    machine = whole_machine(runs)
    whole = f"all ({size_text(machine)})" if machine else "all"

    def place(one: TierRun) -> tuple[Any, ...]:
        return *one.index, one.clients, one.name, one.ram or machine or 0, one.shared_buffers or 0

    def cells(one: TierAtRecall) -> list[str]:
        ram = size_text(one.ram) if one.ram else whole
        bounds = [one.at.interval, *(interval(one.run, name) for name in LATENCIES)]
        values = [one.at.qps, *(one.run.metrics[name] for name in LATENCIES)]
        texts = [
            figure_text(value) + interval_text(bound) for value, bound in zip(values, bounds, strict=True)
        ]
        texts[0] = LOWER_BOUND * one.at.is_bound + texts[0]
        return [ram, size_text(one.shared_buffers), str(one.clients), *texts, *differences(one)]

    def differences(one: TierRun) -> list[str]:
        return [str(getattr(one.run.series, name) or "") for name in more.values()]

    found = tiers_at_recall(runs, lambda one: (*one.index, one.name, one.ram, one.shared_buffers), target)
    more = {
        title: name
        for title, name in DIFFERING.items()
        if len({getattr(one.run.series, name) for one in found}) > 1
    }
    parts: list[Part] = []
    for _, members in groupby(sorted(found, key=place), lambda one: one.index):
        group = list(members)
        parts.append(Table((*COLUMNS, *more), list(map(cells, group)), heading(group), frozenset(more)))
        spreads = []
        for _, line in groupby(group, lambda one: (one.clients, one.name)):
            ranked = sorted(line, key=lambda one: one.at.qps)
            if len(ranked) > 1:
                spread = ratio_of_throughputs(ranked[-1].at, ranked[0].at)
                how = [counted(ranked[0].clients, "client"), *differences(ranked[0]), spread.whole_certainty]
                spreads.append(f"{spread.value:.2f} ({', '.join(filter(None, how))})")
        if spreads:
            parts.append(f"Largest QPS / smallest over the tiers: {'; '.join(spreads)}")
    rows = [row for part in parts if isinstance(part, Table) for row in part.rows]
    if any(")" in cell for row in rows for cell in row[3 : len(COLUMNS)]):
        parts.append("In brackets: 95% intervals.")
    parts += latency_notes(one.at for one in found)
    if off := [abs(one.available / one.ram - 1) for one in found if one.ram and one.available]:
        most = f"{max(off):.1%}"
        parts.append(f"Available RAM is as requested; measured during the runs it was within {most} of it.")
    return parts


def heading(rows: Sequence[TierAtRecall]) -> str:
    """Name an index, its query arguments and the recall, over all rows."""
    run = rows[0].run
    built = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
    runs = [run for row in rows for run in row.at.runs]
    queried = " or ".join(dict.fromkeys(map(query_text, runs)))
    recalls = sorted({f"{run.metrics['recall']:.3f}" for run in runs})
    recall = " to ".join(dict.fromkeys((recalls[0], recalls[-1])))
    name = rows[0].algorithm + share_note(run)
    return f"{', '.join(filter(None, [name, built, queried]))} (recall {recall})"


def query_text(run: Run) -> str:
    """Return the query argument that was searched for the recall, else the result's whole name."""
    if "target_parameter" in run.attrs:
        return f"{run.attrs['target_parameter']} = {run.attrs.get('target_value')}"
    return run.parameters
