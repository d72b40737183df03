"""Centroids that are computed while the index is built, from a sample of the training set."""

from collections.abc import Mapping
from typing import Any

from ..clustering import FORM, Clustering, ClusteringError, Settings, cluster, open_device
from ..postgres.arguments import whole_number
from ..postgres.errors import PostgresError
from .centroids import CentroidTree

# VectorChord's arguments that this k-means takes, too, by its own names for them.
ARGUMENTS = {
    "sampling_factor": "sampling_factor",
    "kmeans_iterations": "iterations",
    "kmeans_algorithm": "algorithm",
    "build_threads": "threads",
}
NUMBERS = {"sampling_factor": 1, "kmeans_iterations": 0, "build_threads": 1, "seed": 0}  # and the least


class ComputedCentroids:
    """A clustering that was asked for: refused at once where it cannot be, and computed later."""

    def __init__(
        self, device: str, metric: str, lists: list[int], spherical: bool, arguments: Mapping[str, Any]
    ) -> None:
        """Take `arguments` by VectorChord's names, None where nothing is asked for; try the device."""
        given = {name: arguments[name] for name in (*ARGUMENTS, "seed") if arguments[name] is not None}
        for name, least in NUMBERS.items():
            if name in given:
                whole_number(name, given[name], least)
        asked = {ARGUMENTS.get(name, name): value for name, value in given.items()}
        unit_rows = metric == "angular"  # VectorChord compares directions only, so it clusters them
        self._name = device
        try:
            self._settings = Settings(lists, spherical, unit_rows, device=device, **asked)
            opened = open_device(self._settings)
        except ClusteringError as error:
            raise self._refusal(error) from None
        opened.close()
        by = opened.label.partition(",")[0]  # without the threads, which change nothing
        given.pop("build_threads", None)
        self.mark = f"{by} (form {FORM}) {lists} spherical={spherical} {given}"

    def compute(self, rows: Any) -> tuple[CentroidTree, dict[str, Any]]:
        """Cluster a sample of the rows; return the centroids and facts worth keeping."""
        try:
            found = cluster(rows, self._settings)
        except ClusteringError as error:
            raise self._refusal(error) from None
        coarse = found.lists[0] if len(found.lists) > 1 else 0
        return CentroidTree(found.centroids, coarse), _facts(found)

    def _refusal(self, error: ClusteringError) -> PostgresError:
        return PostgresError(f"centroids: {self._name}: {error}")


def _facts(found: Clustering) -> dict[str, Any]:
    sizes = found.sizes
    return {
        "clustering_time": found.seconds,
        "clustering_device": found.device,
        "clustering_sample": found.sample_rows,
        "clustering_inertia": found.inertia,
        "clustering_passes": len(found.history),
        # 1: all lists as long as each other; 2: a row meets twice as many in its list as it would then.
        "clustering_imbalance": float(len(sizes) * (sizes.astype(float) ** 2).sum() / sizes.sum() ** 2),
    }
