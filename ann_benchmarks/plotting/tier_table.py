"""The results on tiers as a table in Markdown: each index on every tier, at a recall."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.numbers import figure_text, size_text
from ann_benchmarks.fields.rows import chosen_fields
from ann_benchmarks.results.at_recall import LOWER_BOUND, of_latencies, ratio_of_throughputs
from ann_benchmarks.results.built import build_arguments, built_index
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.results.tiers import TierAtRecall, TierRun, of_each, tiers_at_recall

LATENCIES = ("p50", "p99")
FIGURES = tuple(all_metrics[name].title for name in (QPS_AT_RECALL, *LATENCIES))
COLUMNS = ("Available RAM", "shared_buffers", "Clients", *FIGURES)
IN_BRACKETS = "In brackets: 95% intervals.\n"


def write_table(
    path: Path, title: str, runs: Sequence[TierRun], target: float, machine: float | None, intervals: bool
) -> None:
    """Write the table; UserError if the file cannot be written."""
    try:
        with atomic_path(path) as temporary:
            temporary.write_text(table(title, runs, target, machine, intervals), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class IndexOnTiers:
    """A built index: its name, query arguments and recalls, and a row for each tier at the target recall."""

    heading: str
    columns: Sequence[str]
    runs: Sequence[TierAtRecall]
    rows: Sequence[Sequence[str]]


def indexes_on_tiers(
    runs: Sequence[TierRun], target: float, machine: float | None, intervals: bool = True
) -> list[IndexOnTiers]:
    """Return each built index that reaches a recall on a tier. `machine` is its whole RAM."""

    def index_and_tier(tier_run: TierRun) -> tuple[Any, ...]:
        return *index_of(tier_run), tier_run.name, tier_run.ram, tier_run.shared_buffers

    found = tiers_at_recall(runs, index_and_tier, target)
    more = differing_columns(found)

    def place(tier_run: TierRun) -> tuple[Any, ...]:
        ram = tier_run.ram or machine or 0
        return *index_of(tier_run), *line_of(tier_run), ram, tier_run.shared_buffers or 0

    def row(tier_run: TierAtRecall) -> list[str]:
        whole = f"all ({size_text(machine)})" if machine else "all"
        ram = size_text(tier_run.ram) if tier_run.ram else whole
        tier = [ram, size_text(tier_run.shared_buffers), str(tier_run.clients)]
        return [*tier, *cells_of(tier_run, intervals), *(text(tier_run) for text in more.values())]

    groups = [list(group) for _, group in groupby(sorted(found, key=place), index_of)]
    columns = (*COLUMNS, *more)
    return [IndexOnTiers(heading(group), columns, group, list(map(row, group))) for group in groups]


def table(title: str, runs: Sequence[TierRun], target: float, machine: float | None, intervals: bool) -> str:
    """Return the whole text: for each built index a heading, a row for each tier, the spread."""
    indexes = indexes_on_tiers(runs, target, machine, intervals)
    parts = [f"# {title}\n", *(part for index in indexes for part in index_part(index))]
    if any(")" in cell for index in indexes for row in index.rows for cell in row[3 : len(COLUMNS)]):
        parts.append(IN_BRACKETS)
    found = [run for index in indexes for run in index.runs]
    parts += [f"{text}\n" for text in of_latencies(run.at for run in found)]
    return "\n".join([*parts, *deviation(found)])


def index_of(tier_run: TierRun) -> tuple[str, ...]:
    """Return what identifies a built index."""
    return tier_run.algorithm, *map(str, built_index(tier_run.run)[1:])


def line_of(tier_run: TierRun) -> tuple[int, str]:
    """Return what distinguishes the lines of an index."""
    return tier_run.clients, tier_run.name


def differing_columns(runs: Sequence[TierRun]) -> dict[str, Callable[[TierRun], str]]:
    """Return the columns that some tables need: those in which results differ."""
    possible: dict[str, Callable[[TierRun], str]] = {
        **{field.title: partial(_text, field.name) for field in chosen_fields("tier") if field.title},
        "Load": partial(_text, "special"),
    }
    return {name: text for name, text in possible.items() if len({text(tier_run) for tier_run in runs}) > 1}


def _text(name: str, tier_run: TierRun) -> str:
    return str(getattr(tier_run.run.series, name) or "")


def index_part(index: IndexOnTiers) -> list[str]:
    """Return the blocks of one built index."""
    more = len(index.columns) - len(COLUMNS)
    lines = [f"| {' | '.join(index.columns)} |", f"|{' ---: |' * len(COLUMNS)}{' --- |' * more}"]
    lines += [f"| {' | '.join(row)} |" for row in index.rows]
    spreads = []
    for _, group in groupby(zip(index.runs, index.rows, strict=True), lambda pair: line_of(pair[0])):
        (first, row), *others = group
        ranked = sorted((first.at, *(run.at for run, _ in others)), key=lambda at: at.qps)
        if others:
            spread = ratio_of_throughputs(ranked[-1], ranked[0])
            how = [clients_text(first), *row[len(COLUMNS) :], spread.whole_certainty]
            spreads.append(f"{spread.value:.2f} ({', '.join(filter(None, how))})")
    text = f"Largest QPS / smallest over the tiers: {'; '.join(spreads)}\n"
    return [f"**{index.heading}**:\n", "\n".join(lines) + "\n", *([text] if spreads else [])]


def clients_text(tier_run: TierRun) -> str:
    """Say by how many clients."""
    return f"{tier_run.clients} client{'s' * (tier_run.clients > 1)}"


def heading(rows: Sequence[TierAtRecall]) -> str:
    """Name an index, its query arguments and the recall, over all rows."""
    run = rows[0].run
    built = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
    runs = [run for row in rows for run in row.at.runs]
    queried = " or ".join(dict.fromkeys(map(query_of, runs)))
    recalls = sorted({f"{run.metrics['recall']:.3f}" for run in runs})
    recall = " to ".join(dict.fromkeys((recalls[0], recalls[-1])))
    return f"{', '.join(filter(None, [rows[0].algorithm + of_each(run), built, queried]))} (recall {recall})"


def query_of(run: Run) -> str:
    """Return the query argument that was searched for the recall, else the result's whole name."""
    if "target_parameter" in run.attrs:
        return f"{run.attrs['target_parameter']} = {run.attrs.get('target_value')}"
    return run.parameters


def cells_of(tier_run: TierAtRecall, intervals: bool) -> list[str]:
    """Return the throughput at the recall and the latencies next to it, with intervals where known."""
    at = tier_run.at
    bound = LOWER_BOUND if at.is_bound else ""
    cells = [bound + figure_text(at.qps) + interval_text(at.interval if intervals else None)]
    for metric in LATENCIES:
        bounds = interval(tier_run.run, metric) if intervals else None
        cells.append(figure_text(tier_run.run.metrics[metric]) + interval_text(bounds))
    return cells


def deviation(rows: Iterable[TierRun]) -> list[str]:
    """Say how far the measured available RAM is from the requested one."""
    off = [abs(row.available / row.ram - 1) for row in rows if row.ram and row.available]
    if not off:
        return []
    return [f"Available RAM is as requested; measured during the runs it was within {max(off):.1%} of it.\n"]
