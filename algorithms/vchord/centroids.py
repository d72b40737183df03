"""Sources of centroids, those that the user supplies, and the table that VectorChord builds an index from.

The table has the columns id, parent and vector. It holds every list's centroid and, above them, the centroids
of the coarser levels up to one root, which has no parent. If no row has a parent, VectorChord makes the root
itself.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ..clustering.settings import DEVICES
from ..postgres.errors import PostgresError
from ..postgres.servers import Server
from ..postgres.table import VectorColumn
from .arguments import VchordArguments

SOURCES = ("internal", *DEVICES)
TABLE = "centroids_of_this_index"  # stands for a table whose name follows from the index's
Connection = psycopg.Connection[Any]
Facts = dict[str, Any]
Shape = tuple[int, int]  # rows, dimensions
_BLOCK = 256  # rows that are compared with all coarse centroids at a time


class CentroidSource(ABC):
    """Where the centroids of an index come from.

    `lists`: the centroids of each level, the coarsest first; `mark`: what the centroids depend on besides the
    vectors, on one line. Both are known after `prepare`.
    """

    clustering_options: tuple[str, ...] = ("lists",)  # those that it makes use of
    is_computed = True  # from the vectors; otherwise they are given
    lists: list[int]
    mark = ""

    def __init__(self, arguments: VchordArguments) -> None:
        """Refuse arguments that this source makes no use of."""
        self.arguments = arguments
        arguments.require_useful(self.clustering_options)

    @abstractmethod
    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Set `lists` and `mark` for vectors of this shape; PostgresError says why there can be none.

        `lists` are those that the arguments name, without meaning if centroids are given.
        """

    def index_options(self, is_ours: bool) -> dict[str, Any]:
        """Return the options of the index that name the centroids; `is_ours`: the server runs here."""
        return {"build.external.table": TABLE}

    def make_table(self, connection: Connection, table: str, of: str, rows: Any) -> Facts | None:
        """Make the table of centroids for the table `of`, loaded from rows; return facts worth keeping.

        None: no table is to be made.
        """
        return None


class CentroidTree:
    """Centroids of one or two levels, each list under the nearest of the coarse ones.

    Without coarse ones there is no root either. A coarse centroid that is nearest to no list is left out,
    because VectorChord requires the same height everywhere.
    """

    def __init__(self, vectors: np.ndarray[Any, Any], coarse: int) -> None:
        """Take vectors, (coarse + lists, dimension), the `coarse` ones first; find the parents."""
        self._vectors, self._coarse = vectors, coarse
        self._parents = _nearest(vectors[coarse:], vectors[:coarse]) + 1 if coarse else None
        self._used = set() if self._parents is None else set(self._parents.tolist())

    @property
    def levels(self) -> list[int]:
        """The number of centroids on each level, the coarsest first."""
        leaves = len(self._vectors) - self._coarse
        return [len(self._used), leaves] if self._coarse else [leaves]

    def write(self, connection: Connection, table: str) -> None:
        """Make the table."""
        column = VectorColumn(self._vectors.shape[1])
        connection.execute(f"CREATE TABLE {table} (id int4, parent int4, vector {column.declared})")
        with connection.cursor().copy(f"COPY {table} (id, parent, vector) FROM STDIN") as copy:
            if self._parents is not None:
                copy.write_row((0, None, column.literal(self._vectors[: self._coarse].mean(axis=0))))
            for number, vector in enumerate(self._vectors, 1):
                if number <= self._coarse and number not in self._used:
                    continue
                parent = None
                if self._parents is not None:
                    parent = 0 if number <= self._coarse else int(self._parents[number - 1 - self._coarse])
                copy.write_row((number, parent, column.literal(vector)))


def let_owner_read(connection: Connection, table: str, of: str) -> None:
    """Let the owner of the table `of` read `table`: VectorChord reads centroids as that role."""
    row = connection.execute(
        "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class"
        " WHERE oid = %s::regclass AND pg_get_userbyid(relowner) <> current_user",
        [of],
    ).fetchone()
    if row is not None:
        connection.execute(f"GRANT SELECT ON {table} TO {row[0]}")


def _nearest(vectors: np.ndarray[Any, Any], centres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Number of the nearest centre of each vector."""
    half_squares = (centres**2).sum(axis=1) / 2
    starts = range(0, len(vectors), _BLOCK)
    found = [(vectors[start : start + _BLOCK] @ centres.T - half_squares).argmax(axis=1) for start in starts]
    return np.concatenate(found)


class FileCentroids(CentroidSource):
    """The centroids of an NPY file, shape (count, dimension).

    With `lists` of two levels, [a, b], the first a rows are the coarse ones, and the other b are the lists'.
    """

    is_computed = False

    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Read the file; PostgresError says what is wrong with it."""
        path = Path(self.arguments.source)
        given = [] if self.arguments["lists"] == "auto" else self.arguments.lists(shape[0])
        vectors = _read(path, shape[1])
        if len(given) > 2:
            raise PostgresError(
                f"a file of centroids has one level or two, lists: {given} has {len(given)}: give fewer"
            )
        coarse = given[0] if len(given) == 2 else 0
        if given and sum(given) != len(vectors):
            raise PostgresError(
                f"{path} has {len(vectors):,} centroids, lists: {given} needs {sum(given):,}: "
                "leave lists out for one level, or give [coarse, fine] that add up"
            )
        _refuse_equal(path, vectors, coarse)
        self._tree = CentroidTree(vectors, coarse)
        self._facts = _facts_of_file(path)
        self.lists = self._tree.levels
        contents = vectors.tobytes() + f"{vectors.shape} {coarse}".encode()
        self.mark = hashlib.blake2b(contents, digest_size=8).hexdigest()

    def make_table(self, connection: Connection, table: str, of: str, rows: Any) -> Facts:
        """Write what the file has."""
        self._tree.write(connection, table)
        return self._facts


def _facts_of_file(path: Path) -> Facts:
    """Return what FILE.json states about how the file was made, to be stored with the index."""
    try:
        about = json.loads(path.with_name(f"{path.name}.json").read_text())
        seconds, device = float(about["seconds"]), str(about["device"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # a file may come from anywhere
    return {"centroids_seconds": seconds, "clustering_device": device} if math.isfinite(seconds) else {}


def _read(path: Path, dimension: int) -> np.ndarray[Any, Any]:
    try:
        if path.exists() and not path.is_file():  # to open a pipe would wait for a writer
            raise ValueError("it must be a regular file")
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
