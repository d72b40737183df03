"""Filters as tables: each strategy under each filter set, at the recall and at its defaults."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.numbers import UNKNOWN, figure_text, percent_text, share_text, three_digits
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.filtered import (
    AHEAD,
    ALIKE,
    ALONE,
    COMPLETE,
    FASTEST,
    MEASURED,
    ONLY,
    REGRET_HIGH,
    REGRET_LOW,
    FastestStrategy,
    UnderFilter,
    by_kind,
    judged_together,
    regret,
)
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval, number

WORDS = frozenset({"Filter", "Strategy", "Fastest"})
OF_FIRST = {
    FASTEST: "the fastest",
    MEASURED: "the fastest as measured",
    AHEAD: "ahead, not sure",
    ALIKE: "not told apart",
    ONLY: "no other reaches it",
    ALONE: "nothing else measured",
}
NOTES = (
    "In brackets: 95% intervals. QPS are those at the recall and the completeness; the p99 is that of the"
    " measured result next to it. First / this: how many times as fast the first strategy under this filter"
    " is as this one; the intervals of these ratios hold for all rows together. One that includes 1 is noise."
)
UNSURE = (
    "Not sure: measured once, at different times, or in too few rounds. The same rounds (run.py --rounds)"
    " compare more surely."
)
OF_REGRET = (
    "Plan: how many times as long the server's own plans take as the fastest plan whose recall and"
    " completeness are no lower, on up to 100 queries of the result next to the recall."
)


@dataclass(frozen=True)
class FilterTable:
    """All filter sets of one kind: a row for each strategy under each of them."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def filter_tables(found: Sequence[UnderFilter], intervals: bool = True) -> list[FilterTable]:
    """Return a table for each kind of filter, without the columns in which nothing is known."""
    fastest = {one.name: known for one, known in zip(found, judged_together(found), strict=True)}
    tables = []
    for kind, sets in by_kind(found).items():
        rows = [row for one in sets for row in rows_of(one, fastest[one.name], intervals)]
        known = [name for name in rows[0] if any(row[name] != UNKNOWN for row in rows)]
        tables.append(FilterTable(kind, known, [[row[name] for name in known] for row in rows]))
    return tables


def rows_of(one: UnderFilter, fastest: FastestStrategy, intervals: bool) -> list[dict[str, str]]:
    """Return a row for each strategy: the fastest first, then those that do not reach the recall."""
    rows = []
    for name in [*one.at_recall, *one.missed]:
        cells = {"Filter": one.name, "Share of rows": percent_text(one.selectivity), "Strategy": name}
        rows.append(cells | _at_recall(one, name, fastest, intervals) | _at_defaults(one, name, intervals))
    return rows


def _at_recall(one: UnderFilter, name: str, fastest: FastestStrategy, intervals: bool) -> dict[str, str]:
    if name in one.missed:
        run = one.missed[name]
        best = f"recall {run.metrics['recall']:.3f}, completeness {run.metrics['completeness']:.3f}"
        empty = {
            "p99 (ms)": UNKNOWN,
            "First / this": UNKNOWN,
            "Fastest": f"not reached: {best}",
            "Plan": UNKNOWN,
        }
        return {"QPS": UNKNOWN, **empty}
    at = one.at_recall[name]
    bounds = interval(at.run, "p99") if intervals else None
    ratio, says = fastest.ratios.get(name), OF_FIRST[fastest.state] if name in fastest.names else ""
    if name in fastest.higher:
        says = "slower, at a higher recall"
    p99 = all_metrics["p99"]
    return {
        "QPS": f"{LOWER_BOUND * at.is_bound}{figure_text(at.qps)}"
        f"{interval_text(at.interval if intervals else None)}",
        "p99 (ms)": p99.write(at.run.metrics["p99"]) + interval_text(bounds, p99.write),
        "First / this": f"{three_digits(ratio.value)}{interval_text(ratio.interval, three_digits)}"
        if ratio
        else "1",
        "Fastest": says,
        "Plan": _regret_text(at.run, intervals),
    }


def _regret_text(run: Run, intervals: bool) -> str:
    value = regret(run)
    if value is None:
        return UNKNOWN
    bounds = [number(run, name) for name in (REGRET_LOW, REGRET_HIGH)] if intervals else None
    return three_digits(value) + interval_text(bounds, three_digits)


def _at_defaults(one: UnderFilter, name: str, intervals: bool) -> dict[str, str]:
    run = one.defaults.get(name)
    columns = {"Recall at defaults": "recall", "Completeness at defaults": "completeness"}
    if run is None:
        return dict.fromkeys(columns, UNKNOWN)
    return {
        column: share_text(run.metrics[metric])
        + interval_text(interval(run, metric) if intervals else None, share_text)
        for column, metric in columns.items()
    }


def notes_of(found: Sequence[UnderFilter]) -> list[str]:
    """Return what has to be known to read the tables."""
    known = judged_together(found)
    notes = [NOTES]
    if any(one.state == AHEAD for one in known):
        notes.append(UNSURE)
    if any(regret(at.run) is not None for one in found for at in one.at_recall.values()):
        notes.append(OF_REGRET)
    if not any(one.defaults for one in found):
        notes.append(NO_DEFAULTS)
    return notes


NO_DEFAULTS = (
    "No result says that it was measured at default settings, so that what the defaults lose is not shown."
)


def markdown(title: str, found: Sequence[UnderFilter], intervals: bool) -> str:
    """Return the whole text of the file beside the picture."""
    target = found[0].compared.target
    parts = [f"# {title}\n", f"At a recall of {target:g} and a completeness of {COMPLETE:g}.\n"]
    for table in filter_tables(found, intervals):
        sides = ["---" if name in WORDS else "---:" for name in table.columns]
        lines = [f"| {' | '.join(row)} |" for row in (table.columns, sides, *table.rows)]
        parts += [f"**{table.heading}**:\n", "\n".join(lines) + "\n"]
    return "\n".join([*parts, *(f"{text}\n" for text in notes_of(found))])


def write_filter_table(path: Path, title: str, found: Sequence[UnderFilter], intervals: bool) -> None:
    """Write the tables; UserError if the file cannot be written."""
    try:
        with atomic_path(path) as temporary:
            temporary.write_text(markdown(title, found, intervals), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
