"""Exact neighbours by this project, faiss-cpu and scikit-learn, and this machine's float32 matrix product.

    python -m benchmarks.ground_truth [--shapes 1000000x96 200000x768] [--queries 1000] [--k 100] [--rounds 3]

The ways take turns within one run, each with all cores. To compare with them it needs faiss-cpu and
scikit-learn: pip install faiss-cpu scikit-learn. Rows are normally distributed, in random order, float32.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ann_benchmarks.data.ground_truth import exact_neighbors

_SQUARE = 4096  # rows and columns of the product that says what the machine can do


def main() -> None:
    """Measure and print one table a shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=["1000000x96", "200000x768"], metavar="ROWSxDIMENSION")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--metric", choices=["euclidean", "ip"], default="euclidean")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for shape in args.shapes:
        rows, dimension = map(int, shape.split("x"))
        compare(rows, dimension, args.queries, args.k, args.metric, args.rounds)


def compare(rows: int, dimension: int, queries: int, k: int, metric: str, rounds: int) -> None:
    """Let all ways find the same neighbours in turns."""
    rng = np.random.default_rng(1)
    train = rng.standard_normal((rows, dimension), dtype=np.float32)
    test = rng.standard_normal((queries, dimension), dtype=np.float32)
    ways: dict[str, Callable[[], Any]] = {
        "ann_benchmarks": lambda: exact_neighbors(metric, train, test, k, progress=False)[0]
    }
    ways |= faiss_ways(train, test, k, metric) | sklearn_ways(train, test, k, metric)
    operations = 2 * rows * dimension * queries
    square = rng.random((_SQUARE, _SQUARE), dtype=np.float32)
    product = np.empty_like(square)
    peaks: list[float] = []
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    answers = {}
    for _ in range(rounds):
        peaks.append(2 * _SQUARE**3 / timed(lambda: np.matmul(square, square, out=product)))
        for way, search in ways.items():
            seconds[way].append(timed(lambda way=way, search=search: answers.update({way: search()})))
    print(f"{rows:,} rows x {dimension} dimensions, {queries:,} queries, k = {k}, {metric}, {rounds} rounds")
    print(f"  float32 matrix product of {_SQUARE} x {_SQUARE}: {statistics.median(peaks) / 1e9:.0f} GFLOP/s")
    for way, times in seconds.items():
        shares = [operations / own / peak for own, peak in zip(times, peaks, strict=True)]
        ratios = [own / ours for own, ours in zip(times, seconds["ann_benchmarks"], strict=True)]
        pairs = zip(answers[way], answers["ann_benchmarks"], strict=True)
        same = sum(len(np.intersect1d(own, ours)) for own, ours in pairs) / answers[way].size
        print(
            f"  {way:22} {statistics.median(times):7.2f} s   {spread(ratios)} x our time   "
            f"{spread(shares)} of the matrix product   {same:.4%} of our neighbours"
        )


def faiss_ways(train: np.ndarray, test: np.ndarray, k: int, metric: str) -> dict[str, Callable[[], Any]]:
    """faiss-cpu's brute force, which has no index to build."""
    try:
        import faiss
    except ImportError:
        print("faiss-cpu is not installed: left out")
        return {}
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return {"faiss.knn": lambda: faiss.knn(test, train, k, metric=kind)[1]}


def sklearn_ways(train: np.ndarray, test: np.ndarray, k: int, metric: str) -> dict[str, Callable[[], Any]]:
    """scikit-learn's brute force, fitted beforehand; it has no inner product."""
    try:
        from sklearn.neighbors import NearestNeighbors
    except ImportError:
        print("scikit-learn is not installed: left out")
        return {}
    if metric != "euclidean":
        print("scikit-learn has no inner product: left out")
        return {}
    ways = {}
    for name in ("euclidean", "sqeuclidean"):
        fitted = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=name, n_jobs=-1).fit(train)
        ways[f"scikit-learn {name}"] = lambda fitted=fitted: fitted.kneighbors(test, return_distance=False)
    return ways


def timed(search: Callable[[], Any]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    search()
    return time.perf_counter() - started


def spread(numbers: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


if __name__ == "__main__":
    main()
