"""The query of each engine, made of the plug-in's own: its form, and how many candidates it re-ranks."""

from collections.abc import Sequence

from ..columns import METRICS, Column
from ..forms import Form


def distance_of(form: Form, metric: str, column: Column, rerank: int | None) -> str:
    """The distance that answers are sorted by in the end: the index's own, or with `rerank` the exact one."""
    if rerank is None:
        return form.comparison
    return f"embedding {METRICS[metric].operator} {column.parameter}"


def scattered_sql(table: str, form: Form, count: int, metric: str, column: Column, rerank: int | None) -> str:
    """The `count` nearest rows of one shard with their distances, by which a client merges all shards'."""
    distance = distance_of(form, metric, column, rerank)
    source = table
    if rerank is not None:
        nearest = f"SELECT id, embedding FROM {table} ORDER BY {form.comparison} LIMIT {rerank}"
        source = f"({nearest}) AS candidates"
    return f"SELECT id, {distance} AS distance FROM {source} ORDER BY {distance} LIMIT {count}"


def concurrent_sql(
    tables: Sequence[str], form: Form, count: int, metric: str, column: Column, rerank: int | None
) -> str:
    """The `count` nearest rows of all foreign tables, which are asked at the same time.

    Without MATERIALIZED, PostgreSQL would merge the answers in their order, and ask one table after the
    other. The distance is among the columns of each part, or else these would not be asked together.
    """
    limit = count if rerank is None else rerank
    columns = "id" if rerank is None else "id, embedding"
    parts = " UNION ALL ".join(
        f"(SELECT {columns}, {form.comparison} AS distance FROM {table}"
        f" ORDER BY {form.comparison} LIMIT {limit})"
        for table in tables
    )
    order = "distance" if rerank is None else distance_of(form, metric, column, rerank)
    return f"WITH nearest AS MATERIALIZED ({parts}) SELECT id FROM nearest ORDER BY {order} LIMIT {count}"
