"""Exact neighbours by this project, faiss-cpu and scikit-learn, and this machine's float32 matrix product.

    python -m benchmarks.ground_truth [--shapes 1000000x96 200000x768] [--queries 1000] [--k 100] [--rounds 3]

The ways take turns within one run, each with all cores. To compare with them it needs faiss-cpu and
scikit-learn: pip install faiss-cpu scikit-learn. Rows are normally distributed, in random order, float32.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ann_benchmarks.data.ground_truth import exact_neighbors
from benchmarks.harness import arguments, cost_of, in_turn, ratios, spread

_SQUARE = 4096  # rows and columns of the product that says what the machine can do
_OURS, _PRODUCT = "ann_benchmarks", "matrix product"


def main() -> None:
    metrics = {"default": "euclidean", "choices": ["euclidean", "ip"]}
    args = arguments(
        __doc__, shapes=["1000000x96", "200000x768"], queries=1000, k=100, metric=metrics, rounds=3
    )
    for shape in args.shapes:
        rows, dimension = map(int, shape.split("x"))
        rng = np.random.default_rng(1)
        train = rng.standard_normal((rows, dimension), dtype=np.float32)
        test = rng.standard_normal((args.queries, dimension), dtype=np.float32)
        title = f"{rows:,} rows x {dimension} dimensions, {args.queries:,} queries, k = {args.k}"
        print(f"{title}, {args.metric}, {args.rounds} rounds")
        compare(train, test, args.k, args.metric, args.rounds)


def compare(train: np.ndarray, test: np.ndarray, k: int, metric: str, rounds: int) -> None:
    """Let all ways find the same neighbours in turns."""
    square = np.random.default_rng(1).random((_SQUARE, _SQUARE), dtype=np.float32)
    searches = {
        _PRODUCT: partial(np.matmul, square, square, out=np.empty_like(square)),
        _OURS: lambda: exact_neighbors(metric, train, test, k, progress=False)[0],
        **other_ways(train, test, k, metric),
    }
    answers: dict[str, Any] = {}

    def timed(way: str, number: int) -> float:
        return cost_of(lambda: answers.update({way: searches[way]()})).wall

    seconds = in_turn({way: partial(timed, way) for way in searches}, rounds)
    peaks = [2 * _SQUARE**3 / each for each in seconds.pop(_PRODUCT)]
    print(f"  float32 matrix product of {_SQUARE} x {_SQUARE}: {median(peaks) / 1e9:.0f} GFLOP/s")
    operations = 2 * train.size * len(test)
    for way, times in seconds.items():
        shares = [operations / own / peak for own, peak in zip(times, peaks, strict=True)]
        pairs = zip(answers[way], answers[_OURS], strict=True)
        same = sum(len(np.intersect1d(own, ours)) for own, ours in pairs) / answers[way].size
        print(
            f"  {way:22} {median(times):7.2f} s   {spread(ratios(times, seconds[_OURS]))} x our time   "
            f"{spread(shares)} of the matrix product   {same:.4%} of our neighbours"
        )


def other_ways(train: np.ndarray, test: np.ndarray, k: int, metric: str) -> dict[str, Callable[[], Any]]:
    """The brute force of others: faiss-cpu's, and scikit-learn's, fitted beforehand."""
    ways: dict[str, Callable[[], Any]] = {}
    try:
        import faiss

        kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
        ways["faiss.knn"] = lambda: faiss.knn(test, train, k, metric=kind)[1]
    except ImportError:
        print("faiss-cpu is not installed: left out")
    if metric != "euclidean":
        print("scikit-learn has no inner product: left out")
        return ways
    try:
        from sklearn.neighbors import NearestNeighbors

        for name in ("euclidean", "sqeuclidean"):
            fitted = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=name, n_jobs=-1).fit(train)
            ways[f"scikit-learn {name}"] = partial(fitted.kneighbors, test, return_distance=False)
    except ImportError:
        print("scikit-learn is not installed: left out")
    return ways


if __name__ == "__main__":
    main()
