"""A query as every session runs it: its SQL, its settings, its plan and the index that this has to use."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import psycopg

from ..errors import PostgresError, refusal
from ..table import Column
from ..table.conditions import WhereClause

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


LOAD_VECTOR = "SELECT '[1]'::vector"
# The value does not matter: for any property, PostgreSQL calls the access method's handler and so loads its
# library, whatever the name of the file. Every user may call it, while LOAD takes a superuser.
_LOAD_ACCESS_METHODS = """
    SELECT pg_indexam_has_property(pg_am.oid, 'can_order')
    FROM pg_am
    JOIN pg_depend ON objid = pg_am.oid AND classid = 'pg_am'::regclass
    JOIN pg_extension ON pg_extension.oid = refobjid AND refclassid = 'pg_extension'::regclass
    WHERE deptype = 'e' AND amtype = 'i' AND extname = ANY(%s)"""

_FRACTION = re.compile(r"\s*[+-]?([0-9]*\.[0-9]*[1-9][0-9]*|[0-9.]+e-[0-9]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class QueryStatement:
    """All that it takes to send a query to a server, also from another process."""

    parameters: Mapping[str, Any]  # of libpq
    sql: str  # in which $1 is a query's vector, and $2 and further ones are the values of its filter
    column: Column  # the type of the query's vector
    example: str  # a query's vector as a literal, to look at the plan
    settings: Mapping[str, str]  # of the session
    index: str | None  # the plan must use it; None: the plan must use no index
    extensions: tuple[str, ...] = ()  # their libraries define settings, besides pgvector's
    conditions: WhereClause | None = None  # of a filter: whichever plan the server chooses is a result
    example_values: tuple[str, ...] = ()  # of the filter, beside the vector
    has_payload: bool = False  # a column beside the id
    count: int = 0  # rows of an answer at most; 0: any number

    @property
    def has_filter(self) -> bool:
        """Whether queries compare attributes."""
        return self.conditions is not None and bool(self.conditions.conditions)

    @property
    def formats(self) -> tuple[int, ...]:
        """The format of each parameter: binary."""
        return (1,) * (1 + (len(self.conditions.conditions) if self.conditions else 0))

    def session_class(self) -> type[Any] | None:
        """Return the class of its sessions where it is not QuerySession."""
        return None

    def split_for_clients(self, clients: int) -> Sequence["QueryStatement"]:
        """Return what each client sends: all the same."""
        return [self] * clients

    def place_of_client(self, client: int) -> str:
        """Say for an error which server a client, from 0 on, asks, where not all ask the same."""
        return ""

    def facts_of_clients(self, sent: Sequence[int]) -> dict[str, Any]:
        """Return what is stored of a run in which the clients have sent this many queries each."""
        return {}

    def check(self, connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> None:
        """Raise PostgresError where a session that has prepared it would not run what is measured."""
        if not self.has_filter:
            check_plan(plan, self.index)

    def check_rows(self, most: int) -> None:
        """Raise PostgresError where an answer has more rows than were requested."""
        if most > self.count > 0:
            raise PostgresError(f"an answer has {most} rows, and {self.count} were requested")

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return an error of the query, with the server that it is due to where there are several."""
        return error

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        """Have the other sessions that a session of it has begun flush their statistics, if any."""

    def encoder(self) -> Callable[[Any], tuple[Any, ...]]:
        """Return what makes a query its binary parameters, valid until the next call."""
        encode = self.column.parameter_encoder()
        if self.conditions is None:
            return lambda query: (encode(query),)
        return self.conditions.encoder(encode)


def changed(statement: QueryStatement, kind: type[Any], **changes: Any) -> Any:
    """Return a statement of this kind with the same fields but for the changes."""
    return kind(**{field.name: getattr(statement, field.name) for field in fields(QueryStatement)} | changes)


def load_libraries(connection: psycopg.Connection[Any], extensions: Iterable[str]) -> None:
    """Load pgvector's library and those of the extensions' access methods: these define their settings.

    Before that, the server takes any value for a setting such as hnsw.ef_search and does not list it.
    """
    connection.execute(LOAD_VECTOR)
    try:
        connection.execute(_LOAD_ACCESS_METHODS, [list(extensions)])
    except psycopg.DatabaseError as error:
        if error.sqlstate is None:
            raise  # the connection is lost
        raise refusal("the server cannot load the extension's library", error) from None


def set_and_check(
    connection: psycopg.Connection[Any], settings: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Apply settings to the session; return those that it did not have yet, each with the old and new value.

    Raises PostgresError for a setting that the server does not have, or a value that it refuses.
    """
    changed = {}
    for name, value in settings.items():
        try:
            row = connection.execute(
                "SELECT current_setting(%s, true), set_config(%s, %s, false),"
                " (SELECT vartype FROM pg_settings WHERE name = %s)",
                [name, name, value, name],
            ).fetchone()
        except psycopg.Error as error:
            raise refusal(f"the server refuses {name} = {value}", error) from None
        assert row is not None
        before, after, kind = row
        if kind is None:
            raise PostgresError(f"the server has no setting {name}: is the extension's library loaded?")
        if kind == "integer" and _FRACTION.fullmatch(value):
            raise PostgresError(f"{name} is {value}, which the server would round: give a whole number")
        if before != after:
            changed[name] = (before, after)
    return changed


def check_plan(plan: Mapping[str, Any], index: str | None, query: str = "the query") -> None:
    """Make sure that a plan uses this index, or none: results are attributed to it."""
    used = index_of_plan(plan)
    if used != index:
        expected = f"use the index {index}" if index else "scan the whole table"
        instead = f"uses {used}" if used else "scans the whole table"
        raise PostgresError(f"{query} does not {expected} but {instead}")


def index_of_plan(plan: Mapping[str, Any]) -> str | None:
    """Return the index, with its schema, that a plan in JSON scans in order; None if it scans none.

    A bitmap scan does not count: it forgets the order that the index gives. Nor does a scan without an order.
    """
    if plan["Node Type"] in ("Index Scan", "Index Only Scan") and "Order By" in plan:
        schema = plan.get("Schema")
        return f"{schema}.{plan['Index Name']}" if schema else str(plan["Index Name"])
    for child in plan.get("Plans", []):
        found = index_of_plan(child)
        if found:
            return found
    return None
