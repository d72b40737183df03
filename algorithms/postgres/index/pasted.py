"""The statements that were run, for a table of one's own, as the JSON of their lines.

Results keep them, and reports print them. An attribute of a result has one line.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..servers.extension import RequiredExtension
from ..session.statement import QueryStatement
from ..settings import QUERY_SESSION
from ..table import Column
from .building import Index

BUILD_SETTINGS = ("maintenance_work_mem", "max_parallel_maintenance_workers")  # of an index that was built
TABLE = "items"  # stands for the reader's own; its columns are id and embedding
FIRST_ROW = f"(SELECT embedding FROM {TABLE} LIMIT 1)"  # a vector that is there, in place of $1


def write_build(
    required: RequiredExtension, column: Column, index: Index, settings: Mapping[str, Any]
) -> str:
    """Return the statements that build an index with these settings; "" where it takes more than them."""
    if not index.is_whole:
        return ""
    lines = [f"-- for a table {TABLE} (id bigint, embedding {column.declared})"]
    if required.library:
        lines.append(f"-- the server starts with shared_preload_libraries = '{required.library}'")
    lines += [f"{statement};" for statement in required.creation()]
    return _dump([*lines, *_set(settings), f"{index.sql('', TABLE)};"])


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
        f"{statement.sql.replace(table, TABLE).replace('$1', FIRST_ROW)};",
    ])  # fmt: skip


def _dump(statements: Iterable[str]) -> str:
    return json.dumps("\n".join(statements).split("\n"))


def _set(settings: Mapping[str, Any]) -> list[str]:
    known = {name: str(value).replace("'", "''") for name, value in settings.items() if value is not None}
    return [f"SET {name} = '{value}';" for name, value in known.items()]
