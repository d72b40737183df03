"""What a server's memory holds: filled for one index, taken by others in their turns, and filled again."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
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
        """It was not."""
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

    What is in these buffers is mostly in that cache, too, so that they are no room for more.
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
    """Read a whole index, by its name with the schema; return how, None where this user may not.

    "pg_prewarm" brings it into the server's buffers, as much as they hold; "read" has the server read its
    files, which brings it into the system's cache. A lost connection is an error.
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
    row = connection.execute(
        "SELECT pg_relation_size(i), pg_relation_filepath(i), current_setting('block_size')::int,"
        " (SELECT setting::bigint * current_setting('block_size')::int FROM pg_settings"
        " WHERE name = 'segment_size') FROM (SELECT %s::regclass AS i) AS named",
        [relation],
    ).fetchone()
    assert row is not None
    size, path, block_bytes, segment_bytes = row
    ways: dict[str, Callable[[], Iterator[int]]] = {
        "pg_prewarm": lambda: _prewarmed(connection, relation, mode, size, block_bytes),
        "read": lambda: _read(connection, path, size, segment_bytes),
    }
    offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_prewarm'")
    if offered.rowcount == 0:
        del ways["pg_prewarm"]  # an error would remain in the server's log
    for name, way in ways.items():
        try:
            # On a terminal only, and gone when it is done.
            bar = tqdm(total=size, desc=doing, unit="B", unit_scale=True, disable=None, delay=1, leave=False)
            with connection.transaction(), bar:
                for count in way():
                    bar.update(count)
                    if time.monotonic() > ends:
                        break
            return name
        except psycopg.Error:
            if connection.closed:
                raise
    return None


def _prewarmed(
    connection: psycopg.Connection[Any], relation: str, mode: str, size: int, block_bytes: int
) -> Iterator[int]:
    row = connection.execute(_SCHEMA_OF_PREWARM).fetchone()
    if row is None:  # a standby has it from its primary, and cannot create it
        connection.execute("CREATE EXTENSION pg_prewarm")
        row = connection.execute(_SCHEMA_OF_PREWARM).fetchone()
    assert row is not None
    step, blocks = _PIECE_BYTES // block_bytes, size // block_bytes
    for first in range(0, blocks, step):
        last = min(first + step, blocks) - 1
        connection.execute(
            f"SELECT {row[0]}.pg_prewarm(%s::regclass, %s, 'main', %s, %s)", [relation, mode, first, last]
        )
        yield (last + 1 - first) * block_bytes


def _read(connection: psycopg.Connection[Any], path: str, size: int, segment_bytes: int) -> Iterator[int]:
    for file, offset, length in file_pieces(path, size, segment_bytes):
        row = connection.execute(
            "SELECT octet_length(pg_read_binary_file(%s, %s, %s, true))", [file, offset, length]
        ).fetchone()
        assert row is not None
        yield row[0] or 0


def file_pieces(path: str, size: int, segment_bytes: int) -> Iterator[tuple[str, int, int]]:
    """Split the files of a relation into pieces of 16 MB: file, offset, length.

    PostgreSQL keeps a relation in segments, the second and further ones numbered: 16384, 16384.1, 16384.2.
    """
    for start in range(0, size, segment_bytes):
        number = start // segment_bytes
        length = min(segment_bytes, size - start)
        for offset in range(0, length, _PIECE_BYTES):
            yield f"{path}.{number}" if number else path, offset, min(_PIECE_BYTES, length - offset)
