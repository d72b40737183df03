"""Sources of centroids, and the table that VectorChord builds an index from.

The table has the columns id, parent and vector. It holds every list's centroid and, above them, the centroids
of the coarser levels up to one root, which has no parent. If no row has a parent, VectorChord makes the root
itself.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import psycopg

from ..clustering.clustering import cluster
from ..clustering.devices import open_device
from ..clustering.settings import DEVICES, FORM, Clustering, ClusteringError, Settings
from ..postgres.arguments import whole_number
from ..postgres.errors import PostgresError
from ..postgres.servers import Server, machine
from ..postgres.table import VectorColumn
from .arguments import CLUSTERING_OPTIONS, VchordArguments

SOURCES = ("internal", *DEVICES)
TABLE = "centroids_of_this_index"  # stands for a table whose name follows from the index's
Connection = psycopg.Connection[Any]
Facts = dict[str, Any]
Shape = tuple[int, int]  # rows, dimensions
_BLOCK = 256  # rows that are compared with all coarse centroids at a time
MOST_THREADS = 255  # the limit of VectorChord
# VectorChord's arguments that our k-means takes as well, with its own names for them.
OWN_NAMES = {
    "sampling_factor": "sampling_factor",
    "kmeans_iterations": "iterations",
    "kmeans_algorithm": "algorithm",
    "build_threads": "threads",
}
LEAST = {"sampling_factor": 1, "kmeans_iterations": 0, "build_threads": 1, "seed": 0}


class CentroidSource(ABC):
    """Where the centroids of an index come from.

    `lists`: the centroids of each level, the coarsest first; `mark`: what the centroids depend on besides the
    vectors, on one line. Both are known after `prepare`.
    """

    clustering_options: tuple[str, ...] = ("lists",)  # those that it makes use of
    lists: list[int]
    mark = ""

    def __init__(self, arguments: VchordArguments) -> None:
        """Refuse arguments that this source makes no use of."""
        self.arguments = arguments
        arguments.require_useful(self.clustering_options)

    @abstractmethod
    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Set `lists` and `mark` for vectors of this shape; PostgresError says why there can be none."""

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


class InternalCentroids(CentroidSource):
    """VectorChord computes them in CREATE INDEX, on any number of levels."""

    clustering_options = tuple(CLUSTERING_OPTIONS)

    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Accept all lists."""
        self.lists = lists

    def index_options(self, is_ours: bool) -> dict[str, Any]:
        """Return the options of the clustering; it uses all cores on a server that runs here."""
        clustering = {name: self.arguments[name] for name in CLUSTERING_OPTIONS}
        clustering |= {"lists": self.lists, "spherical_centroids": self.arguments.is_spherical}
        if clustering["build_threads"] is None and is_ours:
            clustering["build_threads"] = min(machine.cores(), MOST_THREADS)
        algorithm = clustering.pop("kmeans_algorithm")
        options: dict[str, Any] = {f"build.internal.{name}": value for name, value in clustering.items()}
        if algorithm:
            options[f"build.internal.kmeans_algorithm.{algorithm}"] = {}
        return options


class ComputedCentroids(CentroidSource):
    """Our k-means computes them on the device that `centroids` names, from a sample of the rows."""

    clustering_options = ("lists", "spherical_centroids", *OWN_NAMES)

    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Check the arguments, and that the device is there."""
        require_levels(lists, self.arguments.source)
        self.lists = lists
        names = (*OWN_NAMES, "seed")
        given = {name: self.arguments[name] for name in names if self.arguments[name] is not None}
        for name, least in LEAST.items():
            if name in given:
                whole_number(name, given[name], least)
        settings = {OWN_NAMES.get(name, name): value for name, value in given.items()}
        spherical = self.arguments.is_spherical
        unit_rows = self.arguments.metric == "angular"  # VectorChord compares and clusters directions only
        try:
            self._settings = Settings(lists, spherical, unit_rows, device=self.arguments.source, **settings)
            device = open_device(self._settings)
        except ClusteringError as error:
            raise self._refusal(error) from None
        device.close()
        label = device.label.partition(",")[0]  # without the threads, which change nothing
        given.pop("build_threads", None)
        self.mark = f"{label} (form {FORM}) {lists} spherical={spherical} {given}"

    def make_table(self, connection: Connection, table: str, of: str, rows: Any) -> Facts:
        """Cluster a sample of the rows."""
        try:
            found = cluster(rows, self._settings)
        except ClusteringError as error:
            raise self._refusal(error) from None
        coarse = self.lists[0] if len(self.lists) > 1 else 0
        CentroidTree(found.centroids, coarse).write(connection, table)
        return clustering_facts(found)

    def _refusal(self, error: ClusteringError) -> PostgresError:
        return PostgresError(f"centroids: {self.arguments.source}: {error}")


def require_levels(lists: list[int], source: str) -> None:
    """Raise PostgresError unless there are one or two levels of lists."""
    if not 1 <= len(lists) <= 2:
        raise PostgresError(
            f"centroids: {source} has one level of lists or two, not {lists}: "
            "give lists, as 300 or [50, 8000]"
        )


def clustering_facts(found: Clustering) -> Facts:
    """Return what is stored of a clustering."""
    sizes = found.sizes
    return {
        "clustering_time": found.seconds,
        "clustering_device": found.device,
        "clustering_sample": found.sample_rows,
        "clustering_inertia": found.inertia,
        # 1: all lists are equally long; 2: a row shares its list with twice as many rows as it would then.
        "clustering_imbalance": float(len(sizes) * (sizes.astype(float) ** 2).sum() / sizes.sum() ** 2),
    }
