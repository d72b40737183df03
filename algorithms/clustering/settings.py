"""What a clustering is to do, what it returns, its exception, and what it may use of the machine."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

DEVICES = ("cpu", "gpu")
ALGORITHMS = ("lloyd", "hierarchical")
FORM = 5  # changes when the same rows and settings give another result


class ClusteringError(RuntimeError):
    """Its text is one line: what is wrong with the rows, the settings or the device, and what to do."""


@dataclass(frozen=True)
class Settings:
    """How to cluster; an argument that VectorChord has too keeps its name.

    `lists`: the number of lists, [LISTS] or [COARSE, LISTS]. `algorithm` applies to one level; with two,
    k-means makes the lists inside each coarse one. `spherical`: centroids are normalised, and a row belongs
    to the centroid with the largest inner product. `unit_rows`: rows are normalised first, as for angular.
    `sampling_factor`: sampled rows for each list. `iterations`: the most passes over the sample. `memory`:
    bytes that the sample may take on the device; None: half of what is available, 60% of a GPU's.
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
    seed: int = 0


@dataclass(frozen=True)
class Clustering:
    """The result.

    `centroids`: (sum(lists), dimension) float32, the coarse ones first. `sizes`: (lists[-1],) int64, the
    number of sampled rows in each list. `inertia`: the mean squared distance of a sampled row to the centroid
    of its list; `history`: the same after each pass. `parts`: the seconds of each part. `device`: what
    computed, e.g. "torch cuda:0 NVIDIA H100".
    """

    centroids: np.ndarray
    sizes: np.ndarray
    inertia: float
    history: list[float]
    sample_rows: int
    seconds: float
    parts: dict[str, float]
    device: str


def memory_bytes() -> int:
    """Memory that processes here may use: the machine's, or less where a container limits it."""
    limits = [psutil.virtual_memory().total]
    for file in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2 and 1 of control groups
        with suppress(OSError, ValueError):  # absent, or "max"
            limits.append(int(Path("/sys/fs/cgroup", file).read_text()))
    return min(limits)


def cores() -> int:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
