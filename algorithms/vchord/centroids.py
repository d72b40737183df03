"""Centroids that were computed elsewhere, as the table that VectorChord builds an index from.

It has the columns id, parent and vector: every list's centroid, and above them, up to one root that has no
parent, the centroids of the coarser levels. Where no row has a parent, VectorChord makes the root itself.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ..clustering import DEVICES
from ..postgres.encoding import text_vector
from ..postgres.errors import PostgresError

SOURCES = ("internal", "pgpu", *DEVICES)
_BLOCK = 256  # rows that are compared with all coarse centroids at a time


@dataclass(frozen=True)
class Centroids:
    """A table of centroids: how many each level has, the coarsest first, and what identifies them."""

    table: str
    lists: list[int]
    mark: str


class CentroidTree:
    """Centroids of one level or two under a root, each list under the nearest of the coarse ones.

    Without coarse ones there is no root either. A coarse centroid that is the nearest of none is left out:
    VectorChord wants the same height everywhere.
    """

    def __init__(self, vectors: np.ndarray[Any, Any], coarse: int) -> None:
        """Take vectors, (coarse + lists, dimension), the `coarse` ones first; find the parents."""
        self._vectors, self._coarse = vectors, coarse
        self._parents = _nearest(vectors[coarse:], vectors[:coarse]) + 1 if coarse else None
        self._used = set() if self._parents is None else set(self._parents.tolist())

    @property
    def levels(self) -> list[int]:
        """How many each level has, the coarsest first."""
        leaves = len(self._vectors) - self._coarse
        return [len(self._used), leaves] if self._coarse else [leaves]

    def write(self, connection: psycopg.Connection[Any], table: str) -> None:
        """Make the table."""
        dimension = self._vectors.shape[1]
        connection.execute(f"CREATE TABLE {table} (id int4, parent int4, vector vector({dimension}))")
        with connection.cursor().copy(f"COPY {table} (id, parent, vector) FROM STDIN") as copy:
            if self._parents is not None:
                copy.write_row((0, None, text_vector(self._vectors[: self._coarse].mean(axis=0))))
            for number, vector in enumerate(self._vectors, 1):
                if number <= self._coarse and number not in self._used:
                    continue
                parent = None
                if self._parents is not None:
                    parent = 0 if number <= self._coarse else int(self._parents[number - 1 - self._coarse])
                copy.write_row((number, parent, text_vector(vector)))


class CentroidFile:
    """The centroids of an NPY file, shape (count, dimension).

    `lists` of two levels, [a, b]: the first a rows are the coarse ones, the other b those of the lists.
    """

    def __init__(self, path: Path, lists: list[int] | None, dimension: int) -> None:
        """Read it; PostgresError says what is wrong with it."""
        vectors = _read(path, dimension)
        if lists and len(lists) > 2:
            raise PostgresError(
                f"a file of centroids has one level or two, lists: {lists} asks for {len(lists)}"
            )
        coarse = lists[0] if lists and len(lists) == 2 else 0
        if lists and sum(lists) != len(vectors):
            raise PostgresError(
                f"{path} has {len(vectors):,} centroids, lists: {lists} asks for {sum(lists):,}: "
                "leave lists out for one level, or give [coarse, fine] that add up"
            )
        _refuse_equal(path, vectors, coarse)
        self.tree = CentroidTree(vectors, coarse)
        self.mark = hashlib.blake2b(
            vectors.tobytes() + f"{vectors.shape} {coarse}".encode(), digest_size=8
        ).hexdigest()
        self.facts = _made_elsewhere(path)


def centroids_of_table(connection: psycopg.Connection[Any], table: str, dimension: int) -> Centroids:
    """Look at a table that the user made."""
    try:
        levels = connection.execute(
            f"WITH RECURSIVE level (id, depth) AS (SELECT id, 0 FROM {table} WHERE parent IS NULL UNION"
            f" SELECT child.id, depth + 1 FROM {table} AS child JOIN level ON child.parent = level.id"
            "  WHERE child.id <> child.parent)"
            " SELECT count(*) FROM level GROUP BY depth ORDER BY depth"
        ).fetchall()
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(hashtextextended(c::text, 0)::numeric), 0)::text FROM {table} c"
        ).fetchone()
        other = connection.execute(
            f"SELECT id, vector_dims(vector) FROM {table} WHERE vector_dims(vector) <> %s LIMIT 1",
            [dimension],
        ).fetchone()
        orphan = connection.execute(
            f"SELECT id, parent FROM {table} AS child WHERE parent IS NOT NULL"
            f" AND NOT EXISTS (SELECT FROM {table} WHERE id = child.parent) ORDER BY id LIMIT 1"
        ).fetchone()
        equal = connection.execute(
            f"SELECT min(id), max(id) FROM {table} AS leaf"
            f" WHERE NOT EXISTS (SELECT FROM {table} WHERE parent = leaf.id)"
            " GROUP BY vector HAVING min(id) < max(id) LIMIT 1"
        ).fetchone()
    except (psycopg.errors.QueryCanceled, psycopg.OperationalError):
        raise
    except psycopg.errors.Error as error:
        raise PostgresError(
            f"centroids: {table} is neither a source ({', '.join(SOURCES)}), nor an .npy file, nor a table "
            f"with id, parent and vector: {error.diag.message_primary}"
        ) from None
    assert row is not None
    counts, wrong = [count for (count,) in levels], None
    if not counts:
        raise PostgresError(f"centroids: the table {table} has no row without a parent")
    if other:
        wrong = (
            f"the one with id {other[0]} has {other[1]:,} dimensions, the vectors have {dimension:,}: "
            "take centroids of the same vectors"
        )
    elif orphan:
        wrong = f"id {orphan[0]} has the parent {orphan[1]}, which is not there"
    elif sum(counts) < row[0]:
        wrong = f"only {sum(counts):,} of {row[0]:,} rows are under one that has no parent"
    elif equal:
        wrong = f"ids {equal[0]} and {equal[1]} are the same centroid: the list of one of them would be empty"
    if wrong:
        raise PostgresError(f"centroids: in the table {table}, {wrong}")
    return Centroids(table, counts[1:] if counts[0] == 1 else counts, "{}:{}".format(*row))


def let_owner_read(connection: psycopg.Connection[Any], table: str, of: str) -> None:
    """Let the owner of the table `of` read another: as that role VectorChord reads what it builds from."""
    row = connection.execute(
        "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class"
        " WHERE oid = %s::regclass AND pg_get_userbyid(relowner) <> current_user",
        [of],
    ).fetchone()
    if row is not None:
        connection.execute(f"GRANT SELECT ON {table} TO {row[0]}")


def _made_elsewhere(path: Path) -> dict[str, Any]:
    """Return what FILE.json tells of how the file was made, for what is stored of an index."""
    try:
        about = json.loads(path.with_name(f"{path.name}.json").read_text())
        seconds, device = float(about["seconds"]), str(about["device"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # a file may come from anywhere
    return {"centroids_seconds": seconds, "clustering_device": device} if math.isfinite(seconds) else {}


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


def _refuse_equal(path: Path, vectors: np.ndarray[Any, Any], coarse: int) -> None:
    leaves = vectors[coarse:]
    _, group, rows = np.unique(leaves, axis=0, return_inverse=True, return_counts=True)
    if len(rows) < len(leaves):
        first, second, *_ = np.flatnonzero(group.reshape(-1) == np.argmax(rows > 1)) + coarse
        raise PostgresError(
            f"centroids: rows {first} and {second} (from 0) of {path} are the same: "
            "the list of one of them would be empty, leave it out"
        )


def _nearest(vectors: np.ndarray[Any, Any], centres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Number of the nearest centre of each vector."""
    half_squares = (centres**2).sum(axis=1) / 2
    starts = range(0, len(vectors), _BLOCK)
    found = [(vectors[start : start + _BLOCK] @ centres.T - half_squares).argmax(axis=1) for start in starts]
    return np.concatenate(found)
