"""All indexes that fit makes on a table: of its vectors, one or one for each part, and of its attributes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from .building import Index, IndexBuild, IndexHooks
from .catalog import BuiltIndex, relation_bytes
from .chunks import LoadOptions
from .columns import KINDS, Kind, NamedAttributes
from .filtering.conditions import SharedShape
from .filtering.division import Division, DivisionMaker, LockRoom
from .filtering.indexes import NONE, AttributeIndexes
from .filtering.parts import BuildPlace, IndexParts


@dataclass(frozen=True)
class BuildOptions:
    """How the user has the table loaded and the index built."""

    load: LoadOptions = field(default_factory=LoadOptions)
    rebuilds: bool = False  # although the index is there
    prewarms: bool = True
    only_serves: bool = False  # the index was built before, with any amount of memory
    attributes: NamedAttributes | None = None  # of the rows, beside their vectors
    payload: str = ""  # what queries return beside the ids: nothing, text or vector
    attribute_index: str = NONE  # the indexes of attributes
    matches: Mapping[SharedShape, int] = field(default_factory=dict)  # filters of queries, rows that pass
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)  # types of the attributes' columns
    divide: DivisionMaker | None = None  # what makes several indexes of vectors in place of one


class TableIndexes:
    """The indexes of one table, from their build on."""

    def __init__(
        self, options: BuildOptions, kinds: Mapping[str, Kind], division: Division | None, hooks: IndexHooks
    ) -> None:
        """Take what the user chose; nothing is built yet."""
        self.whole: BuiltIndex | None = None  # the index of all vectors, where there is one
        self.kib = 0.0
        self.facts: dict[str, Any] = {}
        self._options, self._division, self._hooks = options, division, hooks
        self._parts = IndexParts()
        self._attributes = AttributeIndexes(options.attribute_index, kinds)

    @property
    def names(self) -> list[str]:
        """The names of all indexes that the planner may choose, with their schema."""
        return [*self._of_vectors, *self._attributes.names]

    @property
    def seconds(self) -> float:
        """What all of them took to build."""
        whole = [self.whole] if self.whole else []
        return sum(built.build_seconds for built in (*whole, *self._parts.built)) + self._attributes.seconds

    def build(self, place: BuildPlace, table: str, index: Index | None, shape: tuple[int, int]) -> None:
        """Build those that are not there yet, or all; `shape` is rows and dimension of the vectors."""
        options, (rows, dimension) = self._options, shape
        way = (options.rebuilds, options.only_serves)
        if self._division is not None:
            parts = self._division.parts(table)
            self._parts.build(place, parts, self._hooks, dimension, *way)
            self.facts |= self._parts.facts | self._division.facts()
            self.facts["index_reused"] = self._parts.are_found
        elif index is not None:
            build = IndexBuild(place.server, place.connection, table, index, place.versions)
            if options.only_serves:
                self.whole, is_found = build.found(), True
            else:
                self.whole, is_found = build.run(rows, self._hooks, options.rebuilds)
            self.facts |= self.whole.facts | {"index_reused": is_found}
        self._attributes.build(place.server, place.connection, table, rows, *way)
        self.kib = sum(relation_bytes(place.connection, name) for name in self.names) / 1024
        if options.attributes is not None:
            self.facts |= {
                "attribute_index_size": self._attributes.kib(place.connection),
                "attribute_index_build_time": self._attributes.seconds,
            }

    def check_room(self, room: LockRoom, may_be_generic: bool) -> None:
        """Raise PostgresError where the server cannot lock all indexes, of vectors and of attributes."""
        if self._division is not None:
            self._division.check_room(room, self._attributes.count, may_be_generic)

    def check_locks(self, room: LockRoom, may_be_generic: bool, clients: int) -> None:
        """Raise PostgresError where clients cannot lock what their plans need."""
        if self._division is not None:
            locked = self._division.locked_by_query(self._attributes.count, may_be_generic)
            room.check(locked, "queries", clients)

    def prewarm(self, connection: psycopg.Connection[Any], warm: Callable[[str], str | None]) -> None:
        """Bring them into the server's memory; `warm` does so with one of vectors, and says how."""
        self._attributes.prewarm(connection)
        ways = [how for name in self._of_vectors if (how := warm(name))]
        if ways:  # ann-benchmarks cannot store None
            self.facts["prewarmed_by"] = ways[0]

    @property
    def _of_vectors(self) -> list[str]:
        return ([self.whole.name] if self.whole else []) + [built.name for built in self._parts.built]
