"""Figures that others have published, as tables: reference/NAME.yml (reference/README.md has the format).

A mistake in a file is named with its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import shared
from ann_benchmarks.common.names import exists
from ann_benchmarks.common.yaml_file import Where, YamlFile, is_number

FOLDER = shared("reference")
KEYS = ("label", "source", "hardware", "versions", "settings", "datasets", "notes", "tables")
OPTIONAL = ("settings", "notes")
TABLE_KEYS = ("columns", "curves", "labels", "rows", "parts")
TEXT = "text"  # the unit of columns that hold words
MARK = "another machine"  # what every label says
Row = Mapping[str, Any]  # a cell by its column: text, a number, or None where it was not published

# How many of the base of its kind (s, bytes, 1/s, a share of 1) each unit is.
UNITS = {
    **{"s": 1.0, "ms": 1e-3, "us": 1e-6, "h": 3600.0},
    **{"KiB": 2.0**10, "MB": 2.0**20, "MiB": 2.0**20, "GB": 2.0**30, "GiB": 2.0**30},
    **{"1/s": 1.0, "share": 1.0, "%": 0.01},
}


@dataclass(frozen=True)
class PublishedTable:
    """Rows with the same columns; each column has a unit.

    Rows that agree in `curves` make one curve; `labels` is the column that is written next to its points,
    which then are not steps along one setting, and not joined. `place` says where the table stands.
    """

    name: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    curves: Sequence[str] = ()
    labels: str = ""
    place: str = ""

    def check(self, *columns: str) -> None:
        """Raise UserError if it has not all of these columns."""
        for column in columns:
            if column not in self.columns:
                known = ", ".join(self.columns)
                raise UserError(
                    f"{self.place}: the table '{self.name}' has no column '{column}': it has {known}"
                )

    def find_factor(self, column: str, unit: str) -> float:
        """Return how many of a unit one of a column's is; UserError if they measure different things."""
        own = self.columns[column]
        if own == unit:
            return 1.0
        if own not in UNITS or unit not in UNITS:
            raise UserError(
                f"{self.place}: the table '{self.name}' has '{column}' in {own}, which {unit} cannot measure"
            )
        return UNITS[own] / UNITS[unit]


@dataclass(frozen=True)
class Published:
    """A file of published figures. `label` says that they are another machine's."""

    name: str
    path: Path
    label: str
    source: str
    hardware: Mapping[str, Any]
    versions: Mapping[str, Any]
    tables: Sequence[PublishedTable]

    def table(self, name: str, *columns: str) -> PublishedTable:
        """Return a table by its name or, without one, the first with these columns; UserError without any."""
        for table in self.tables:
            fits = table.name == name if name else set(columns) <= set(table.columns)
            if fits:
                return table
        known = ", ".join(table.name for table in self.tables)
        what = f"'{name}': it has {known}" if name else f"with the columns {', '.join(columns)}"
        raise UserError(f"{self.path} has no table {what}")

    @property
    def origin(self) -> str:
        """Source, machine and versions, in one sentence."""
        hardware = (
            value if isinstance(value, str) else f"{value:,} {name.replace('_', ' ')}"
            for name, value in self.hardware.items()
        )
        versions = (f"{name} {version}" for name, version in self.versions.items())
        return f"{self.source}. Measured on {', '.join(hardware)}; {', '.join(versions)}."


def published_names() -> list[str]:
    """Return what there is in reference/."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def published(name: str) -> Published:
    """Read reference/NAME.yml, or NAME itself where it is a path that ends in .yml."""
    path = Path(name) if name.endswith(".yml") else FOLDER / f"{name}.yml"
    if not exists(path):
        known = ", ".join(published_names()) or "none"
        raise UserError(f"unknown published figures '{shown(name)}': choose from {known}")
    return PublishedFile(path, ", ".join(KEYS)).published()


def rows_where(table: PublishedTable, where: Mapping[str, Any]) -> list[Row]:
    """Return the rows whose columns have these values; UserError if no row has them."""
    table.check(*where)
    rows = list(table.rows)
    for column, value in where.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        known = dict.fromkeys(str(row[column]) for row in rows)
        rows = [row for row in rows if row[column] in values or str(row[column]) in map(str, values)]
        if not rows:
            given = f"{column} = {' or '.join(map(str, values))}: {column} is {', '.join(known)}"
            raise UserError(f"{table.place}: no row of '{table.name}' has {given}")
    return rows


def pairs(table: PublishedTable, rows: Sequence[Row], x: str, y: str) -> list[tuple[float, float]]:
    """Return x and y of rows that have both, by x; UserError if two rows have the same x."""
    known = sorted((row for row in rows if row[x] is not None and row[y] is not None), key=lambda row: row[x])
    for row, other in pairwise(known):
        if row[x] == other[x]:
            problem = f"several rows of '{table.name}' have {x} = {row[x]}: choose by another column"
            raise UserError(f"{table.place}: {problem} (where or by)")
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


class PublishedFile(YamlFile):
    """Turns what one file holds into tables; reference/README.md has the format."""

    def published(self) -> Published:
        """Read the whole file; UserError names the line of a mistake."""
        root = self.content
        self.mapping((), root, "the file", KEYS, [key for key in KEYS if key not in OPTIONAL])
        label, source = (self.line((key,), root[key]) for key in ("label", "source"))
        for key in ("hardware", "versions"):
            self.mapping((key,), root[key], "names with values")
        self.mapping(("tables",), root["tables"], "tables by name")
        return Published(
            name=self.path.stem,
            path=self.path,
            label=label if MARK in label else f"{label} ({MARK})",
            source=source,
            hardware=root["hardware"],
            versions=root["versions"],
            tables=[self.table(str(name), table) for name, table in root["tables"].items()],
        )

    def table(self, name: str, table: Any) -> PublishedTable:
        """Read a table."""
        where: Where = ("tables", name)
        self.mapping(where, table, f"the table '{name}'", TABLE_KEYS, TABLE_KEYS[:1])
        columns = table["columns"]
        self.mapping((*where, "columns"), columns, "columns with units (qps: 1/s)")
        for column, unit in columns.items():
            self.line((*where, "columns", column), unit)
        if ("rows" in table) == ("parts" in table):
            self.fail(where, f"the table '{name}' needs either rows or parts")
        if "rows" in table:
            rows = [*self.rows(where, {"rows": table["rows"]}, columns)]
        else:
            parts = enumerate(self.filled((*where, "parts"), table["parts"]))
            rows = [row for i, part in parts for row in self.rows((*where, "parts", i), part, columns)]
        curves = table.get("curves", [])
        curves = [curves] if isinstance(curves, str) else self.checked((*where, "curves"), curves, list)
        labels = table.get("labels", "")
        for key, named in (("curves", curves), ("labels", [labels] if labels else [])):
            for column in named:
                self.member((*where, key), column, "column", columns)
        return PublishedTable(name, columns, rows, curves, labels, str(self.path))

    def rows(self, where: Where, part: Any, columns: Mapping[str, str]) -> Iterator[Row]:
        """Yield the rows of a table or a part of it, with the cells that all of them have."""
        self.mapping(where, part, "the part", required=("rows",))
        same = {column: value for column, value in part.items() if column != "rows"}
        for column, value in same.items():
            self.member((*where, column), column, "column", columns)
            self.cell((*where, column), value, column, columns[column])
        names = [column for column in columns if column not in same]
        for index, cells in enumerate(self.filled((*where, "rows"), part["rows"])):
            at = (*where, "rows", index)
            if len(self.checked(at, cells, list)) != len(names):
                self.fail(at, f"the row has {len(cells)} cells for {len(names)} columns: {', '.join(names)}")
            row = dict(zip(names, cells, strict=True)) | same
            for i, column in enumerate(names):
                self.cell((*at, i), row[column], column, columns[column])
            yield {column: row[column] for column in columns}

    def cell(self, where: Where, value: Any, column: str, unit: str) -> None:
        """Refuse a cell that does not fit its column; null is an unknown value."""
        if value is None:
            return
        if unit == TEXT:
            if not isinstance(value, str):
                self.fail(where, f"the column '{column}' holds text, not {value!r}: put it in quotes")
        elif not is_number(value):
            self.fail(where, f"the column '{column}' holds numbers ({unit}), not {value!r}")

    def filled(self, where: Where, value: Any) -> list[Any]:
        """Return a list; refuse an empty one."""
        return self.checked(where, value, list) or self.fail(where, f"'{where[-1]}' must not be empty")
