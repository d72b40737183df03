"""Result files in quantity, as run.py writes them, of measurements that nobody made."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.host import host_facts
from ann_benchmarks.results.file import truth_mark, write_result

DATASET = "made-up-euclidean"
COUNT = 10
STORED = 100  # true neighbours of a query, as in the datasets of ann-benchmarks
ROWS, DIMENSION = 1_000_000, 96  # of the data that is described; there are no vectors
SERIES = [
    f"{algorithm}-c{clients}" for algorithm in ("hnsw", "hnsw_halfvec", "ivfflat", "vchord", "vchord_rabitq8")
    for clients in (1, 4, 16, 32)
]  # fmt: skip
LATENCIES = ("p50", "p95", "p99", "p999")


def make_results(folder: Path, files: int, queries: int, seed: int = 1) -> None:
    """Write data/DATASET.hdf5 and results/ into a folder; recall rises along a series."""
    rng = np.random.default_rng(seed)
    truth = make_dataset(folder, queries, rng)
    mark = truth_mark(truth[:, :COUNT])
    settings = json.dumps({f"setting_{i}": f"{2**i}MB" for i in range(30)})
    points = -(-files // len(SERIES))
    for number in range(files):
        series, point = SERIES[number % len(SERIES)], number // len(SERIES)
        recall = 0.5 + 0.4999 * (point + rng.random()) / points
        times = rng.lognormal(np.log(1e-3 / (1.001 - recall) ** 0.3), 0.3, queries)
        rows, distances = found(truth, recall, rng)
        path = folder / "results" / DATASET / str(COUNT) / series / f"euclidean_M_16_ef_{point}.hdf5"
        attrs = attributes(series, point, times) | {"truth": mark, "settings": settings}
        more = {
            "latency_histogram": np.ones(300, int),
            "latency_histogram_edges": np.geomspace(1e-6, 1, 301),
        }
        write_result(path, attrs, times, rows, distances, more)


def make_dataset(folder: Path, queries: int, rng: np.random.Generator) -> np.ndarray:
    """Write the true neighbours, and almost no vectors; return their distances, (queries, STORED)."""
    distances = np.sort(rng.gamma(20, 0.05, (queries, STORED)).astype(np.float32), axis=1)
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data" / f"{DATASET}.hdf5", "w") as file:
        file.attrs.update(distance="euclidean", dimension=DIMENSION, point_type="float", type="dense")
        file["train"] = rng.random((STORED, DIMENSION), dtype=np.float32)
        file["test"] = rng.random((queries, DIMENSION), dtype=np.float32)
        file["neighbors"] = rng.integers(0, ROWS, distances.shape, dtype=np.int32)
        file["distances"] = distances
    return distances


def found(truth: np.ndarray, recall: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and distances, (queries, COUNT) each, with about this share of true neighbours."""
    missed = rng.binomial(COUNT, 1 - recall, len(truth))[:, np.newaxis]
    places = np.arange(COUNT) + missed * (np.arange(COUNT) >= COUNT - missed)
    return rng.integers(0, ROWS, places.shape, dtype=np.int32), np.take_along_axis(truth, places, axis=1)


def attributes(series: str, point: int, times: np.ndarray) -> dict[str, Any]:
    """Return as many attributes as a result of ours has, of the same kinds."""
    seconds = float(times.mean())
    return {
        "algo": series, "batch_mode": False, "best_search_time": seconds, "build_time": 100.0 + point,
        "candidates": float(COUNT), "clients": int(series.rpartition("-c")[2]), "count": COUNT,
        "dataset": DATASET, "distance": "euclidean", "expect_extra": False, "index_size": 400_000.0,
        "name": f"{series}(m=16, ef_construction=64, ef_search={point})", "run_count": 5,
        "build_arguments": '["euclidean", {"M": 16, "efConstruction": 64}]',
        "plan": json.dumps([{"Node Type": "Index Scan", "Startup Cost": i} for i in range(15)]),
        "run_seconds": seconds * np.linspace(1, 1.1, 5), "runs_disagree": False, "qps_low": 0.95 / seconds,
        "qps_high": 1.01 / seconds, "started_at": "2026-01-01T00:00:00+00:00", "tier": "4GB:16GB",
        **{f"latency_{name}{end}": seconds * (2 + i) for i, name in enumerate(LATENCIES)
           for end in ("", "_low", "_high")},
        **{f"measured_{i}": seconds * i for i in range(25)},
        **{f"counted_{i}": i for i in range(10)},
        **{f"described_{i}": f"version {i}" for i in range(10)},
        **host_facts(),
    }  # fmt: skip
