"""Indexes of attributes, beside the vectors' or in its place: what else can answer a filter."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from ..building import Index, IndexBuild, IndexHooks
from ..catalog import BuiltIndex, relation_bytes
from ..columns import Kind, quoted
from ..errors import PostgresError
from ..forms import Form
from ..prewarming import warm_index
from ..servers import Server
from ..settings import MIB

NONE = "none"
CHOICES = (NONE, "auto", "btree", "gin")
_BUILD_MEMORY = 1024 * MIB  # of maintenance_work_mem, as far as the machine has it: what a sort can use
_ENTRY_BYTES = 20  # about, of a row in a b-tree; and of a label in GIN, less


class AttributeIndexes:
    """The indexes of one table's attributes, by what the user chose."""

    def __init__(self, choice: str, kinds: Mapping[str, Kind]) -> None:
        """Choose: none; auto, the one that serves each; or those of one method alone."""
        if choice not in CHOICES:
            raise PostgresError(f"attribute_index is '{choice}': use one of {', '.join(CHOICES)}")
        chosen = {} if choice == NONE else kinds
        self._kinds = {name: kind for name, kind in chosen.items() if choice in ("auto", kind.method)}
        if chosen and not self._kinds:
            methods = " or ".join(sorted({kind.method for kind in kinds.values()}))
            raise PostgresError(
                f"attribute_index is '{choice}', and no attribute of the table has such an index: use"
                f" {methods}, or auto"
            )
        self.built: Sequence[BuiltIndex] = []

    @property
    def count(self) -> int:
        """How many there are, or will be once they are built."""
        return len(self._kinds)

    @property
    def names(self) -> list[str]:
        """The names of the indexes, with their schema, once they are built."""
        return [index.name for index in self.built]

    def build(
        self,
        server: Server,
        connection: psycopg.Connection[Any],
        table: str,
        rows: int,
        rebuilds: bool,
        only_finds: bool,
    ) -> None:
        """Build those that are not there yet, or all; with `only_finds` none, and PostgresError instead."""

        def create(statement: str, name: str, table: str) -> dict[str, Any]:
            connection.execute(statement)
            return {}

        self.built = []
        versions = {"postgres": server.versions()["postgres"]}
        for name, kind in self._kinds.items():
            index = attribute_index(name, kind, rows)
            hooks = IndexHooks(lambda *_: None, create, lambda *_: {}, lambda name: None)
            build = IndexBuild(server, connection, table, index, versions)
            built = build.found() if only_finds else build.run(rows, hooks, rebuilds)[0]
            self.built = [*self.built, built]

    def prewarm(self, connection: psycopg.Connection[Any]) -> None:
        """Bring them into the server's memory."""
        for name in self.names:
            warm_index(connection, name)

    def kib(self, connection: psycopg.Connection[Any]) -> float:
        """Return the size of all of them."""
        return sum(relation_bytes(connection, name) for name in self.names) / 1024

    @property
    def seconds(self) -> float:
        """Return what all of them took to build."""
        return sum(index.build_seconds for index in self.built)


def attribute_index(name: str, kind: Kind, rows: int) -> Index:
    """Return the index of one attribute."""
    form = Form(quoted(name), "", "", kind.operator_class, _ENTRY_BYTES)
    return Index(kind.method, form, build_memory=_BUILD_MEMORY, disk_bytes=rows * _ENTRY_BYTES)
