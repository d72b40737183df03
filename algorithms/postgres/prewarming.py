"""An index and its table brought into memory before the first query."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from tqdm import tqdm

_PIECE_BYTES = 16 << 20
_CACHE_SECONDS = 10.0  # for reading table and indexes, which may be much larger than the memory
_SCHEMA_OF_PREWARM = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_prewarm'"


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
        for part in (relation, *_toast_tables(connection, relation)):
            _warm(connection, part, "read", f"reading {part}", ends)


def _toast_tables(connection: psycopg.Connection[Any], relation: str) -> list[str]:
    """Return the TOAST table of a table, which has what is too long for a page, if this user may name it."""
    rows = connection.execute(
        "SELECT reltoastrelid::regclass::text FROM pg_class"
        " WHERE oid = to_regclass(%s) AND reltoastrelid <> 0 AND has_schema_privilege('pg_toast', 'USAGE')",
        [relation],
    ).fetchall()
    return [name for (name,) in rows]


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
            with connection.transaction(), _bar(size, doing) as bar:
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


def _bar(size: int, doing: str) -> "tqdm[Any]":
    return tqdm(total=size, desc=doing, unit="B", unit_scale=True, disable=None, delay=1, leave=False)
