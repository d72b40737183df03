"""K-means of this project beside faiss's or the CPU's, in alternating rounds, at equal inertia.

    python -m benchmarks.kmeans                              the CPU beside faiss, 512,000 x 96 into 2,000
    python -m benchmarks.kmeans --device gpu                 a GPU beside the CPU, 10,000,000 x 96 into 50,000
    python -m benchmarks.kmeans --device gpu --against none  the GPU alone

Equal inertia: ours makes as many passes as it needs to reach what --passes passes of the other one reach; a
first round, which is not timed, finds out how many. Beside our own CPU it makes the same passes. All rows are
the sample, in memory; they are those of the dataset clustered-ROWS-DIMENSION-euclidean. Inertias are exact
ones, of all rows. For a GPU, one more pass over all rows is compared with plain matrix products of the same
shapes, in the same run.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ann_benchmarks.algorithms.clustering import ClusteringError, Settings, cluster
from ann_benchmarks.algorithms.clustering.cpu import Cpu
from ann_benchmarks.algorithms.clustering.devices import open_device
from ann_benchmarks.algorithms.clustering.gpu import Gpu
from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.data.datasets.generated import Generated, write_generated

_CPU_DEFAULTS = 512_000, 2_000
_GPU_DEFAULTS = 10_000_000, 50_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu", "torch", "cupy", "faiss"))
    parser.add_argument("--against", choices=("faiss", "cpu", "none"), help="faiss for a CPU, cpu for a GPU")
    parser.add_argument("--rows", type=int, help="512,000, for a GPU 10,000,000")
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--lists", type=int, help="2,000, for a GPU 50,000")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    is_gpu = args.device not in ("cpu", "faiss")
    rows, lists = _GPU_DEFAULTS if is_gpu else _CPU_DEFAULTS
    comparison = Comparison(
        clustered(args.rows or rows, args.dimension), args.lists or lists, args.passes, args.device
    )
    try:
        comparison.run(args.against or ("cpu" if is_gpu else "faiss"), args.rounds)
        if is_gpu:
            comparison.share_of_products()
    except ClusteringError as error:
        raise SystemExit(f"error: {error}") from None


def clustered(rows: int, dimension: int) -> np.ndarray:
    """Return the dataset's training rows, (rows, dimension) float32."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clustered.hdf5"
        write_generated(path, Generated("clustered", rows, dimension, "euclidean"))
        with h5py.File(path) as file:
            train: np.ndarray = file["train"][:]
    return train


class Figures(NamedTuple):
    """Of one clustering: seconds, seconds of all cores, and inertia."""

    seconds: float
    cpu: float
    inertia: float


class Comparison:
    """Two ways to cluster the same rows."""

    def __init__(self, rows: np.ndarray, lists: int, passes: int, device: str) -> None:
        self.rows, self.lists, self.passes, self.device = rows, lists, passes, device

    def settings(self, device: str, passes: int, seed: int = 0) -> Settings:
        """What both are asked: all rows are sampled."""
        factor = -(-len(self.rows) // self.lists)
        return Settings(
            [self.lists], device=device, iterations=passes, sampling_factor=factor, seed=seed, memory=2**62
        )

    def timed(self, device: str, passes: int, seed: int) -> tuple["Figures", Any]:
        """Cluster once, and return what came of it, too."""
        began, work = time.perf_counter(), time.process_time()
        found = cluster(self.rows, self.settings(device, passes, seed))
        seconds, work = time.perf_counter() - began, time.process_time() - work
        return Figures(seconds, work, self.inertia(found.centroids)), found

    def inertia(self, centroids: np.ndarray) -> float:
        """Mean squared distance of a row to the nearest centroid."""
        cpu = Cpu(machine.cores())
        exact = cpu.hold(self.rows).run(centroids, False).inertia(centroids)
        cpu.close()
        return exact

    def run(self, against: str, rounds: int) -> None:
        """Let them take turns."""
        passes = self.passes
        if against == "faiss":
            wanted = self.timed(against, self.passes, 0)[0].inertia
            history = cluster(self.rows, self.settings(self.device, self.passes)).history
            passes = next((n for n, inertia in enumerate(history, 1) if inertia <= wanted), len(history))
        ours: list[Figures] = []
        others: list[Figures] = []
        for seed in range(rounds):
            figures, found = self.timed(self.device, passes, seed)
            ours.append(figures)
            if against != "none":
                figures, other = self.timed(against, self.passes, seed)
                others.append(figures)
        count, dimension = self.rows.shape
        print(
            f"{count:,} x {dimension} rows, {self.lists:,} lists, {rounds} rounds: median (least to largest)"
        )
        self.show(found.device, len(found.history), ours)
        if others:
            self.show(other.device, len(other.history), others)
            for what, digits in (("seconds", 3), ("cpu", 3), ("inertia", 4)):
                ratios = [getattr(a, what) / getattr(b, what) for a, b in zip(ours, others, strict=True)]
                print(f"  {what} ours / theirs   {spread(ratios, digits)}")

    @staticmethod
    def show(name: str, passes: int, figures: "list[Figures]") -> None:
        """Print one way's line."""
        seconds, cpu, inertias = zip(*figures, strict=True)
        print(
            f"  {name:32} {passes:2} passes   {spread(seconds)} s   {spread(cpu)} CPU s   "
            f"inertia {spread(inertias, 4)}"
        )

    def share_of_products(self) -> None:
        """Print how fast a pass is beside its matrix products alone."""
        gpu = open_device(self.settings(self.device, 1))
        assert isinstance(gpu, Gpu)
        arrays, (count, dimension) = gpu.arrays, self.rows.shape
        centroids = self.rows[: self.lists].copy()
        held = gpu.hold(self.rows)
        held.run(centroids, False)
        began = time.perf_counter()
        held.run(centroids, False)
        seconds = time.perf_counter() - began
        size = held.batch_rows  # type: ignore[attr-defined]
        batch, table = arrays.send(self.rows[:size]), arrays.send(centroids)
        times = -(-count // size)
        for _ in range(2):
            arrays.wait()
            began = time.perf_counter()
            for _ in range(times):
                arrays.scores(batch, table, None)
            arrays.wait()
            plain = time.perf_counter() - began
        operations = 2 * count * self.lists * dimension
        print(
            f"  a pass {seconds:.2f} s, {operations / seconds / 1e12:.1f} TFLOP/s; its products alone, "
            f"{size:,} rows at a time, {operations / plain / 1e12:.1f} TFLOP/s: {plain / seconds:.0%} of it"
        )


def spread(numbers: Any, digits: int = 2) -> str:
    """Median, least and most."""
    return f"{statistics.median(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


if __name__ == "__main__":
    main()
