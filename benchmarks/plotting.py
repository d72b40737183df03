"""plot.py and create_website.py over many results are many times as fast as ann-benchmarks' own.

Results are made up, as run.py writes them. Whole commands are timed: cold, with no metrics cached (ours: the
cache deleted; theirs: --recompute), and warm. The files are in the page cache, and the modules compiled, for
both sides. ANN_BENCHMARKS_CHECKOUT names a checkout of ann-benchmarks, ANN_BENCHMARKS_PYTHON a Python with
what it needs; its commands get a copy of the same files. Without it, ours alone are timed.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.host import host_facts
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.results.file import SETTLED_NS, truth_mark, write_result

from .harness import Case, Figures, Goal
from .serving import PROJECT, cost_of, empty_folder, run_program

GOAL = Goal("s", most=0.5)
OPTIONS = {"files": 1000, "queries": 10_000}
CHECKOUT = os.environ.get("ANN_BENCHMARKS_CHECKOUT", "")
DATASET = "made-up-euclidean"
COUNT, STORED = 10, 100  # neighbours that are asked for; true ones of a query, as in ann-benchmarks' datasets
COMMANDS = {"plot.py": ["--dataset", DATASET, "-Y", "log"], "create_website.py": ["--outputdir", "site"]}
LATENCIES = [
    f"latency_{name}{end}" for name in ("p50", "p95", "p99", "p999") for end in ("", "_low", "_high")
]


def cases(args: argparse.Namespace) -> Iterator[Case]:
    with empty_folder() as folder:
        ours, theirs = folder / "ours", folder / "theirs"
        make_results(ours, args.files, args.queries, np.random.default_rng(args.seed))
        sides = {"ours": (ours, [sys.executable], PROJECT)}
        if CHECKOUT:
            shutil.copytree(CHECKOUT, theirs, ignore=shutil.ignore_patterns("results", "data", ".git"))
            shutil.copytree(ours, theirs, dirs_exist_ok=True)
            python = os.environ.get("ANN_BENCHMARKS_PYTHON", sys.executable)
            sides["ann-benchmarks"] = theirs, [python], theirs
        time.sleep(SETTLED_NS / 1e9)  # younger files are not cached
        for name, is_cold in product(COMMANDS, (True, False)):
            ways = {}
            for side, (place, python, scripts) in sides.items():
                command = [*python, str(scripts / name), *COMMANDS[name]]
                command += ["--recompute"] * (is_cold and side != "ours")
                ways[side] = partial(run, place, command, is_cold and side == "ours")
                ways[side](0)  # compiles the modules, and fills the caches of what is warm
            yield Case(f"{name}, {'cold' if is_cold else 'warm'}", ways, base=[*sides][-1])


def run(folder: Path, command: Sequence[str], clears_cache: bool, number: int) -> Figures:
    """Run a command once."""
    (folder / "site").mkdir(exist_ok=True)
    for cache in (folder / "results").rglob(".metrics-cache.json") if clears_cache else ():
        cache.unlink()
    cost = cost_of(partial(run_program, folder, command), resource.RUSAGE_CHILDREN)
    return {"s": cost.wall, "CPU s": cost.cpu}


def make_results(folder: Path, files: int, queries: int, rng: np.random.Generator) -> None:
    """Write data/DATASET.hdf5, with few vectors, and results/; recall rises along each of 20 series."""
    train, test = rng.random((1000, 8), dtype=np.float32), rng.random((queries, 8), dtype=np.float32)
    neighbors, truth = exact_neighbors("euclidean", train, test, STORED, progress=False)
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data" / f"{DATASET}.hdf5", "w") as file:
        file.attrs.update(distance="euclidean", dimension=8, point_type="float", type="dense")
        for name, rows in (("train", train), ("test", test), ("neighbors", neighbors), ("distances", truth)):
            file[name] = rows
    shared = {"truth": truth_mark(truth[:, :COUNT]), **host_facts()}
    for number in range(files):
        series, point = f"algorithm{number % 5}-c{4 ** (number // 5 % 4)}", number // 20
        recall = 0.5 + 0.4999 * (point + rng.random()) / -(-files // 20)
        times = rng.lognormal(np.log(1e-3 / (1.001 - recall) ** 0.3), 0.3, queries)
        missed = rng.binomial(COUNT, 1 - recall, queries)[:, np.newaxis]
        places = np.arange(COUNT) + missed * (np.arange(COUNT) >= COUNT - missed)
        path = folder / "results" / DATASET / str(COUNT) / series / f"euclidean_M_16_ef_{point}.hdf5"
        edges = {
            "latency_histogram": np.ones(300, int),
            "latency_histogram_edges": np.geomspace(1e-6, 1, 301),
        }
        attrs = attributes(series, point, float(times.mean())) | shared
        found = [np.take_along_axis(true, places, axis=1) for true in (neighbors, truth)]
        write_result(path, attrs, times, *found, edges)


def attributes(series: str, point: int, seconds: float) -> dict[str, Any]:
    """Return as many attributes as a result of ours has, of the same kinds."""
    return {
        "algo": series, "batch_mode": False, "best_search_time": seconds, "build_time": 100.0 + point,
        "candidates": float(COUNT), "clients": int(series.rpartition("-c")[2]), "count": COUNT,
        "dataset": DATASET, "distance": "euclidean", "expect_extra": False, "index_size": 400_000.0,
        "name": f"{series}(m=16, ef_construction=64, ef_search={point})", "run_count": 5,
        "build_arguments": '["euclidean", {"M": 16, "efConstruction": 64}]',
        "plan": json.dumps([{"Node Type": "Index Scan", "Startup Cost": i} for i in range(15)]),
        "settings": json.dumps({f"setting_{i}": f"{2**i}MB" for i in range(30)}),
        "run_seconds": seconds * np.linspace(1, 1.1, 5), "runs_disagree": False, "qps_low": 0.95 / seconds,
        "qps_high": 1.01 / seconds, "started_at": "2026-01-01T00:00:00+00:00", "tier": "4GB:16GB",
        **{name: seconds * (2 + i) for i, name in enumerate(LATENCIES)},
        **{f"measured_{i}": seconds * i for i in range(25)}, **{f"counted_{i}": i for i in range(10)},
        **{f"described_{i}": f"version {i}" for i in range(10)},
    }  # fmt: skip
