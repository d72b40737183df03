"""What a clustering is to do, what it returns, and its exception."""

from dataclasses import dataclass
from typing import Any

import numpy as np

DEVICES = ("cpu", "faiss", "gpu", "torch", "cupy")
ALGORITHMS = ("lloyd", "hierarchical")
_LEAST = {
    "sampling_factor": 1, "iterations": 0, "threads": 1, "memory": 1, "device_memory": 1, "seed": 0
}  # fmt: skip


class ClusteringError(RuntimeError):
    """Its text is one line: what is wrong with the rows, the settings or the device, and what to do."""


@dataclass(frozen=True)
class Settings:
    """How to cluster; an argument that VectorChord has too keeps its name.

    `lists`: the number of lists of each level, the coarsest first. `algorithm` applies to one level; with
    more levels, k-means makes the lists inside each list of the level above. `spherical`: centroids are
    normalised, and a row belongs to the centroid with the largest inner product. `unit_rows`: rows are
    normalised first, as for angular. `sampling_factor`: sampled rows for each list of the last level.
    `iterations`: the most passes over the sample. `memory` and `device_memory` are in bytes. None stands for
    half of the available memory, and for what the GPU has free.
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
        for name, smallest in _LEAST.items():
            value: Any = getattr(self, name)
            is_left_out = value is None and name in ("threads", "memory", "device_memory")
            if not is_left_out and (type(value) is not int or value < smallest):
                raise ClusteringError(f"{name} is {value!r}: give a whole number from {smallest} on")
        for name, known in (("algorithm", ALGORITHMS), ("device", DEVICES)):
            if getattr(self, name) not in known:
                raise ClusteringError(f"{name} is '{getattr(self, name)}': use one of {', '.join(known)}")


@dataclass(frozen=True)
class Clustering:
    """The result.

    `centroids`: (sum(lists), dimension) float32, the coarsest level's first. `sizes`: (lists[-1],) int64, the
    number of sampled rows in each list of the last level. `inertia`: the mean squared distance of a sampled
    row to the centroid of its list; `history`: the same after each pass. `seconds` includes those of
    interrupted runs. `device`: what computed, e.g. "torch cuda:0 NVIDIA H100".
    """

    centroids: np.ndarray
    lists: list[int]
    sizes: np.ndarray
    inertia: float
    history: list[float]
    sample_rows: int
    seconds: float
    device: str
