"""Files of published figures, read and checked; a mistake is named with its file and line."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.names import exists
from ann_benchmarks.common.yaml_file import Where, YamlFile

from .tables import MARK, TEXT, Published, PublishedTable, Row

FOLDER = Path(__file__).parents[2] / "reference"
KEYS = ("label", "source", "hardware", "versions", "settings", "datasets", "notes", "tables")
OPTIONAL = ("settings", "notes")
TABLE_KEYS = ("columns", "curves", "labels", "rows", "parts")


def published_names() -> list[str]:
    """Return what there is in reference/."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def published(name: str) -> Published:
    """Read reference/NAME.yml, or NAME itself where it is a path that ends in .yml."""
    path = Path(name) if name.endswith(".yml") else FOLDER / f"{name}.yml"
    if not exists(path):
        known = ", ".join(published_names()) or "none"
        raise UserError(f"there are no published figures named '{shown(name)}': there are {known}")
    return PublishedFile(path, ", ".join(KEYS)).published()


class PublishedFile(YamlFile):
    """Turns what one file holds into tables; reference/README.md has the format."""

    def published(self) -> Published:
        """Read the whole file; UserError names the line of a mistake."""
        root = self.content
        self.mapping((), root, "the file", KEYS, [key for key in KEYS if key not in OPTIONAL])
        label, source = (self.text((key,), root[key]) for key in ("label", "source"))
        for key in ("hardware", "versions", "settings"):
            self.mapping((key,), root.get(key, {}), "names with values")
        for index, dataset in enumerate(self.checked(("datasets",), root["datasets"], list)):
            self.mapping(("datasets", index), dataset, "a dataset (name: value)")
        self.mapping(("tables",), root["tables"], "tables by name")
        notes = self.checked(("notes",), root.get("notes", []), list)
        return Published(
            name=self.path.stem,
            path=self.path,
            label=label if MARK in label else f"{label} ({MARK})",
            source=source,
            hardware=root["hardware"],
            versions=root["versions"],
            datasets=root["datasets"],
            tables=[self.table(str(name), table) for name, table in root["tables"].items()],
            settings=root.get("settings", {}),
            notes=[self.text(("notes", place), note) for place, note in enumerate(notes)],
        )

    def table(self, name: str, table: Any) -> PublishedTable:
        """Read a table."""
        where: Where = ("tables", name)
        self.mapping(where, table, f"the table '{name}'", TABLE_KEYS, TABLE_KEYS[:1])
        columns = table["columns"]
        self.mapping((*where, "columns"), columns, "columns with units (qps: 1/s)")
        for column, unit in columns.items():
            self.text((*where, "columns", column), unit)
        if ("rows" in table) == ("parts" in table):
            self.fail(where, f"the table '{name}' needs either rows or parts")
        rows: list[Row] = []
        if "rows" in table:
            rows += self.rows((*where, "rows"), table["rows"], columns, {})
        else:
            for index, part in enumerate(self.filled((*where, "parts"), table["parts"])):
                at = (*where, "parts", index)
                same = self.same(at, part, columns)
                rows += self.rows((*at, "rows"), part["rows"], columns, same)
        curves = table.get("curves", [])
        curves = [curves] if isinstance(curves, str) else self.checked((*where, "curves"), curves, list)
        labels = table.get("labels", "")
        for key, named in (("curves", curves), ("labels", [labels] if labels else [])):
            for column in named:
                self.member((*where, key), column, "column", columns)
        return PublishedTable(name, columns, rows, curves, labels, str(self.path))

    def same(self, where: Where, part: Any, columns: Mapping[str, str]) -> dict[str, Any]:
        """Return the cells that all rows of a part have."""
        self.mapping(where, part, "the part", required=("rows",))
        values = {column: value for column, value in part.items() if column != "rows"}
        for column, value in values.items():
            self.member((*where, column), column, "column", columns)
            self.cell((*where, column), value, column, columns[column])
        return values

    def rows(
        self, where: Where, content: Any, columns: Mapping[str, str], same: dict[str, Any]
    ) -> Iterator[Row]:
        """Yield the rows that stand at a place, with the cells that are the same in all of them."""
        names = [column for column in columns if column not in same]
        for index, cells in enumerate(self.filled(where, content)):
            at = (*where, index)
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
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.fail(where, f"the column '{column}' holds numbers ({unit}), not {value!r}")

    def text(self, where: Where, value: Any) -> str:
        """Return a text on one line; refuse an empty one."""
        text = " ".join(self.checked(where, value, str).split())
        return text or self.fail(where, f"'{where[-1]}' must not be empty")

    def filled(self, where: Where, value: Any) -> list[Any]:
        """Return a list; refuse an empty one."""
        return self.checked(where, value, list) or self.fail(where, f"'{where[-1]}' must not be empty")
