"""K-means of this project compared with that of faiss, or a GPU with the CPU, in turn, at equal inertia.

    python -m benchmarks.kmeans                              the CPU and faiss, 512,000 x 96 into 2,000 lists
    python -m benchmarks.kmeans --device gpu                 a GPU and the CPU, 10,000,000 x 96 into 50,000
    python -m benchmarks.kmeans --device gpu --against none  the GPU alone

Equal inertia: ours makes as many passes as it needs to reach the inertia of --passes passes of faiss. A first
round, which is not timed, finds that number. Against our own CPU it makes the same passes. All rows are the
sample, in memory; they are those of the dataset clustered-ROWS-DIMENSION-euclidean. Inertias are exact and of
all rows. On a GPU, one more pass over all rows is compared with plain matrix products of the same shapes.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from ann_benchmarks.algorithms.clustering.clustering import cluster, open_device
from ann_benchmarks.algorithms.clustering.cpu import Cpu
from ann_benchmarks.algorithms.clustering.gpu import Gpu, GpuRows
from ann_benchmarks.algorithms.clustering.settings import Clustering, ClusteringError, Settings
from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.data.datasets.generated import KINDS, Generated

CPU_DEFAULTS = 512_000, 2_000  # rows, lists
GPU_DEFAULTS = 10_000_000, 50_000


class TimedClustering(NamedTuple):
    """One clustering: its seconds, the CPU seconds of all cores, and the inertia of all rows."""

    seconds: float
    cpu: float
    inertia: float


@dataclass(frozen=True)
class ClusteringWork:
    """Rows, (n, dimension) float32, to cluster into `lists` lists by at most `passes` passes."""

    rows: np.ndarray
    lists: int
    passes: int

    def settings(self, device: str, passes: int, seed: int = 0) -> Settings:
        """Sample all rows, in memory."""
        factor = -(-len(self.rows) // self.lists)
        return Settings(
            [self.lists], device=device, iterations=passes, sampling_factor=factor, seed=seed, memory=2**62
        )

    def time(self, device: str, passes: int, seed: int = 0) -> tuple[TimedClustering, Clustering]:
        """Cluster once."""
        began, work = time.perf_counter(), time.process_time()
        found = cluster(self.rows, self.settings(device, passes, seed))
        seconds, work = time.perf_counter() - began, time.process_time() - work
        cpu = Cpu(machine.cores())
        inertia = cpu.hold(self.rows).run(found.centroids, False).inertia(found.centroids)
        cpu.close()
        return TimedClustering(seconds, work, inertia), found


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
    rows, lists = GPU_DEFAULTS if is_gpu else CPU_DEFAULTS
    dataset = Generated("clustered", args.rows or rows, args.dimension, "euclidean")
    blocks = KINDS[dataset.kind](dataset.rows, dataset.dimension, dataset.queries)
    work = ClusteringWork(np.concatenate([train for train, _ in blocks]), args.lists or lists, args.passes)
    try:
        compare(work, args.device, args.against or ("cpu" if is_gpu else "faiss"), args.rounds)
        if is_gpu:
            print(share_of_products(work, args.device))
    except ClusteringError as error:
        raise SystemExit(f"error: {error}") from None


def compare(work: ClusteringWork, device: str, against: str, rounds: int) -> None:
    """Let both devices take turns, and print their figures and ratios."""
    passes = work.passes
    if against == "faiss":
        target = work.time(against, passes)[0].inertia
        history = work.time(device, passes)[1].history
        passes = next((n for n, inertia in enumerate(history, 1) if inertia <= target), len(history))
    contenders = {device: passes} | ({} if against == "none" else {against: work.passes})
    timed: dict[str, list[TimedClustering]] = {name: [] for name in contenders}
    count, dimension = work.rows.shape
    print(f"{count:,} x {dimension} rows, {work.lists:,} lists, {rounds} rounds: median (least to largest)")
    results = {}
    for seed in range(rounds):
        for name, most in contenders.items():
            figures, results[name] = work.time(name, most, seed)
            timed[name].append(figures)
    for name, found in results.items():
        seconds, cpu, inertias = zip(*timed[name], strict=True)
        print(
            f"  {found.device:32} {len(found.history):2} passes   {spread(seconds)} s   "
            f"{spread(cpu)} CPU s   inertia {spread(inertias, 4)}"
        )
    if against in timed:
        for figure, digits in (("seconds", 3), ("cpu", 3), ("inertia", 4)):
            pairs = zip(timed[device], timed[against], strict=True)
            ratios = [getattr(ours, figure) / getattr(theirs, figure) for ours, theirs in pairs]
            print(f"  {figure} of {device} / {against}   {spread(ratios, digits)}")


def share_of_products(work: ClusteringWork, device: str) -> str:
    """Say how fast a pass is compared with its matrix products alone."""
    gpu = open_device(work.settings(device, 1))
    assert isinstance(gpu, Gpu)
    arrays, (count, dimension) = gpu.arrays, work.rows.shape
    centroids = work.rows[: work.lists].copy()
    held = gpu.hold(work.rows)
    assert isinstance(held, GpuRows)
    for _ in range(2):
        began = time.perf_counter()
        held.run(centroids, False)
        seconds = time.perf_counter() - began
    size = held.batch_rows
    batch, table = arrays.send(work.rows[:size]), arrays.send(centroids)
    for _ in range(2):
        arrays.wait()
        began = time.perf_counter()
        for _ in range(-(-count // size)):
            arrays.scores(batch, table, None)
        arrays.wait()
        plain = time.perf_counter() - began
    operations = 2 * count * work.lists * dimension
    return (
        f"  a pass {seconds:.2f} s, {operations / seconds / 1e12:.1f} TFLOP/s; its products alone, {size:,} "
        f"rows at a time, {operations / plain / 1e12:.1f} TFLOP/s: {plain / seconds:.0%} of its time"
    )


def spread(numbers: Sequence[float], digits: int = 2) -> str:
    """Median (least to largest)."""
    return f"{median(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


if __name__ == "__main__":
    main()
