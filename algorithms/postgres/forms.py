"""What an index holds of each vector: all of it, its values in two bytes, or their signs.

The table always has the vectors as `vector`, so that indexes of every form share it; a form other than that
is an index on an expression. A query is given the whole vector and derives its side of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .errors import PostgresError
from .table import METRICS, Column, VectorColumn


@dataclass(frozen=True)
class Form:
    """One form, for vectors of one dimension; `column` and `query` are the sides of the comparison in SQL."""

    column: str
    query: str
    operator: str
    operator_class: str
    value_bytes: int  # of one value in an index tuple, with its header

    @property
    def comparison(self) -> str:
        """The expression that the index sorts by."""
        return f"{self.column} {self.operator} {self.query}"


def whole_form(metric: str, column: Column) -> Form:
    """The values as they are in the table."""
    operator, suffix = METRICS[metric]
    return Form("embedding", "$1", operator, f"{column.type_name}_{suffix}", column.value_bytes)


def vector_form(metric: str, dimension: int) -> Form:
    """The vectors as they are in a table of `vector`."""
    return whole_form(metric, VectorColumn(dimension))


def cast_form(metric: str, dimension: int, type_name: str, value_bytes: int, convert: str = "{}") -> Form:
    """The vectors as another type; `convert` is the function that makes it, where a cast does not."""
    operator, suffix = METRICS[metric]
    column = f"({convert.format('embedding')}::{type_name}({dimension}))"
    return Form(
        column,
        f"{convert.format('$1::vector')}::{type_name}({dimension})",
        operator,
        f"{type_name}_{suffix}",
        value_bytes,
    )


def halfvec_form(metric: str, dimension: int) -> Form:
    """Two bytes a value ("fp16")."""
    return cast_form(metric, dimension, "halfvec", 8 + 2 * dimension)


def bit_form(distance: str, dimension: int) -> Form:
    """One bit a value, its sign, compared by `distance`: "hamming" or "jaccard"."""
    return Form(
        f"(binary_quantize(embedding)::bit({dimension}))",
        "binary_quantize($1::vector)",
        METRICS[distance].operator,
        f"bit_{distance}_ops",
        8 + -(-dimension // 8),
    )


FormMaker = Callable[[str, int], Form]
FORMS: dict[str, FormMaker] = {
    "vector": vector_form,
    "halfvec": halfvec_form,
    "bit_hamming": lambda _, dimension: bit_form("hamming", dimension),
    "bit_jaccard": lambda _, dimension: bit_form("jaccard", dimension),
}
LARGEST_DIMENSIONS = {
    "vector": 2_000, "halfvec": 4_000, "bit": 64_000, "bit_hamming": 64_000, "bit_jaccard": 64_000,
}  # fmt: skip


def pgvector_form(name: str, metric: str, column: Column, known: tuple[str, ...] = tuple(FORMS)) -> Form:
    """Return the form of that name for an index of pgvector's; PostgresError names the alternatives."""
    if name not in known:
        raise PostgresError(f"form '{name}' is not known: use one of {', '.join(known)}")
    if not isinstance(column, VectorColumn):
        if name != "vector":
            raise PostgresError(
                f"form '{name}' is for vectors of numbers: leave it out for {column.type_name}"
            )
        name, known = column.type_name, ()
    dimension, most = column.dimension, LARGEST_DIMENSIONS[name]
    if dimension > most:
        wider = [f"form: {other} (up to {LARGEST_DIMENSIONS[other]:,})" for other in known
                 if LARGEST_DIMENSIONS[other] >= dimension]  # fmt: skip
        raise PostgresError(
            f"pgvector indexes up to {most:,} dimensions as {name}, these have {dimension:,}: "
            f"use {' or '.join([*wider, 'fewer dimensions'])}"
        )
    return FORMS[name](metric, dimension) if known else whole_form(metric, column)


@dataclass(frozen=True)
class RowSource:
    """Which rows a query is about: a table, with a WHERE or "", and what it returns beside the id, or ""."""

    table: str
    where: str = ""
    beside: str = ""

    def columns(self, *needed: str) -> str:
        """Return the id, the columns that are needed, and the one beside it, each once."""
        return ", ".join(dict.fromkeys(filter(None, ["id", *needed, self.beside])))


def query_sql(
    source: RowSource, form: Form, count: int, metric: str, column: Column, rerank: int | None
) -> str:
    """The query for the `count` nearest rows; `rerank`: candidates to sort by exact distances."""
    rows = f"FROM {source.table}{source.where} ORDER BY {form.comparison}"
    if rerank is None:
        return f"SELECT {source.columns()} {rows} LIMIT {count}"
    candidates = f"SELECT {source.columns('embedding')} {rows} LIMIT {rerank}"
    return (
        f"SELECT {source.columns()} FROM ({candidates}) AS candidates"
        f" ORDER BY embedding {METRICS[metric].operator} {column.parameter} LIMIT {count}"
    )
