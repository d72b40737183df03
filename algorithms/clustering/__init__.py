"""The k-means that makes an index's centroids outside the server. Not an algorithm."""

from .clustering import cluster
from .devices import open_device
from .errors import ClusteringError
from .settings import ALGORITHMS, DEVICES, Clustering, Settings
from .state import FORM

__all__ = [
    "ALGORITHMS", "DEVICES", "FORM", "Clustering", "ClusteringError", "Settings", "cluster", "open_device"
]  # fmt: skip
