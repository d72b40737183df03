"""What the page of a dataset has of filters: the compared load, its kinds, and the fastest strategies."""

from collections.abc import Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import percent_text, three_digits
from ann_benchmarks.plotting.chosen import filtered_of_one_load
from ann_benchmarks.plotting.filter_table import OF_FIRST
from ann_benchmarks.results.filtered import (
    COMPLETE,
    DEFAULTS,
    FastestStrategy,
    by_kind,
    judged_together,
    under_filters,
)
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import Run

from .columns import SiteColumn, attribute

COLUMNS = ("Filter", "Rows that pass", "Fastest", "How sure")


@dataclass(frozen=True)
class FilterSection:
    """The kinds of filters of a page with those that have default settings, and a row for each filter set."""

    kinds: Sequence[str]
    with_defaults: frozenset[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    columns: Sequence[str] = COLUMNS
    recall: float = TARGET_RECALL
    complete: float = COMPLETE


def filter_section(runs: Sequence[Run]) -> FilterSection | None:
    """Return what filtered results of a dataset say at the recall that people quote; None without any."""
    choice = filtered_of_one_load(runs)
    found = under_filters(choice.runs, TARGET_RECALL)
    if not found:
        return None
    rows = [
        [one.name, percent_text(one.selectivity), *_cells(known)]
        for one, known in zip(found, judged_together(found), strict=True)
    ]
    kinds = by_kind(found)
    having = frozenset(kind for kind, sets in kinds.items() if any(one.defaults for one in sets))
    notes = [text for text in choice.notes if text.startswith("left out")]
    return FilterSection([*kinds], having, rows, notes)


def _cells(known: FastestStrategy) -> list[str]:
    """Write which strategies are or may be the fastest, and how sure that is."""
    if not known.names:
        return ["-", "no strategy reaches it"]
    behind = f"; {three_digits(known.next.value)} times the next" if known.next else ""
    return [", ".join(known.names), OF_FIRST[known.state] + behind]


def filter_columns(runs: Sequence[Run]) -> tuple[SiteColumn, ...]:
    """Return the columns that charts of filters draw: `kind` is that of the results of the compared load."""
    compared = {id(run) for run in filtered_of_one_load(runs).runs}

    def kind(run: Run) -> str | None:
        return run.series.filter.partition(":")[0] if id(run) in compared else None

    return (
        SiteColumn("filterkind", "", "words", kind),
        SiteColumn("selectivity", "Share of rows that pass", "share", attribute("selectivity")),
        SiteColumn("defaults", "", "number", lambda run: 1 if run.attrs.get(DEFAULTS) else None),
    )
