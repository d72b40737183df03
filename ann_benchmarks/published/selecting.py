"""Curves out of published tables: which rows, what over what, absolute or over the first point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ann_benchmarks.common.errors import UserError

from .reading import published
from .tables import TEXT, Published, PublishedTable, Row

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
class Curve:
    """Pairs of x and y in ascending x. `name` distinguishes it from the others of its table."""

    name: str
    points: Sequence[tuple[float, float]]


def as_selection(requested: Mapping[str, Any]) -> Selection:
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


def select(requested: Mapping[str, Any] | Selection) -> tuple[Published, list[Curve]]:
    """Return the file and the curves of a selection; UserError if there is no such row or column."""
    selection = requested if isinstance(requested, Selection) else as_selection(requested)
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
            shown = over_first(points) if selection.normalise == FIRST else points
            named = dict(zip(selection.by, values, strict=True)) or selection.where
            curves.append(Curve(curve_name(table, named), shown))
    return source, curves


def rows_where(table: PublishedTable, where: Mapping[str, Any]) -> list[Row]:
    """Return the rows whose columns have these values; UserError if there is none."""
    table.check(*where)
    rows = list(table.rows)
    conditions = []
    for column, value in where.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        conditions.append(f"{column} = {' or '.join(map(str, values))}")
        known = dict.fromkeys(str(row[column]) for row in rows)
        rows = [row for row in rows if any(same(row[column], value) for value in values)]
        if not rows:
            raise UserError(
                f"{table.place}: no row of '{table.name}' has {' and '.join(conditions)}:"
                f" {column} is {', '.join(known)}"
            )
    return rows


def same(cell: Any, value: Any) -> bool:
    """Whether a cell has a value: 32 is 32.0, and "0.5" is 0.5."""
    return cell == value or str(cell) == str(value)


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


def over_first(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points with every y divided by the first; UserError if that is 0."""
    if not points[0][1]:
        raise UserError("published figures that begin at 0 cannot be divided by their first point")
    return [(x, y / points[0][1]) for x, y in points]


def curve_name(table: PublishedTable, values: Mapping[str, Any]) -> str:
    """Name a curve by values of its columns: words as they are, numbers with their column."""
    return ", ".join(named(table, column, value) for column, value in values.items())


def named(table: PublishedTable, column: str, value: Any) -> str:
    """Write one value so that one knows what it is."""
    if column == "clients" and not isinstance(value, (list, tuple)):
        return f"{value} client{'s' * (value != 1)}"
    return str(value) if table.columns[column] == TEXT else f"{column} {value}"
