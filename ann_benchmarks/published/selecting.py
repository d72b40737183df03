"""Curves out of published tables: which rows, what over what, absolute or over the first point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ann_benchmarks.common.errors import UserError

from . import TEXT, Published, PublishedTable, Row, published

FIRST = "first"


@dataclass(frozen=True)
class Selection:
    """What is requested: a curve of `y` over `x`, one for each value of the columns `by`.

    `where` gives the value of a column, or several values that will all do. `normalise` is "" or "first".
    """

    published: str
    x: str
    y: str
    table: str = ""  # the first that has the columns
    where: Mapping[str, Any] = field(default_factory=dict)
    by: Sequence[str] = ()
    normalise: str = ""


@dataclass(frozen=True)
class PublishedCurve:
    """Pairs of x and y in ascending x. `name` distinguishes it from the others of its table."""

    name: str
    points: Sequence[tuple[float, float]]


def parse_selection(requested: Mapping[str, Any]) -> Selection:
    """Return a selection as one writes it, {"published": NAME, "table": ...}; UserError names a mistake."""
    known = list(Selection.__dataclass_fields__)
    for key in requested:
        if key not in known:
            raise UserError(f"unknown key '{key}' in a selection of published figures: {', '.join(known)}")
    for key in ("published", "x", "y"):
        if not isinstance(requested.get(key), str):
            raise UserError(f"a selection of published figures has no '{key}': give a name")
    by, where = requested.get("by", ()), requested.get("where") or {}
    if not isinstance(where, Mapping):
        raise UserError("'where' of published figures must be columns with values, such as clients: 1")
    if requested.get("normalise") not in (None, "", FIRST):
        raise UserError(f"'normalise' of published figures can only be '{FIRST}'")
    return Selection(
        requested["published"],
        requested["x"],
        requested["y"],
        requested.get("table") or "",
        where,
        [by] if isinstance(by, str) else list(by),
        requested.get("normalise") or "",
    )


def select(requested: Mapping[str, Any] | Selection) -> tuple[Published, list[PublishedCurve]]:
    """Return the file and the curves of a selection; UserError if a row or a column is lacking."""
    selection = requested if isinstance(requested, Selection) else parse_selection(requested)
    source = published(selection.published)
    columns = [selection.x, selection.y, *selection.where, *selection.by]
    table = source.table(selection.table) if selection.table else source.table_with(*columns)
    table.check(*columns)
    for column in (selection.x, selection.y):
        if table.columns[column] == TEXT:
            raise UserError(f"{table.place}: the column '{column}' of '{table.name}' holds no numbers")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows_where(table, selection.where):
        groups.setdefault(tuple(row[column] for column in selection.by), []).append(row)
    curves = []
    for values, rows in groups.items():
        points = pairs(table, rows, selection.x, selection.y)
        if points:
            if selection.normalise == FIRST:
                if not points[0][1]:
                    raise UserError("published figures cannot be divided by a first point of 0")
                points = [(x, y / points[0][1]) for x, y in points]
            named = dict(zip(selection.by, values, strict=True)) or selection.where
            curves.append(PublishedCurve(curve_name(table, named), points))
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


def pairs(table: PublishedTable, rows: Sequence[Row], x: str, y: str) -> list[tuple[float, float]]:
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
