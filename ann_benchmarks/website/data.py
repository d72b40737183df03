"""The data of a page as its scripts read them: columns, in which a text stands once."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.facets import servers
from ann_benchmarks.plotting.published import read_tiers
from ann_benchmarks.plotting.styles import Style
from ann_benchmarks.published import published_names
from ann_benchmarks.results.environment import UNKNOWN
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.tails import counts_of
from ann_benchmarks.results.tiers import as_tier_run, whole_machine

from .columns import SiteColumn, Value, columns_of

DIGITS = 6  # of a number, which is more than any of them is sure


def column_data(column: SiteColumn, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return a column with its values in the order of the results; None if no result has one.

    Words stand once, in `words`, in the order in which they are listed; `at` has their places, -1 for none.
    One value that all have is in `same`, other numbers are in `values`, with intervals in `low` and `high`.
    """
    values = [column.value(run) for run in runs]
    if column.kind == "words":
        texts = [None if value is None else str(value) for value in values]
        words = sorted({text for text in texts if text is not None}, key=natural)
        if not words:
            return None
        index = {word: i for i, word in enumerate(words)}
        data: dict[str, Any] = {
            "words": words,
            **compact("at", [-1 if text is None else index[text] for text in texts]),
        }
    else:
        numbers = [json_number(value) for value in values]
        if all(value is None for value in numbers):
            return None
        data = compact("values", numbers)
        intervals = [column.bounds(run) for run in runs] if column.bounds else []
        if any(intervals):
            data["low"] = [json_number(one.low) if one else None for one in intervals]
            data["high"] = [json_number(one.high) if one else None for one in intervals]
    marks = {"facet": column.is_facet, "condition": column.is_condition}
    told = {name: True for name, is_so in marks.items() if is_so}
    return {"id": column.id, "label": column.label, "kind": column.kind, **told, **data}


def compact(name: str, values: list[Any]) -> dict[str, Any]:
    """Return the values by this name, or the one that they all are."""
    return {"same": values[0]} if all(value == values[0] for value in values) else {name: values}


def json_number(value: Value) -> float | int | None:
    """Return a number as short as it may be, None for what JSON has no number for."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    return float(f"{value:.{DIGITS}g}")


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts numbers in a text by size, amounts of memory too; "all" is the most."""
    if text == "all":
        return ((2, 0.0, ""),)
    size = re.fullmatch(r"([\d.,]+) ([MG])B", text)
    if size:
        return ((0, float(size[1].replace(",", "")) * {"M": 1, "G": 1024}[size[2]], ""),)
    parts = re.split(r"(\d+)", text)
    return tuple((0, float(part), "") if i % 2 else (1, 0.0, part.lower()) for i, part in enumerate(parts))


def points_data(runs: Sequence[Run], extra: Iterable[SiteColumn]) -> dict[str, Any]:
    """Return all columns of the results: first those that a page adds, then those of every result."""
    of_all = (*extra, server_column(runs), *columns_of(runs), ram_column(runs))
    columns = [column_data(column, runs) for column in of_all]
    return {"count": len(runs), "columns": [column for column in columns if column is not None]}


def server_column(runs: Sequence[Run]) -> SiteColumn:
    """Return the server of each result as far as it is known, nothing where all are of one."""
    places, _, names = servers(runs)
    known = {place: name for place, name in enumerate(names) if name not in ("", UNKNOWN)}
    of_run = {id(run): known.get(place) for run, place in zip(runs, places, strict=True) if len(known) > 1}
    return SiteColumn("server", "Server", "words", lambda run: of_run.get(id(run)), True)


def ram_column(runs: Sequence[Run]) -> SiteColumn:
    """Return where results are drawn against available RAM, in bytes, as plot.py --tiers does."""
    tier_runs = [as_tier_run(run) for run in runs]
    machine = whole_machine(tier_run for tier_run in tier_runs if tier_run)
    places = {
        id(run): tier_run.ram or machine for run, tier_run in zip(runs, tier_runs, strict=True) if tier_run
    }
    return SiteColumn("ramat", "", "bytes", lambda run: places.get(id(run)))


def tails_data(runs: Sequence[Run]) -> list[list[int] | None]:
    """Return of each result the steps of recall, then the queries with all of them, all but one and so on.

    What no query falls short of is left out at the end; None where recall by query is not known.
    """
    found: list[list[int] | None] = []
    for run in runs:
        counts = counts_of(run)
        least = next((place for place, number in enumerate(counts) if number), 0)
        found.append([len(counts) - 1, *reversed(counts[least:])] if counts else None)
    return found


def styles_data(styles: dict[str, Style]) -> dict[str, list[int]]:
    """Return each name's colour, marker and dash."""
    return {name: list(asdict(style).values()) for name, style in styles.items()}


@cache
def others_data() -> list[dict[str, Any]]:
    """Return each publication with such figures: its lines, RAM over size of the index, as shares."""
    found = []
    for name in published_names():
        try:
            published = read_tiers(name)
        except UserError:  # its tables are about something else
            continue
        lines = [
            {
                "name": line.name,
                **{
                    panel: [[json_number(point.x), json_number(point.y)] for point in points]
                    for panel, points in line.panels.items()
                },
            }
            for line in published.lines
        ]
        found.append({"id": name, "label": published.label, "lines": lines})
    return found
