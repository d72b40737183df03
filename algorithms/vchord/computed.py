"""Centroids that are computed from the vectors while the index is built: by VectorChord, or here."""

from typing import Any

from ..clustering.clustering import cluster
from ..clustering.devices import open_device
from ..clustering.settings import FORM, Clustering, ClusteringError, Settings
from ..postgres.arguments import whole_number
from ..postgres.errors import PostgresError
from ..postgres.servers import Server, machine
from .arguments import CLUSTERING_OPTIONS
from .centroids import CentroidSource, CentroidTree, Connection, Facts, Shape

MOST_THREADS = 255  # the limit of VectorChord
# VectorChord's arguments that our k-means takes as well, with its own names for them.
OWN_NAMES = {
    "sampling_factor": "sampling_factor",
    "kmeans_iterations": "iterations",
    "kmeans_algorithm": "algorithm",
    "build_threads": "threads",
}
LEAST = {"sampling_factor": 1, "kmeans_iterations": 0, "build_threads": 1, "seed": 0}


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
        return _facts(found)

    def _refusal(self, error: ClusteringError) -> PostgresError:
        return PostgresError(f"centroids: {self.arguments.source}: {error}")


def require_levels(lists: list[int], source: str) -> None:
    """Raise PostgresError unless there are one or two levels of lists."""
    if not 1 <= len(lists) <= 2:
        raise PostgresError(
            f"centroids: {source} has one level of lists or two, not {lists}: "
            "give lists, as 300 or [50, 8000]"
        )


def _facts(found: Clustering) -> Facts:
    sizes = found.sizes
    return {
        "clustering_time": found.seconds,
        "clustering_device": found.device,
        "clustering_sample": found.sample_rows,
        "clustering_inertia": found.inertia,
        "clustering_passes": len(found.history),
        # 1: all lists are equally long; 2: a row shares its list with twice as many rows as it would then.
        "clustering_imbalance": float(len(sizes) * (sizes.astype(float) ** 2).sum() / sizes.sum() ** 2),
    }
