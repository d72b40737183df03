"""What a table has beside its vectors, and its indexes: of all vectors or of each part, and of attributes.

Each index is built in a transaction of its own, and found again by later runs.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from ..catalog import BuiltIndex, relation_bytes
from ..errors import PostgresError
from ..forms import Form
from ..servers import Server
from ..servers.caches import warm_index
from ..servers.extension import RequiredExtension
from ..servers.progress import progress_bar
from ..session.statement import QueryStatement
from ..settings import FILTERED_SESSION, MIB, QUERY_SESSION, shared_buffers, size_text
from ..table import KINDS, AttributedColumn, Column, ColumnKind, attribute_kinds, quoted
from ..table.attributed import TEXT, TEXT_BYTES
from ..table.tables import fingerprint
from .building import MOST_NOTICES, BuildOptions, BuildPlace, Index, IndexBuild, IndexHooks
from .divisions import NONE, Division, FilteredRows, Part

Connection = psycopg.Connection[Any]
CHOICES = (NONE, "auto", "btree", "gin")  # of indexes of attributes: auto is the one that serves each
_BUILD_MEMORY = 1024 * MIB  # of maintenance_work_mem, as far as the machine has it: what a sort can use
_ENTRY_BYTES = 20  # about, of a row in a b-tree; and of a label in GIN, less


class TableIndexes:
    """The indexes of one table, from their build on."""

    def __init__(self, options: BuildOptions, rows: int, hooks: IndexHooks) -> None:
        """Take what the user chose for a table of `rows`; nothing is built yet."""
        self.kib = 0.0
        self._buffers = 0  # bytes of shared_buffers, as last printed
        self.facts: dict[str, Any] = {}
        self.kinds = attribute_kinds(options.attributes, rows, options.kinds)
        self.division = _division(options, self.kinds)  # None: there is one index of vectors
        self._options, self._hooks = options, hooks
        self._of_vectors: list[BuiltIndex] = []
        self._of_attributes: list[BuiltIndex] = []
        self._indexed = indexed_kinds(options.attribute_index, self.kinds)

    def table_mark(self, X: Any) -> str:
        """Return what tells the table from others: rows, attributes, partitions, texts, and unusual types."""
        marks = [fingerprint(X)]
        if self._options.attributes is not None:
            marks.append(self._options.attributes.mark)
        if self.division is not None and self.division.mark:
            marks.append(self.division.mark)
        if self._options.payload == TEXT:
            marks.append(f"text {TEXT_BYTES}")
        marks += [kind.type_name for kind in self.kinds.values() if kind not in KINDS.values()]
        return " ".join(marks)

    def table_column(self, column: Column) -> Column:
        """Return the column of the vectors with those that the table has beside it."""
        attributes, has_texts = self._options.attributes, self._options.payload == TEXT
        partitions = self.division.partitions if self.division is not None else None
        if attributes is None and not has_texts:
            return column
        if partitions and has_texts:
            raise PostgresError(
                "a table with partitions has no texts: use --payload vector, or another division"
            )
        values = () if attributes is None else attributes.values()
        return AttributedColumn(column, values, self._options.kinds, has_texts, partitions)

    def session_of_queries(self, has_filter: bool) -> Mapping[str, str]:
        """Return the settings of sessions that query.

        The planner is free where there is a filter: what it chooses is what is to be found out.
        """
        if not has_filter:
            return QUERY_SESSION
        return {**FILTERED_SESSION, **(self.division.settings if self.division is not None else {})}

    @property
    def whole(self) -> BuiltIndex | None:
        """The index of all vectors, where there is one."""
        return self._of_vectors[0] if self._of_vectors and self.division is None else None

    @property
    def names(self) -> list[str]:
        """The names of all indexes that the planner may choose, with their schema."""
        return [built.name for built in (*self._of_vectors, *self._of_attributes)]

    @property
    def seconds(self) -> float:
        """What all of them took to build."""
        return sum(built.build_seconds for built in (*self._of_vectors, *self._of_attributes))

    def build(self, place: BuildPlace, table: str, index: Index | None, shape: tuple[int, int]) -> None:
        """Build those that are not there yet, or all; `shape` is rows and dimension of the vectors."""
        options, (rows, dimension) = self._options, shape
        if self.division is not None:
            are_found = self._build_parts(place, self.division.parts(table), dimension)
            self.facts |= _common_facts(self._of_vectors) | self.division.facts()
            self.facts["index_reused"] = are_found
        elif index is not None:
            built, is_found = IndexBuild(place, table, index).run(rows, self._hooks, options)
            self._of_vectors = [built]
            self.facts |= built.facts | {"index_reused": is_found}
        self._build_attributes(place, table, rows)
        self.kib = _kib(place.connection, self.names)
        if options.attributes is not None:
            names = [built.name for built in self._of_attributes]
            seconds = sum(built.build_seconds for built in self._of_attributes)
            self.facts["attribute_index_size"] = _kib(place.connection, names)
            self.facts["attribute_index_build_time"] = seconds

    def prewarm(self, connection: Connection, warm: Callable[[str], str | None]) -> None:
        """Bring them into the server's memory; `warm` does so with one of vectors, and says how."""
        size, buffers = round(self.kib * 1024), shared_buffers(connection)
        if size and buffers != self._buffers:
            self._buffers = buffers
            share = f"{size / buffers:.0%} of shared_buffers"
            print(f"index covers {share}, {size_text(size)} of {size_text(buffers)}", flush=True)
        for built in self._of_attributes:
            warm_index(connection, built.name)
        ways = [how for built in self._of_vectors if (how := warm(built.name))]
        if ways:  # ann-benchmarks cannot store None
            self.facts["prewarmed_by"] = ways[0]

    def _build_attributes(self, place: BuildPlace, table: str, rows: int) -> None:
        def create(statement: str, name: str, table: str) -> dict[str, Any]:
            place.connection.execute(statement)
            return {}

        hooks = IndexHooks(create)
        place = replace(place, versions={"postgres": place.server.versions()["postgres"]})
        self._of_attributes = [
            IndexBuild(place, table, attribute_index(name, kind, rows)).run(rows, hooks, self._options)[0]
            for name, kind in self._indexed.items()
        ]

    def _build_parts(self, place: BuildPlace, parts: Sequence[Part], dimension: int) -> bool:
        """Build an index on each part; return whether earlier runs have built all of them."""
        indexes = []
        for part in parts:
            index = self._hooks.index(part.rows, dimension)
            assert index is not None
            indexes.append(replace(index, predicate=part.predicate))
        builds = [
            IndexBuild(place, part.table, index, is_one_of_many=True)
            for part, index in zip(parts, indexes, strict=True)
        ]
        builds_all, builds_none = self._options.rebuilds, self._options.only_serves
        missing = [not builds_none and (builds_all or build.find() is None) for build in builds]
        new = [index for index, is_missing in zip(indexes, missing, strict=True) if is_missing]
        _announce(place.server, new)
        rows = sum(part.rows for part, is_missing in zip(parts, missing, strict=True) if is_missing)
        self._of_vectors = []
        with progress_bar(rows, f"building {_counted(len(new))}") as bar:
            for part, build, is_missing in zip(parts, builds, missing, strict=True):
                self._of_vectors.append(build.run(part.rows, self._hooks, self._options)[0])
                bar.update(part.rows if is_missing else 0)
        every = zip(self._of_vectors, missing, strict=True)
        _report([built for built, is_missing in every if is_missing], len(parts))
        if not parts:
            print("no value has enough rows for an index of its own: none is built", flush=True)
        return not any(missing)


def _division(options: BuildOptions, kinds: Mapping[str, ColumnKind]) -> Division | None:
    if options.divide is None:
        return None
    if options.attributes is None:
        raise PostgresError(
            "the build argument division is for queries that have a filter: add --filter, or leave it out"
        )
    return options.divide(FilteredRows(options.attributes, kinds, options.matches))


def indexed_kinds(choice: str, kinds: Mapping[str, ColumnKind]) -> Mapping[str, ColumnKind]:
    """Return the attributes that have an index by the user's choice, one of CHOICES."""
    if choice == NONE or not kinds:
        return {}
    if found := {name: kind for name, kind in kinds.items() if choice in ("auto", kind.method)}:
        return found
    methods = " or ".join(sorted({kind.method for kind in kinds.values()}))
    raise PostgresError(
        f"attribute_index is '{choice}', and no attribute of the table has such an index: use {methods},"
        " or auto"
    )


def attribute_index(name: str, kind: ColumnKind, rows: int) -> Index:
    """Return the index of one attribute."""
    form = Form(quoted(name), "", "", kind.operator_class, _ENTRY_BYTES)
    return Index(kind.method, form, build_memory=_BUILD_MEMORY, disk_bytes=rows * _ENTRY_BYTES)


def _kib(connection: Connection, names: Sequence[str]) -> float:
    return sum(relation_bytes(connection, name) for name in names) / 1024


def _common_facts(parts: Sequence[BuiltIndex]) -> dict[str, Any]:
    """Return what is stored of many builds: facts of the largest, all messages, the sum of the estimates."""
    if not parts:
        return {}
    facts = dict(parts[0].facts)
    if notices := [notice for built in parts for notice in built.facts.get("build_notices", [])]:
        facts["build_notices"] = notices[:MOST_NOTICES]
    sizes = [built.facts.get("estimated_index_size", 0.0) for built in parts]
    return facts | ({"estimated_index_size": sum(sizes)} if all(sizes) else {})


def _announce(server: Server, indexes: Sequence[Index]) -> None:
    """Say what is about to be built, and see that the disk has room for it."""
    if not indexes:
        return
    disk, memory = sum(index.disk_bytes for index in indexes), max(index.build_memory for index in indexes)
    server.check_disk(disk, "the indexes")
    on_disk = f", about {size_text(disk)} on disk" if disk else ""
    are, each = ("is", "") if len(indexes) == 1 else ("are", " each")
    what = f"{_counted(len(indexes))} {are} to be built"
    print(f"{what}, with up to {size_text(memory)} of memory{each}{on_disk}", flush=True)


def _report(built: Sequence[BuiltIndex], every: int) -> None:
    """Say what was built, of `every` index that there is now."""
    if built:
        seconds = sum(each.build_seconds for each in built)
        in_all = " in all" if len(built) > 1 else ""
        found = f"; {_counted(every - len(built))} found as built before" if len(built) < every else ""
        print(f"{_counted(len(built))} built ({seconds:.1f} s{in_all}){found}", flush=True)


def _counted(indexes: int) -> str:
    return "1 index" if indexes == 1 else f"{indexes:,} indexes"


# The statements that were run, for a table of one's own, as the JSON of their lines (an attribute has one).
PASTED_TABLE = "items"  # stands for the reader's own; its columns are id and embedding
FIRST_ROW = f"(SELECT embedding FROM {PASTED_TABLE} LIMIT 1)"  # a vector that is there, in place of $1


def write_build(
    required: RequiredExtension, column: Column, index: Index, settings: Mapping[str, Any]
) -> str:
    """Return the statements that build an index with these settings; "" where it takes more than them."""
    if not index.is_whole:
        return ""
    lines = [f"-- for a table {PASTED_TABLE} (id bigint, embedding {column.declared})"]
    if required.library:
        lines.append(f"-- the server starts with shared_preload_libraries = '{required.library}'")
    lines += [f"{statement};" for statement in required.creation()]
    return _dump([*lines, *_set(settings), f"{index.sql('', PASTED_TABLE)};"])


def write_query(statement: QueryStatement, table: str) -> str:
    """Return the settings and the query of a session; "" where the query has more parameters than one."""
    if statement.has_filter:
        return ""
    own = {name: value for name, value in statement.settings.items() if QUERY_SESSION.get(name) != value}
    common = [line for line in _set(statement.settings) if line not in _set(own)]
    return _dump([
        "-- in each session, or for a role: ALTER ROLE name SET ...",
        *_set(own),
        "-- the planner and its plans, as measured",
        *common,
        f"-- {FIRST_ROW} stands for the vector of a query",
        f"{statement.sql.replace(table, PASTED_TABLE).replace('$1', FIRST_ROW)};",
    ])  # fmt: skip


def _dump(statements: Iterable[str]) -> str:
    return json.dumps("\n".join(statements).split("\n"))


def _set(settings: Mapping[str, Any]) -> list[str]:
    known = {name: str(value).replace("'", "''") for name, value in settings.items() if value is not None}
    return [f"SET {name} = '{value}';" for name, value in known.items()]
