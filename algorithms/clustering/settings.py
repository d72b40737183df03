"""What is asked of a clustering, and what comes of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ClusteringError

DEVICES = ("cpu", "faiss", "gpu", "torch", "cupy")
ALGORITHMS = ("lloyd", "hierarchical")


@dataclass(frozen=True)
class Settings:
    """What is asked; the names are VectorChord's where it has the same.

    `lists`: how many lists each level has, the coarsest first. `algorithm` is for one level; with more, lists
    are made by k-means inside each list of the level above. `spherical`: centroids are normalised and
    rows belong to the largest inner product. `unit_rows`: rows are normalised before, as for angular.
    `sampling_factor`: rows sampled for each list of the last level. `iterations`: passes over the sample at
    most. `memory`, `device_memory`: bytes; None: half of what is available, and what the GPU has free.
    """

    lists: list[int]
    spherical: bool = False
    unit_rows: bool = False
    sampling_factor: int = 256
    iterations: int = 10
    algorithm: str = "lloyd"
    device: str = "cpu"
    threads: int | None = None
    memory: int | None = None
    device_memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        lists = self.lists
        whole = isinstance(lists, list) and all(type(n) is int and n > 0 for n in lists)
        if not whole or not lists or lists != sorted(lists):
            raise ClusteringError(
                f"lists is {lists}: give one whole number for each level, ascending, as [50, 8000]"
            )
        least = {
            "sampling_factor": 1, "iterations": 0, "threads": 1, "memory": 1, "device_memory": 1, "seed": 0
        }  # fmt: skip
        for name, smallest in least.items():
            value: Any = getattr(self, name)
            is_left_out = value is None and name in ("threads", "memory", "device_memory")
            if not is_left_out and (type(value) is not int or value < smallest):
                raise ClusteringError(f"{name} is {value!r}: give a whole number from {smallest} on")
        for name, known in (("algorithm", ALGORITHMS), ("device", DEVICES)):
            if getattr(self, name) not in known:
                raise ClusteringError(f"{name} is '{getattr(self, name)}': use one of {', '.join(known)}")


@dataclass(frozen=True)
class Clustering:
    """What came of it.

    `centroids`: (sum(lists), dimension) float32, the coarsest level's first. `sizes`: (lists[-1],) int64,
    rows of the sample in each list of the last level. `inertia`: mean squared distance of a sampled row to
    the centroid of its list; `history`: the same after each pass. `seconds`: with those of interrupted runs.
    `device`: what was used, e.g. "torch cuda:0 NVIDIA H100".
    """

    centroids: np.ndarray
    lists: list[int]
    sizes: np.ndarray
    inertia: float
    history: list[float]
    sample_rows: int
    seconds: float
    device: str
