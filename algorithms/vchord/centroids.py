"""Centroids that were computed elsewhere, as the table that VectorChord builds an index from.

It has the columns id, parent and vector: every list's centroid, and above them, up to one root that has no
parent, the centroids of the coarser levels. Where no row has a parent, VectorChord makes the root itself.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ..postgres.catalog import SCHEMA
from ..postgres.encoding import text_vector
from ..postgres.errors import PostgresError

_BLOCK = 256  # rows that are compared with all coarse centroids at a time


@dataclass(frozen=True)
class Centroids:
    """A table of centroids: how many each level has, the coarsest first, and what identifies them."""

    table: str
    lists: list[int]
    mark: str


def centroids_of_file(
    connection: psycopg.Connection[Any], path: Path, lists: list[int] | None, dimension: int
) -> Centroids:
    """Put the centroids of an NPY file, shape (count, dimension), into a table, unless they are there.

    `lists` of two levels, [a, b]: the first a rows are the coarse ones, the other b those of the lists, each
    of which belongs to the nearest coarse one by Euclidean distance.
    """
    vectors = _read(path, dimension)
    if lists and len(lists) > 2:
        raise PostgresError(f"a file of centroids has one level or two, lists: {lists} asks for {len(lists)}")
    coarse = lists[0] if lists and len(lists) == 2 else 0
    if lists and sum(lists) != len(vectors):
        raise PostgresError(
            f"{path} has {len(vectors):,} centroids, lists: {lists} asks for {sum(lists):,}: "
            "leave lists out for one level, or give [coarse, fine] that add up"
        )
    mark = hashlib.blake2b(
        vectors.tobytes() + f"{vectors.shape} {coarse}".encode(), digest_size=8
    ).hexdigest()
    table = f"{SCHEMA}.centroids_{mark}"
    parents = _nearest(vectors[coarse:], vectors[:coarse]) + 1 if coarse else None
    used = np.unique(parents) if parents is not None else np.arange(0)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [table])
        there = connection.execute("SELECT FROM pg_class WHERE oid = to_regclass(%s)", [table])
        if there.rowcount == 0:
            connection.execute(f"CREATE TABLE {table} (id int4, parent int4, vector vector({dimension}))")
            with connection.cursor().copy(f"COPY {table} (id, parent, vector) FROM STDIN") as copy:
                if parents is not None:
                    copy.write_row((0, None, text_vector(vectors[:coarse].mean(axis=0))))
                for number, vector in enumerate(vectors, 1):
                    if number <= coarse and number not in used:
                        continue  # VectorChord wants the same height everywhere
                    parent = None
                    if parents is not None:
                        parent = 0 if number <= coarse else int(parents[number - 1 - coarse])
                    copy.write_row((number, parent, text_vector(vector)))
    levels = [len(used), len(vectors) - coarse] if coarse else [len(vectors)]
    return Centroids(table, levels, mark)


def centroids_of_table(connection: psycopg.Connection[Any], table: str) -> Centroids:
    """Look at a table that the user made."""
    try:
        levels = connection.execute(
            f"WITH RECURSIVE level (id, depth) AS (SELECT id, 0 FROM {table} WHERE parent IS NULL UNION ALL"
            f" SELECT child.id, depth + 1 FROM {table} AS child JOIN level ON child.parent = level.id)"
            " SELECT count(*) FROM level GROUP BY depth ORDER BY depth"
        ).fetchall()
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(hashtextextended(c::text, 0)::numeric), 0)::text FROM {table} c"
        ).fetchone()
    except psycopg.errors.Error as error:
        raise PostgresError(
            f"centroids: {table} is neither a file nor a table with id, parent and vector: "
            f"{error.diag.message_primary}"
        ) from None
    assert row is not None
    counts = [count for (count,) in levels]
    if not counts:
        raise PostgresError(f"centroids: the table {table} has no row without a parent")
    return Centroids(table, counts[1:] if counts[0] == 1 else counts, "{}:{}".format(*row))


def _read(path: Path, dimension: int) -> np.ndarray[Any, Any]:
    try:
        vectors = np.load(path)
        if not isinstance(vectors, np.ndarray) or vectors.dtype.kind not in "fiu":
            raise ValueError("it holds no array of numbers")
    except (OSError, ValueError, EOFError) as error:
        raise PostgresError(f"centroids: {path} cannot be read as an NPY file: {error}") from None
    if vectors.ndim != 2 or vectors.shape[1] != dimension or not len(vectors):
        raise PostgresError(f"centroids: {path} has the shape {vectors.shape}, expected (count, {dimension})")
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if not np.isfinite(vectors).all():
        row = int(np.argwhere(~np.isfinite(vectors))[0][0])
        raise PostgresError(f"centroids: row {row} (from 0) of {path} has a value that is not finite")
    return vectors


def _nearest(vectors: np.ndarray[Any, Any], centres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Number of the nearest centre of each vector."""
    half_squares = (centres**2).sum(axis=1) / 2
    starts = range(0, len(vectors), _BLOCK)
    found = [(vectors[start : start + _BLOCK] @ centres.T - half_squares).argmax(axis=1) for start in starts]
    return np.concatenate(found)
