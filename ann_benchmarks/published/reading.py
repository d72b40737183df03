"""Files of published figures, read and checked; a mistake is named with its file and line."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.yaml_file import Where, YamlFile

from .tables import MARK, TEXT, Published, Row, Table

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
    if not path.exists():
        known = ", ".join(published_names()) or "none"
        raise UserError(f"there are no published figures named '{name}': there are {known}")
    return _Reader(path).published()


class _Reader(YamlFile):
    """Turns what one file holds into tables; reference/README.md has the format."""

    def published(self) -> Published:
        root = self.content
        if root is None:
            raise UserError(f"{self.path}: is empty; expected {', '.join(KEYS)}")
        self.keys((), root, "the file", KEYS, OPTIONAL)
        texts = {key: self.text((key,), root[key]) for key in ("label", "source")}
        for key in ("hardware", "versions", "settings"):
            self.mapping((key,), root.get(key, {}), "names with values")
        for index, dataset in enumerate(self.items(("datasets",), root["datasets"])):
            self.mapping(("datasets", index), dataset, "a dataset (name: value)")
        self.mapping(("tables",), root["tables"], "tables by name")
        return Published(
            self.path.stem,
            self.path,
            texts["label"] if MARK in texts["label"] else f"{texts['label']} ({MARK})",
            texts["source"],
            root["hardware"],
            root["versions"],
            root["datasets"],
            [self.table(str(name), table) for name, table in root["tables"].items()],
            root.get("settings", {}),
            [self.text(("notes",), note) for note in self.items(("notes",), root.get("notes", []))],
        )

    def table(self, name: str, table: Any) -> Table:
        where: Where = ("tables", name)
        self.keys(where, table, f"the table '{name}'", TABLE_KEYS, TABLE_KEYS[1:])
        columns = table["columns"]
        self.mapping((*where, "columns"), columns, "columns with units (qps: 1/s)")
        for column, unit in columns.items():
            self.text((*where, "columns", column), unit)
        if ("rows" in table) == ("parts" in table):
            self.fail(where, f"the table '{name}' needs either rows or parts")
        parts = [table] if "rows" in table else self.items((*where, "parts"), table["parts"])
        rows: list[Row] = []
        for index, part in enumerate(parts):
            at = where if "rows" in table else (*where, "parts", index)
            same = {} if "rows" in table else self.same(at, part, columns)
            rows += self.rows((*at, "rows"), part["rows"], columns, same)
        curves = table.get("curves", [])
        curves = [curves] if isinstance(curves, str) else self.items((*where, "curves"), curves)
        labels = table.get("labels", "")
        for key, named in (("curves", curves), ("labels", [labels] if labels else [])):
            for column in named:
                if column not in columns:
                    self.fail((*where, key), f"there is no column '{column}'; {closest(column, columns)}")
        return Table(name, columns, rows, curves, labels, str(self.path))

    def same(self, where: Where, part: Any, columns: Mapping[str, str]) -> dict[str, Any]:
        """Return the cells that all rows of a part have."""
        self.mapping(where, part, "a part (rows, and columns that are the same in all of them)")
        if "rows" not in part:
            self.fail(where, "the part has no rows")
        values = {column: value for column, value in part.items() if column != "rows"}
        for column, value in values.items():
            if column not in columns:
                self.fail((*where, column), f"there is no column '{column}'; {closest(column, columns)}")
            self.cell((*where, column), value, column, columns[column])
        return values

    def rows(
        self, where: Where, content: Any, columns: Mapping[str, str], same: dict[str, Any]
    ) -> Iterator[Row]:
        names = [column for column in columns if column not in same]
        for index, cells in enumerate(self.items(where, content)):
            at = (*where, index)
            if len(self.items(at, cells)) != len(names):
                self.fail(at, f"the row has {len(cells)} cells for {len(names)} columns: {', '.join(names)}")
            row = dict(zip(names, cells, strict=True)) | same
            for i, column in enumerate(names):
                self.cell((*at, i), row[column], column, columns[column])
            yield {column: row[column] for column in columns}

    def cell(self, where: Where, value: Any, column: str, unit: str) -> None:
        if value is None:
            return
        if unit == TEXT:
            if not isinstance(value, str):
                self.fail(where, f"the column '{column}' holds text, not {value!r}: put it in quotes")
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.fail(where, f"the column '{column}' holds numbers ({unit}), not {value!r}")

    def text(self, where: Where, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(where, f"expected a text here, found {value!r:.40}")
        return " ".join(value.split())

    def items(self, where: Where, value: Any) -> Sequence[Any]:
        """Return a list; rows and parts may not be none."""
        if not isinstance(value, list) or (not value and where[-1] in ("rows", "parts")):
            self.fail(where, f"expected a list here, found {value!r:.40}")
        return value

    def keys(
        self, where: Where, value: Any, what: str, known: Sequence[str], optional: Sequence[str]
    ) -> None:
        self.mapping(where, value, what, known)
        for key in known:
            if key not in value and key not in optional:
                self.fail(where, f"{what} has no '{key}'")
