"""What a file of published figures holds: tables with named columns, and where they come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError

TEXT = "text"  # the unit of columns that hold words
MARK = "another machine"  # what every label says
Row = Mapping[str, Any]  # a cell by its column: text, a number, or None where it was not published

# How many of the base of its kind (s, bytes, 1/s, a share of 1) each unit is.
UNITS = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "h": 3600.0,
    "KiB": 2.0**10,
    "MB": 2.0**20,
    "MiB": 2.0**20,
    "GB": 2.0**30,
    "GiB": 2.0**30,
    "1/s": 1.0,
    "share": 1.0,
    "%": 0.01,
}


@dataclass(frozen=True)
class PublishedTable:
    """Rows with the same columns; each column has a unit.

    Rows that agree in `curves` make one curve; `labels` is the column that is written next to its points,
    which then are no steps along one setting and are not joined. `place` says where the table stands.
    """

    name: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    curves: Sequence[str] = ()
    labels: str = ""
    place: str = ""

    def has(self, *columns: str) -> bool:
        """Whether it has these columns."""
        return all(column in self.columns for column in columns)

    def check(self, *columns: str) -> None:
        """Raise UserError if it has not all of these columns."""
        for column in columns:
            if column not in self.columns:
                known = ", ".join(self.columns)
                raise UserError(
                    f"{self.place}: the table '{self.name}' has no column '{column}': it has {known}"
                )

    def in_unit(self, column: str, unit: str) -> float:
        """Return how many of a unit one of a column's is; UserError if they measure different things."""
        own = self.columns[column]
        if own == unit:
            return 1.0
        if own not in UNITS or unit not in UNITS:
            raise UserError(
                f"{self.place}: the table '{self.name}' has '{column}' in {own}, which is no number of {unit}"
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
    datasets: Sequence[Mapping[str, Any]]
    tables: Sequence[PublishedTable]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def table(self, name: str) -> PublishedTable:
        """Return a table by its name; UserError if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise UserError(f"{self.path} has no table '{name}': it has {known}")

    def table_with(self, *columns: str) -> PublishedTable:
        """Return the first table that has these columns; UserError if there is none."""
        for table in self.tables:
            if table.has(*columns):
                return table
        raise UserError(f"{self.path} has no table with the columns {', '.join(columns)}")

    @property
    def origin(self) -> str:
        """Source, machine and versions, in one sentence."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.source}. Measured on {', '.join(in_words(self.hardware))}; {versions}."


def in_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Write each fact: text by itself, a number with its name."""
    for name, value in facts.items():
        yield value if isinstance(value, str) else f"{value:,} {name.replace('_', ' ')}"
