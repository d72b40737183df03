"""The pictures and tables of filters: strategies by share of rows, and figures by decile of matches."""

from collections.abc import Sequence

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import milliseconds, share_text
from ann_benchmarks.plotting.chosen import filtered_of_one_load
from ann_benchmarks.plotting.decile_figure import create_decile_figure
from ann_benchmarks.plotting.filter_figure import create_filter_figure
from ann_benchmarks.plotting.filter_table import WORDS, filter_tables, notes_of
from ann_benchmarks.plotting.styles import assign_styles
from ann_benchmarks.results.deciles import DecileLine, decile_lines
from ann_benchmarks.results.filtered import COMPLETE, UnderFilter, under_filters
from ann_benchmarks.views.parts import Table

from .content import Shown
from .document import Block, Paragraph, Picture


def found_in(shown: Shown) -> tuple[list[UnderFilter], Sequence[str]]:
    """Return the filter sets of the load with the most points, and what was left out."""
    choice = filtered_of_one_load(shown.runs)
    found = under_filters(choice.runs, shown.target)
    if not found:
        raise UserError("no result in a closed loop has a filter")
    return found, [text for text in choice.notes if text.startswith("left out")]


def filter_picture(shown: Shown) -> list[Block]:
    """Draw throughput and what defaults return by share of rows, and the map of the fastest strategies."""
    found, notes = found_in(shown)
    path = shown.file("filters")
    styles = assign_styles(name for one in found for name in one.strategies)
    create_filter_figure(found, path, shown.title, styles)
    caption = (
        f"Strategies under filters: throughput at a recall of {shown.target:g} and a completeness of"
        f" {COMPLETE:g}, what comes back at default settings, and which strategy is the fastest where."
    )
    return [Picture(path.name, caption), *_notes(notes)]


def filter_table(shown: Shown) -> list[Block]:
    """Return for each kind of filter a row for each strategy under each filter set."""
    found, notes = found_in(shown)
    target = shown.target
    tables = [
        Table(
            table.columns,
            table.rows,
            f"{table.heading}: at a recall of {target:g} and a completeness of {COMPLETE:g}",
            WORDS & {*table.columns},
        )
        for table in filter_tables(found)
    ]
    return [*tables, *_notes([*notes_of(found), *notes])]


def decile_picture(shown: Shown) -> list[Block]:
    """Draw recall, completeness, p50 and p99 by decile of matches, a line a strategy."""
    blocks: list[Block] = []
    for number, (name, lines) in enumerate(deciles_of(shown).items()):
        path = shown.file("deciles", number)
        create_decile_figure(lines, path, f"{shown.title}, {name}".strip(", "))
        caption = (
            f"By decile of matches under {name}: the queries with the fewest matching rows are on the left. A"
            " line is the result next to the recall."
        )
        blocks.append(Picture(path.name, caption))
    return blocks


def decile_table(shown: Shown) -> list[Block]:
    """Return for each filter set a row for each strategy and decile of matches."""
    blocks: list[Block] = []
    for name, lines in deciles_of(shown).items():
        columns = ("Strategy", "Matches", "Queries", "Recall", "Completeness", "p50 (ms)", "p99 (ms)")
        rows = [
            [line.strategy, f"{one.least:,} to {one.most:,}", f"{one.queries:,}", share_text(one.recall),
             share_text(one.completeness), milliseconds(one.p50), milliseconds(one.p99)]
            for line in lines
            for one in line.deciles
        ]  # fmt: skip
        blocks.append(
            Table(columns, rows, f"{name}: by decile of matches", frozenset({"Strategy", "Matches"}))
        )
    return blocks


def deciles_of(shown: Shown) -> dict[str, list[DecileLine]]:
    """Return the lines of each filter set whose filters differ much in matches; UserError where none does."""
    found, _ = found_in(shown)
    lines = {one.name: known for one in found if (known := decile_lines(one))}
    if not lines:
        raise UserError("no result has figures by decile of matches")
    return lines


def _notes(texts: Sequence[str]) -> list[Block]:
    return [Paragraph(text, is_note=True) for text in texts]
