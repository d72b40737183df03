"""What a server's memory holds: filled for one index, taken by others in their turns, and filled again."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from tqdm import tqdm

from ..catalog import relation_bytes
from ..settings import shared_buffers
from . import Server

_PIECE_BYTES = 16 << 20
_CACHE_SECONDS = 10.0  # for reading table and indexes, which may be much larger than the memory
_SCHEMA_OF_PREWARM = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_prewarm'"
_users: dict[Any, tuple[str, ...]] = {}  # what queries use, by the start of their server
_known: set[str] = set()  # tables and indexes that queries of this process have used, on any server


class Warmth:
    """Whether a server's memory was filled with what queries need, and has not lost it since."""

    def __init__(self) -> None:
        self._mark: Any = None  # of the server's start

    def forget(self) -> None:
        """Have it filled again, although the server has not ended."""
        self._mark = None

    def ensure(self, server: Server, fill: Callable[[psycopg.Connection[Any]], None]) -> None:
        """Have `fill` fill it over a connection, unless that was done since the server started."""
        mark = server.start_mark()
        if mark != self._mark:
            with server.connect() as connection:
                fill(connection)
            self._mark = mark


def take_over(server: Server, relations: Sequence[str], where: str = "") -> bool:
    """Have queries use these from now on; return whether they used others before, or none since its start.

    `where` tells the servers that answer the queries from other ones that have the same relations.
    """
    mark, user = server.start_mark(), (*relations, where)
    is_new = _users.get(mark) != user
    _users[mark] = user
    _known.update(relations)
    return is_new


def cache_room(connection: psycopg.Connection[Any], ram: float) -> float:
    """Return the bytes that the system's cache has, of what there is for it and the server's buffers.

    What is in these buffers is mostly in that cache, too: they leave no room for more.
    """
    return ram - shared_buffers(connection)


def is_short(connection: psycopg.Connection[Any], room: float) -> bool:
    """Whether those that take turns on a server may push each other out of `room` bytes of the cache."""
    return sum(relation_bytes(connection, relation) for relation in _known) > room


def fitting_relations(
    connection: psycopg.Connection[Any], table: str, indexes: Sequence[str], room: float
) -> list[str]:
    """Return what of a table and its indexes `room` bytes hold: all of it, the indexes, or nothing.

    Reading what does not fit from one end to the other would push out what queries have brought in.
    """
    for relations in ([table, *indexes], [*indexes]):
        if sum(relation_bytes(connection, relation) for relation in relations) <= room:
            return relations
    return []


def warm_index(connection: psycopg.Connection[Any], index: str) -> str | None:
    """Have pg_prewarm bring an index into the server's buffers, as much as they hold; return how.

    None where the server does not have that extension, or this user may not use it. A lost connection is an
    error.
    """
    return _warm(connection, index, "buffer", "warming the index")


def cache_files(connection: psycopg.Connection[Any], relations: Sequence[str]) -> None:
    """Read a table and its indexes into the system's cache for up to 10 s, and leave the server's buffers.

    Queries look up in the table what they return, and in an index what no prewarming of its own may bring.
    Else the first of them would read that, a random page each.
    """
    ends = time.monotonic() + _CACHE_SECONDS
    for relation in relations:
        # What is too long for a page is in a table beside it (TOAST), which not every user may name.
        parts = connection.execute(
            "SELECT %(name)s UNION ALL SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid ="
            " to_regclass(%(name)s) AND reltoastrelid <> 0 AND has_schema_privilege('pg_toast', 'USAGE')",
            {"name": relation},
        ).fetchall()
        for (part,) in parts:
            _warm(connection, part, "read", f"reading {part}", ends)


def _warm(
    connection: psycopg.Connection[Any], relation: str, mode: str, doing: str, ends: float = math.inf
) -> str | None:
    if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_prewarm'").rowcount == 0:
        return None  # to create it would leave an error in the server's log
    row = connection.execute(
        "SELECT pg_relation_size(%s::regclass), current_setting('block_size')::int", [relation]
    ).fetchone()
    assert row is not None
    size, block_bytes = row
    step, blocks = _PIECE_BYTES // block_bytes, size // block_bytes
    # On a terminal only, and gone when it is done.
    bar = tqdm(total=size, desc=doing, unit="B", unit_scale=True, disable=None, delay=1, leave=False)
    try:
        with connection.transaction(), bar:
            schema = connection.execute(_SCHEMA_OF_PREWARM).fetchone()
            if schema is None:  # a standby has it from its primary, and cannot create it
                connection.execute("CREATE EXTENSION pg_prewarm")
                schema = connection.execute(_SCHEMA_OF_PREWARM).fetchone()
            assert schema is not None
            call = f"SELECT {schema[0]}.pg_prewarm(%s::regclass, %s, 'main', %s, %s)"
            for first in range(0, blocks, step):
                last = min(first + step, blocks) - 1
                connection.execute(call, [relation, mode, first, last])
                bar.update((last + 1 - first) * block_bytes)
                if time.monotonic() > ends:
                    break
        return "pg_prewarm"
    except psycopg.Error:
        if connection.closed:
            raise
        return None
