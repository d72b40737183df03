"""Which plans the queries of a filter set have: in words that tell them apart, and the share of each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

MOST_EXPLAINED = 100  # queries
CUSTOM_FIRST = 5  # executions that PostgreSQL plans anew before it may choose the generic plan
_WITHOUT_A_CHOICE = ("Limit", "Result", "Subquery Scan")
_OF_ATTRIBUTES = ("btree", "gin", "hash", "brin")
_INDEXES = """
    SELECT relname, amname, indpred IS NOT NULL, pg_get_indexdef(indexrelid, 1, true)
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
    WHERE relname = ANY (%s)"""


def explained(queries: Sequence[Any]) -> list[Any]:
    """Return up to 100 of the queries, evenly spaced."""
    count = len(queries)
    taken = min(count, MOST_EXPLAINED)
    return [queries[place * count // taken] for place in range(taken)]


def plan_names(connection: psycopg.Connection[Any], plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each plan: whether it was made for its query's values, and its short form."""
    names = sorted({node["Index Name"] for plan in plans for node in nodes(plan) if "Index Name" in node})
    indexes = {}
    for name, method, is_partial, column in connection.execute(_INDEXES, [names]):
        attribute = f" {column}" if method in _OF_ATTRIBUTES else ""
        indexes[name] = f"{'partial ' if is_partial else ''}{method}{attribute}"
    return [f"{_kind(plan)}: {short_form(plan, indexes)}" for plan in plans]


def rows_removed(plan: Mapping[str, Any]) -> float:
    """Return how many rows the steps of a plan that was run under EXPLAIN ANALYZE have read and removed.

    The server states the mean over the loops of a step.
    """
    return sum(
        float(count) * node.get("Actual Loops", 1)
        for node in nodes(plan)
        for name, count in node.items()
        if name.startswith("Rows Removed by")
    )


def short_form(plan: Mapping[str, Any], indexes: Mapping[str, str]) -> str:
    """Name the steps of a plan, from the last one on, and the indexes by what `indexes` has for their names.

    As PostgreSQL names them: "Index Scan (hnsw)", "Sort over Seq Scan". A step that is there for each of many
    partitions is named once.
    """
    steps = []
    for node in nodes(plan):
        if node["Node Type"] in _WITHOUT_A_CHOICE:
            continue
        parallel = "Parallel " if node.get("Parallel Aware") else ""
        name = node.get("Index Name")
        index = f" ({indexes.get(name, name)})" if name else ""
        steps.append(f"{parallel}{node['Node Type']}{index}")
    return " over ".join(dict.fromkeys(steps))


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the nodes of a plan in JSON, from the top."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def blocks(plan: Mapping[str, Any]) -> int:
    """Return how many blocks a plan that was run under EXPLAIN with BUFFERS has found in memory or read."""
    return int(plan.get("Shared Hit Blocks", 0)) + int(plan.get("Shared Read Blocks", 0))


def _kind(plan: Mapping[str, Any]) -> str:
    """Whether a plan was made for the values of its query: others have parameters in their order.

    Of partitions that are removed as a plan is run, nothing is shown but their number. A plan for the values
    has none of them from the start.
    """
    if any(node.get("Subplans Removed") for node in nodes(plan)):
        return "generic"
    orders = [text for node in nodes(plan) for text in (node.get("Order By", ""), *node.get("Sort Key", ()))]
    return "generic" if any(re.search(r"\$1\b", text) for text in orders) else "custom"
