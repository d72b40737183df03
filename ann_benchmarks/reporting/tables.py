"""The tables of a report: one function a kind, in the dict below."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import (
    KIB,
    UNKNOWN,
    figure_text,
    plain_number,
    share_text,
    size_text,
    three_digits,
)
from ann_benchmarks.published import TEXT, published
from ann_benchmarks.published.selecting import rows_where
from ann_benchmarks.results.at_recall import (
    LOWER_BOUND,
    AtRecall,
    at_recall,
    indexes_at_recall,
    of_latencies,
    ratio_of_throughputs,
)
from ann_benchmarks.results.built import built_index
from ann_benchmarks.results.comparable import comparisons
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.judging import ERROR_RATE
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.percentiles import PERCENTILES
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.parts import Table, known_table, notes_on, speedup_text
from ann_benchmarks.views.servers import server_tables
from ann_benchmarks.views.tiers import tier_runs, tier_tables

from .builds import IndexNames, build_table
from .content import Kind, Shown, part_blocks
from .document import Block, Paragraph
from .filters import decile_table, filter_table
from .recalls import recall_table
from .workloads import insert_table, write_tables

SPEEDUPS = ("p99", "build")


def point_table(shown: Shown, best: bool = False) -> list[Block]:
    """Return all results with their intervals; with `best`, the highest QPS on each tier."""
    if not shown.runs:
        raise UserError("no result was selected")
    chosen = highest_of_each(shown.runs, shown.target) if best else shown.runs
    if not chosen:
        raise UserError(f"no result reaches a recall of {shown.target:g}")
    title = f"All points ({len(chosen)})"
    if best:
        title = (
            f"The highest throughput at a recall of {shown.target:g} of each load and tier, which may be the"
            f" highest by noise: {len(chosen)} of {len(shown.runs)} points. All are in points.csv"
        )
    runs = sorted(chosen, key=lambda run: (run.dataset, run.algorithm, run.metrics["recall"]))
    columns = {
        "Curve": [run.algorithm for run in runs],
        "Parameters": [run.parameters for run in runs],
        "Dataset": [run.dataset for run in runs],
        "k": [str(run.count) for run in runs],
    }
    for name in ("Dataset", "k"):
        if len(set(columns[name])) == 1:
            del columns[name]
    for name in ("recall", "qps", *PERCENTILES):
        metric = all_metrics[name]
        columns[metric.title] = [
            metric.write(run.metrics[name]) + interval_text(interval(run, name), metric.write) for run in runs
        ]
    words = frozenset({"Curve", "Parameters", "Dataset"})
    return [known_table(columns, shown.title or title, words)]


def highest_of_each(runs: Sequence[Run], target: float) -> list[Run]:
    """Return the result next to the recall of whatever has the highest QPS under the same conditions."""
    places: dict[tuple[Hashable, ...], dict[Hashable, list[Run]]] = {}
    for run in (run for run in runs if not run.series.is_open):  # at a rate, QPS were given
        place = run.dataset, run.count, run.batch, run.series.conditions
        places.setdefault(place, {}).setdefault(built_index(run), []).append(run)
    found = [at_recall(indexes, target) for indexes in places.values()]
    return [next(iter(standings.values())).run for standings in found if standings]


def tier_blocks(shown: Shown) -> list[Block]:
    """Return for each index what it has on each tier at the target recall."""
    if not (parts := tier_tables(tier_runs(shown.runs), shown.target)):
        raise UserError(f"no result on a tier reaches a recall of {shown.target:g}")
    return part_blocks(parts)


def speedup_tables(shown: Shown, baseline: str = "") -> list[Block]:
    """Return for each number of clients the figures of each index at the target recall, and their ratios.

    Without a `baseline`, the name of a row or of its algorithm, the worst of each column is 1.
    """
    blocks: list[Block] = []
    for comparison in comparisons(shown.runs, shown.target):
        found = [at for at, _ in indexes_at_recall(comparison.runs, shown.target)]
        if not found:
            continue
        conditions = f"{comparison.who_asks}{comparison.where}, at a recall of {shown.target:g}"
        blocks += speedup_table(sorted(found, key=lambda at: at.run.series.family), conditions, baseline)
        reaching = {at.run.series.family for at in found}
        if short := sorted({run.series.family for run in comparison.runs} - reaching):
            blocks.append(Paragraph(f"Below that recall: {', '.join(short)}.", is_note=True))
    if not blocks:
        raise UserError(f"no result reaches a recall of {shown.target:g}")
    return blocks


def speedup_table(found: Sequence[AtRecall], conditions: str, baseline: str) -> list[Block]:
    """Return the table of indexes under the same conditions, and what its ratios leave open."""
    runs = [at.run for at in found]
    index_names = IndexNames(runs)
    names = [index_names.of(run) for run in runs]
    bases = [i for i, name in enumerate(names) if baseline in (name, runs[i].series.family)]

    def times(values: list[float], more_is_better: bool) -> list[str]:
        known = [value for value in values if value > 0]
        if not known:
            return [UNKNOWN] * len(values)
        base = values[bases[0]] if bases else (min if more_is_better else max)(known)
        return [
            three_digits(value / base if more_is_better else base / value)
            if value > 0 and base > 0
            else UNKNOWN
            for value in values
        ]

    base = found[bases[0]] if bases else min(found, key=lambda at: at.qps)
    rate = ERROR_RATE / max(math.comb(len(found), 2), 1)
    ratios = {i: ratio_of_throughputs(at, base, rate) for i, at in enumerate(found) if at is not base}
    columns = {
        "Index": names,
        "Recall": [share_text(run.metrics["recall"]) for run in runs],
        all_metrics[QPS_AT_RECALL].title: [
            f"{LOWER_BOUND * at.is_bound}{figure_text(at.qps)}" for at in found
        ],
        "QPS speedup": [
            speedup_text(ratios[i], at.is_bound, base.is_bound) if i in ratios else "1"
            for i, at in enumerate(found)
        ],
    }
    for name in SPEEDUPS:
        metric = all_metrics[name]
        values = [run.metrics[name] for run in runs]
        columns[metric.title] = [metric.write(value) for value in values]
        columns[f"{metric.title.partition(' (')[0]} speedup"] = times(values, metric.higher_is_better)
    sizes = [run.metrics["indexsize"] for run in runs]
    columns["Size"] = [size_text(size, KIB) for size in sizes]
    columns["Size improvement"] = times(sizes, False)
    best = f"{names[bases[0]]} is 1" if bases else "the worst of each column is 1"
    table = known_table(columns, f"{conditions}: each index; {best}", frozenset({"Index"}))
    notes = [*notes_on(ratios, runs, base.run), *of_latencies(found)]
    return [table, *(Paragraph(text, is_note=True) for text in notes)]


def published_table(shown: Shown, name: str = "", where: Mapping[str, Any] | None = None) -> list[Block]:
    """Return a table of published figures, NAME or NAME:TABLE; `where` chooses rows by their columns."""
    source = published(name.partition(":")[0])
    table = source.table(name.partition(":")[2]) if ":" in name else source.tables[0]
    columns = [
        column if unit in (TEXT, column) else f"{column} ({unit})" for column, unit in table.columns.items()
    ]
    rows = [
        [
            cell if isinstance(cell, str) else plain_number(cell) if cell is not None else UNKNOWN
            for cell in row.values()
        ]
        for row in rows_where(table, where or {})
    ]
    words = frozenset(column for column, unit in table.columns.items() if unit == TEXT)
    origin = Paragraph(f"Published, from another machine: {source.origin}", is_note=True)
    return [Table(columns, rows, shown.title or source.label, words), origin]


table_kinds: dict[str, Kind] = {
    "points": point_table,
    "recalls": recall_table,
    "builds": build_table,
    "tiers": tier_blocks,
    "shards": lambda shown: part_blocks(server_tables(shown.runs, shown.target)),
    "filters": filter_table,
    "deciles": decile_table,
    "speedups": speedup_tables,
    "inserts": insert_table,
    "writes": write_tables,
    "published": published_table,
}
