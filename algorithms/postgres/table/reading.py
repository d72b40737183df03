"""Vectors out of a table that somebody has: read only, streamed into files that datasets are made of."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from ..errors import PostgresError, message_of
from ..servers.progress import progress_bar
from .vector_files import WRITERS

_SHOWN = 4096  # rows between two steps of the progress bar
_LARGE = 8  # times the rows of the sample: from here on, a sample reads a part of the table's pages
_TABLES = "rmp"  # relation kinds that can be sampled by pages
_CASTS = {
    "bigint": ("int2", "int4", "int8"),
    "text": ("text", "varchar", "bpchar", "uuid", "bool"),
    "timestamptz": ("date", "timestamp", "timestamptz"),
    "integer[]": ("_int2", "_int4", "_int8"),
}
_BYTES = 17  # bytea: a value as it comes
_OIDS = {"bigint": 20, "text": 25, "timestamptz": 1184, "integer[]": 1007}
_METRICS = {"l2": "euclidean", "ip": "ip", "cosine": "angular", "hamming": "hamming", "jaccard": "jaccard"}
_INDEXES = """
    SELECT c.relname, am.amname, op.opcname, coalesce(c.reloptions, '{}')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
    JOIN pg_opclass op ON op.oid = i.indclass[0]
    WHERE i.indrelid = %(table)s AND i.indisvalid AND am.amname = ANY(%(methods)s) AND i.indpred IS NULL
      -- the column itself or a cast of it, and no function of it
      AND starts_with(ltrim(pg_get_indexdef(i.indexrelid, 1, false), '('), quote_ident(%(name)s))
      AND EXISTS (SELECT FROM pg_depend d WHERE d.objid = i.indexrelid AND d.classid = 'pg_class'::regclass
        AND d.refobjid = i.indrelid AND d.refobjsubid = %(column)s)
    ORDER BY c.oid
"""
# Of each access method: the plug-in, and its arguments by the options of an index, with their defaults.
_METHODS: Mapping[str, tuple[str, Mapping[str, tuple[str, Any]]]] = {
    "hnsw": ("pgvector_hnsw", {"m": ("M", 16), "ef_construction": ("efConstruction", 64)}),
    "ivfflat": ("pgvector_ivfflat", {"lists": ("lists", 100)}),
    "diskann": (
        "pgvectorscale",
        {
            "num_neighbors": ("num_neighbors", 50),
            "search_list_size": ("search_list_size", 100),
            "max_alpha": ("max_alpha", 1.2),
            "storage_layout": ("storage_layout", None),
            "num_bits_per_dimension": ("num_bits_per_dimension", None),
        },
    ),
    "vchordrq": (
        "vchord",
        {
            "lists": ("lists", []),
            "residual_quantization": ("residual_quantization", False),
            "spherical_centroids": ("spherical_centroids", False),
            "kmeans_algorithm": ("kmeans_algorithm", None),
            "rerank_in_table": ("rerank_in_table", None),
        },
    ),
}


@dataclass(frozen=True)
class FoundIndex:
    """An index of the column as it is: the algorithm that makes such a one, with these build arguments."""

    name: str
    algorithm: str
    arguments: Mapping[str, Any]
    metric: str


@dataclass(frozen=True)
class TableCopy:
    """What was copied: files for vectors and attributes, one row each, and what was left out of them."""

    vectors: Path
    attributes: Path | None
    metric: str  # "" where no index tells
    rows: int
    of_rows: int  # about as many are in the table
    left_out: Mapping[str, int]  # rows by the reason
    indexes: Sequence[FoundIndex]

    def describe(self) -> str:
        """Say on one line what was copied."""
        left = [f"{number:,} {reason}" for reason, number in self.left_out.items() if number]
        return f"copied {self.rows:,} of about {self.of_rows:,} rows" + (
            f"; left out: {', '.join(left)}" if left else ""
        )


@dataclass(frozen=True)
class VectorTable:
    """Where vectors are: a column of a table, or of a view, named as in SQL, with its schema where needed."""

    url: str
    table: str
    column: str
    attributes: Sequence[str] = ()  # further columns
    sample: int | None = None  # about how many rows, drawn at random; None: all
    seed: int = 1
    otherwise: str = ""  # the error, before anything is copied, where nothing tells the metric


def copy_table(source: VectorTable, folder: Path, metric: str = "") -> TableCopy:
    """Copy vectors and attributes into a folder, in one read-only transaction.

    `metric` "" is that of the first index. PostgresError, on one line and without the password, says what the
    server or the table lacks.
    """
    try:
        connection = psycopg.connect(source.url, application_name="ann-benchmarks")
    except psycopg.Error as error:
        raise PostgresError(f"cannot connect to PostgreSQL: {_hide_password(error, source.url)}") from None
    with closing(connection):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        try:
            return _OpenTable(connection, source).copy(folder, metric)
        except psycopg.Error as error:
            raise PostgresError(f"{source.table} cannot be read: {message_of(error)}") from None


def _hide_password(error: psycopg.Error, url: str) -> str:
    """Return libpq's message; none where it may take a piece of the password for something else."""
    rest = url.rpartition("://")[2]
    if isinstance(error, psycopg.ProgrammingError) or "@" in (user := rest.rpartition("@")[0]) or "/" in user:
        return "the URL must be postgresql://USER@HOST/DATABASE; in a password, write %40 for @ and %2F for /"
    return re.sub(r"//[^/@\s\"]*@", "//", " ".join(str(error).split()).replace(url, "the URL"))


class _OpenTable:
    """A table with its columns, as one transaction sees it."""

    def __init__(self, connection: psycopg.Connection[Any], source: VectorTable) -> None:
        self._connection, self._source, self._table = connection, source, source.table
        found = self._row("SELECT to_regclass(%s)::oid", self._table)[0]
        if found is None:
            raise PostgresError(
                f"the server has no table {self._table}: write it as in SQL, such as schema.items"
            )
        self._oid = found
        self._types = {
            name: (number, kind)
            for name, number, kind in connection.execute(
                "SELECT attname, attnum, t.typname"
                " FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid"
                " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                (self._oid,),
            )
        }
        self._number, self._kind = self._known(source.column)
        if self._kind not in WRITERS:
            vectors = [name for name, (_, kind) in self._types.items() if kind in WRITERS]
            more = f"; columns with vectors: {', '.join(vectors)}" if vectors else ""
            where = f"column {source.column} of {self._table}"
            raise PostgresError(f"{where} is of type {self._kind}, which is not read: name a vector{more}")
        self._attributes = [(name, self._cast(name)) for name in source.attributes]

    def _row(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()

    def _known(self, name: str) -> tuple[int, str]:
        if name not in self._types:
            raise PostgresError(f"{self._table} has no column {name}: it has {', '.join(self._types)}")
        return self._types[name]

    def _cast(self, name: str) -> str:
        kind = self._known(name)[1]
        for cast, kinds in _CASTS.items():
            if kind in kinds:
                return cast
        raise PostgresError(
            f"column {name} of {self._table} is of type {kind}: attributes are whole numbers, texts, dates,"
            " timestamps or arrays of whole numbers"
        )

    def copy(self, folder: Path, metric: str) -> TableCopy:
        """Copy its rows; `metric` "" is that of the first index."""
        indexes = list(self._indexes())
        metric = metric or (indexes[0].metric if indexes else "")
        if not metric and self._source.otherwise:
            raise PostgresError(self._source.otherwise)
        rows, pages, kind = self._size()
        query = self._statement(rows, pages if kind in _TABLES else 0)
        writer = WRITERS[self._kind](folder, metric == "angular")
        columns: list[list[Any]] = [[] for _ in self._attributes]
        left_out: Counter[str] = Counter()
        types = [_BYTES, *(_OIDS[cast] for _, cast in self._attributes)]
        bar = progress_bar(min(rows, self._source.sample or rows), f"copying {self._table}")
        with bar, self._connection.cursor() as cursor, cursor.copy(query) as copied:
            copied.set_types(types)
            for number, (value, *others) in enumerate(copied.rows(), 1):
                if number % _SHOWN == 0:
                    bar.update(_SHOWN)
                if value is None:
                    left_out["without a vector"] += 1
                elif None in others:
                    left_out["without an attribute"] += 1
                elif reason := writer.take(value):
                    left_out[reason] += 1
                else:
                    for values, other in zip(columns, others, strict=True):
                        values.append(other)
        taken = writer.close()
        if not taken:
            raise PostgresError(f"{self._table} has no row with a vector in {self._source.column}")
        path = self._write_attributes(folder, columns) if self._attributes else None
        return TableCopy(writer.path, path, metric, taken, rows, left_out, indexes)

    def _write_attributes(self, folder: Path, columns: Sequence[Sequence[Any]]) -> Path:
        import pyarrow as pa  # takes long to import
        import pyarrow.parquet as pq

        arrays = zip(self._source.attributes, map(pa.array, columns), strict=True)
        pq.write_table(pa.table(dict(arrays)), path := folder / "attributes.parquet")
        return path

    def _size(self) -> tuple[int, int, str]:
        """Return about how many rows there are, by those a page at the last ANALYZE, the pages, the kind."""
        kind, rows, pages = self._row(
            "SELECT c.relkind::text, CASE WHEN bool_or(p.relhassubclass OR p.relpages = 0 AND size.pages > 0)"
            " THEN 0 ELSE sum(greatest(p.reltuples, 0) / greatest(p.relpages, 1) * size.pages) END::bigint,"
            " sum(size.pages)::bigint"
            " FROM pg_class c LEFT JOIN pg_partition_tree(c.oid) t ON c.relkind = 'p' AND t.isleaf"
            " JOIN pg_class p ON p.oid = CASE WHEN c.relkind = 'p' THEN t.relid::oid ELSE c.oid END,"
            " LATERAL (SELECT pg_relation_size(p.oid) / current_setting('block_size')::bigint AS pages) size"
            " WHERE c.oid = %s GROUP BY 1",
            self._oid,
        ) or ("p", 0, 0)
        if not rows or kind not in _TABLES:  # it was never analyzed, has tables that inherit, or is a view
            rows = self._row(f"SELECT count(*) FROM {self._name()}")[0]
        return rows, pages, kind

    def _name(self) -> str:
        return str(self._row("SELECT %s::oid::regclass::text", self._oid)[0])

    def _statement(self, rows: int, pages: int) -> sql.Composed:
        """Write the COPY. A small sample of a large table reads about one page a row, not the table.

        Each row is as likely as any other: its page is drawn, then the row, both with the same probability.
        """
        clauses, sample, seed = "", self._source.sample, self._source.seed
        if sample is not None and sample < rows:
            share, page_share = sample / rows, 1.0
            if sample * _LARGE < rows and pages:
                page_share = min(1.0, max(sample / pages, share))
                clauses = f" TABLESAMPLE SYSTEM ({100 * page_share!r}) REPEATABLE ({seed})"
            self._connection.execute("SELECT setseed(%s)", (seed % 1000 / 1000,))
            clauses += f" WHERE random() < {share / page_share!r}"
        columns: list[sql.Composable] = [sql.Identifier(self._source.column)]
        cast = sql.SQL("{}::{}").format
        columns += [cast(sql.Identifier(name), sql.SQL(kind)) for name, kind in self._attributes]
        return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT binary)").format(
            sql.SQL(", ").join(columns), sql.SQL(self._name()), sql.SQL(clauses)
        )

    def _indexes(self) -> Iterator[FoundIndex]:
        """Yield the indexes of the column that a plug-in can build."""
        place = {"table": self._oid, "column": self._number, "name": self._source.column}
        found = self._connection.execute(_INDEXES, {**place, "methods": list(_METHODS)}).fetchall()
        for name, method, operators, options in found:
            form, _, distance = operators.removesuffix("_ops").rpartition("_")
            if distance not in _METRICS:
                continue
            (algorithm, known), given = _METHODS[method], _index_options(options)
            arguments = {argument: given.get(option, usual) for option, (argument, usual) in known.items()}
            arguments = {argument: value for argument, value in arguments.items() if value is not None}
            if form in ("halfvec", "rabitq8", "rabitq4"):
                arguments["form"] = form
            yield FoundIndex(name, algorithm, arguments, _METRICS[distance])


def _index_options(reloptions: Sequence[str]) -> dict[str, Any]:
    """Read an index's options: numbers and words, or the TOML that VectorChord keeps in one of them."""
    found: dict[str, Any] = {}
    for option in reloptions:
        name, _, value = option.partition("=")
        lines = value.splitlines() if name == "options" else [f"{name} = {value}"]
        for line in lines:
            key, is_value, text = (part.strip() for part in line.partition("#")[0].partition("="))
            key, _, kind = key.removeprefix("build.internal.").partition(".")
            if kind:  # such as kmeans_algorithm.hierarchical = {}
                found[key] = kind
            elif is_value:
                try:
                    found[key] = json.loads(text)
                except ValueError:
                    found[key] = text
    lists = found.get("lists")
    if isinstance(lists, list) and len(lists) == 1:
        found["lists"] = lists[0]
    return found
