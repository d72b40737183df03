"""Curves out of published tables: which rows, what over what, absolute or over the first point."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ann_benchmarks.common.errors import UserError

from . import TEXT, Published, PublishedTable, Row, published

FIRST = "first"
SELECTION_KEYS = ("published", "x", "y", "table", "where", "by", "normalise")
Points = list[tuple[float, float]]  # x and y, in ascending x


def select(requested: Mapping[str, Any]) -> tuple[Published, dict[str, Points]]:
    """Return the file and the curves of a selection by name: `y` over `x`, one for each value of `by`.

    It is {"published": NAME, "x": COLUMN, "y": COLUMN}. `table` is the first that has the columns, unless it
    is named; `where` gives the value of columns, or several that will all do; `by` is a column or several;
    `normalise` may be "first". UserError names a mistake, or the row or column that is lacking.
    """
    for key in requested:
        if key not in SELECTION_KEYS:
            known = ", ".join(SELECTION_KEYS)
            raise UserError(f"unknown key '{key}' in a selection of published figures: {known}")
    for key in ("published", "x", "y"):
        if not isinstance(requested.get(key), str):
            raise UserError(f"a selection of published figures has no '{key}': give a name")
    x, y, where, by = requested["x"], requested["y"], requested.get("where") or {}, requested.get("by", ())
    if not isinstance(where, Mapping):
        raise UserError("'where' of published figures must be columns with values, such as clients: 1")
    if requested.get("normalise") not in (None, "", FIRST):
        raise UserError(f"'normalise' of published figures can only be '{FIRST}'")
    source = published(requested["published"])
    by = [by] if isinstance(by, str) else list(by)
    columns = [x, y, *where, *by]
    table = source.table(requested["table"]) if requested.get("table") else source.table_with(*columns)
    table.check(*columns)
    for column in (x, y):
        if table.columns[column] == TEXT:
            raise UserError(f"{table.place}: the column '{column}' of '{table.name}' holds no numbers")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows_where(table, where):
        groups.setdefault(tuple(row[column] for column in by), []).append(row)
    curves: dict[str, Points] = {}
    for values, rows in groups.items():
        if points := pairs(table, rows, x, y):
            if requested.get("normalise"):
                if not points[0][1]:
                    raise UserError("published figures cannot be divided by a first point of 0")
                points = [(at, value / points[0][1]) for at, value in points]
            curves[curve_name(table, dict(zip(by, values, strict=True)) or where)] = points
    return source, curves


def rows_where(table: PublishedTable, where: Mapping[str, Any]) -> list[Row]:
    """Return the rows whose columns have these values; UserError if no row has them."""
    table.check(*where)
    rows = list(table.rows)
    conditions = []
    for column, value in where.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        conditions.append(f"{column} = {' or '.join(map(str, values))}")
        known = dict.fromkeys(str(row[column]) for row in rows)
        rows = [row for row in rows if row[column] in values or str(row[column]) in map(str, values)]
        if not rows:
            raise UserError(
                f"{table.place}: no row of '{table.name}' has {' and '.join(conditions)}:"
                f" {column} is {', '.join(known)}"
            )
    return rows


def pairs(table: PublishedTable, rows: Sequence[Row], x: str, y: str) -> Points:
    """Return x and y of rows that have both, by x; UserError if two rows have the same x."""
    known = sorted((row for row in rows if row[x] is not None and row[y] is not None), key=lambda row: row[x])
    for row, other in pairwise(known):
        if row[x] == other[x]:
            differing = [name for name in table.columns if name not in (x, y) and row[name] != other[name]]
            raise UserError(
                f"{table.place}: several rows of '{table.name}' have {x} = {row[x]}: choose by"
                f" {' or '.join(differing) or 'another column'} (where or by)"
            )
    return [(float(row[x]), float(row[y])) for row in known]


def curve_name(table: PublishedTable, values: Mapping[str, Any]) -> str:
    """Name a curve by values of its columns: words as they are, numbers with their column."""
    names = []
    for column, value in values.items():
        if column == "clients" and not isinstance(value, (list, tuple)):
            names.append(f"{value} client{'s' * (value != 1)}")
        else:
            names.append(str(value) if table.columns[column] == TEXT else f"{column} {value}")
    return ", ".join(names)
