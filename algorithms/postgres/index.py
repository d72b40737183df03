"""A plug-in's index: how it is created, and which query argument trades speed for recall."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .forms import Form
from .settings import MIB


@dataclass(frozen=True)
class Index:
    """An index to build: `options` are those of WITH, written as PostgreSQL reads them."""

    method: str
    form: Form
    options: Mapping[str, Any] = field(default_factory=dict)
    build_memory: int = 64 * MIB  # bytes of maintenance_work_mem that the build can use
    disk_bytes: int = 0  # about what the index will take, 0 if unknown
    estimate: str = ""  # one line for the user before the build

    def sql(self, name: str, table: str) -> str:
        """Return the statement."""
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        storage = f" WITH ({options})" if options else ""
        name = name.rpartition(".")[2]  # an index is always in its table's schema
        column = f"{self.form.column} {self.form.operator_class}"
        return f"CREATE INDEX {name} ON {table} USING {self.method} ({column}){storage}"

    def built_from(self) -> dict[str, Any]:
        """Return what identifies the index, of the values here."""
        return {
            "method": self.method,
            "column": self.form.column,
            "operator_class": self.form.operator_class,
            "options": {name: str(value) for name, value in self.options.items()},
        }


@dataclass(frozen=True)
class SearchRange:
    """The query argument to search for a recall, and its values in the order of their effort.

    `arguments` returns what set_query_arguments takes for a value.
    """

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]] = lambda value: [value]
