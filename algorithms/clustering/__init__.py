"""The k-means that computes an index's centroids outside the server. Not an algorithm."""

from .clustering import cluster, open_device
from .settings import ALGORITHMS, DEVICES, Clustering, ClusteringError, Settings
from .state import FORM

__all__ = [
    "ALGORITHMS", "DEVICES", "FORM", "Clustering", "ClusteringError", "Settings", "cluster", "open_device"
]  # fmt: skip
