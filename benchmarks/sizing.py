"""Predictions for more rows: how far they miss what is measured there, and how often their intervals hold.

    samples    each set is measured by the experiment sizes-verified: laws are fitted to up to a tenth of its
               rows, and checked at all of them. --vectors adds files as FILE:METRIC
    memory     smaller servers are simulated for the largest sample of each set, and for all rows, so that the
               least RAM is checked, too; this needs root
    published  the report on 5, 100 and 1,000 million rows: laws fitted to the first two, checked at the last

--folder keeps the results: what is there already is not measured again, and is part of the table.
"""

import argparse
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from ann_benchmarks.algorithms.pgvector_hnsw.module import index_bytes as hnsw_bytes
from ann_benchmarks.algorithms.vchord.arguments import index_bytes as vchord_bytes
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, MB
from ann_benchmarks.data.datasets.own import OwnVectors, create_own
from ann_benchmarks.data.datasets.samples import sampled
from ann_benchmarks.published import published
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import Run, load_runs, number
from ann_benchmarks.sizing.checks import Check
from ann_benchmarks.sizing.forecasts import LAWS
from ann_benchmarks.sizing.growth import Known, Prediction, fit
from ann_benchmarks.views.sizes import figure_title, find_sizes

from .harness import Row
from .serving import run_command

GOAL = None
PARTS = ("samples", "memory", "published")
RAM = (4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5)  # of simulated servers, as multiples of the larger index
BUFFERS = 4  # times as much RAM as shared_buffers: with less of these, copies take a share of the throughput
LEAST_RAM = 64  # MB, of a simulated server
VERIFIED = Path(__file__).parent.parent / "experiments" / "sizes-verified.yml"
APART = 1.5  # two indexes that differ by this ratio are judged: which is the faster
GENERATED = {  # rows, dimension, intrinsic dimension, metric
    "curved-8": (1_000_000, 128, 8, "euclidean"),
    "curved-20": (400_000, 256, 20, "angular"),
}
SETS = ["clustered-1m-96-euclidean", *GENERATED]
OPTIONS = {
    "parts": {"default": ["samples", "published"], "choices": PARTS, "help": "what to check"},
    "folder": {"type": Path, "default": Path("sizing"), "help": "where the results are kept"},
    "sets": {"nargs": "*", "default": SETS, "help": "datasets to measure; none: what is there already"},
    "vectors": {"nargs": "*", "default": None, "help": "files to measure, as FILE:METRIC"},
}


def cases(args: argparse.Namespace) -> Iterator[Row]:
    """Measure what is missing, and yield a row for each figure and kind of index."""
    if {"samples", "memory"} & {*args.parts}:
        args.folder.mkdir(exist_ok=True)
        os.chdir(args.folder)
        names = list(datasets(args))
        for name in names if "samples" in args.parts else []:
            run_command(Path(), ["run.py", "--local", "--experiment", "sizes-verified", "--dataset", name])
        if "memory" in args.parts:
            measure_memory(names)
        yield from sample_rows(list(load_runs(iter_result_paths())))
    if "published" in args.parts:
        yield from published_rows()


def datasets(args: argparse.Namespace) -> Iterator[str]:
    """Yield the names of the datasets; make those that are missing."""
    for name in args.sets:
        if name in GENERATED and not Path(f"data/{name}.hdf5").exists():
            rows, dimension, intrinsic, metric = GENERATED[name]
            np.save("vectors.npy", curved_vectors(rows + 1000, dimension, intrinsic))
            create_own(name, OwnVectors("vectors.npy", metric))
            Path("vectors.npy").unlink()
        yield name
    for given in args.vectors or []:
        file, _, metric = given.rpartition(":")
        with suppress(UserError):  # it is there already
            create_own(Path(file).stem, OwnVectors(file, metric))
        yield Path(file).stem


def measure_memory(names: Sequence[str]) -> None:
    """Simulate smaller servers for the largest sample of each dataset, and for all rows."""
    indexes = ["pgvector_hnsw", "vchord"]
    runs = list(load_runs(iter_result_paths()))
    step = yaml.safe_load(VERIFIED.read_text())["steps"][0]
    for sizes in find_sizes(runs, TARGET_RECALL):
        if (names and sizes.dataset not in names) or not sizes.checked:
            continue
        steps = []
        for rows in sizes.samples[-2:]:
            found = [run for run in runs if sampled(run.dataset)[0] == sizes.dataset]
            ours = [run for run in found if number(run, "rows") == rows]
            index = max(run.metrics["indexsize"] for run in ours) * KIB
            sizes_mb = [round(times * index / MB) for times in RAM]
            tiers = [f"{size // BUFFERS}MB:{size}MB" for size in sizes_mb if size >= LEAST_RAM]
            run = {"algorithm": indexes, "dataset": ours[0].dataset, "clients": 8, "target-recall": 0.95}
            run |= {"duration": 1, "rounds": 3, "tiers": [*tiers, "1GB:all"]}
            groups = {name: step["groups"][name] for name in indexes}
            steps.append(
                {"name": f"of-{rows:.0f}", "title": f"{rows:,.0f} rows", "run": run, "groups": groups}
            )
        path = Path(f"{sizes.dataset}-memory.yml")
        path.write_text(yaml.safe_dump({"title": "Least RAM", "steps": steps}))
        run_command(Path(), ["run.py", "--local", "--experiment", str(path)])


def curved_vectors(rows: int, dimension: int, intrinsic: int, seed: int = 5) -> np.ndarray:
    """Return points of a curved surface of `intrinsic` dimensions, with noise: (rows, dimension) float32."""
    draw = np.random.default_rng(seed)
    waves = 2 * draw.standard_normal((intrinsic, 64)) / intrinsic**0.5
    phases, directions = 2 * math.pi * draw.random(64), draw.standard_normal((64, dimension)) / 8
    blocks = []
    for start in range(0, rows, 20_000):
        places = draw.standard_normal((min(20_000, rows - start), intrinsic))
        noise = 0.01 * draw.standard_normal((len(places), dimension))
        blocks.append((np.sin(places @ waves + phases) @ directions + noise).astype(np.float32))
    return np.concatenate(blocks)


def sample_rows(runs: Sequence[Run]) -> Iterator[Row]:
    """Yield what all checks say of each figure, and how often the faster of two indexes was named."""
    found: dict[str, list[Check]] = {}
    right: list[bool] = []
    sets = set()
    for sizes in find_sizes([run for run in runs if sampled(run.dataset)], TARGET_RECALL):
        for one in sizes.checks:
            sets.add(sizes.dataset)
            kind = next(index.kind for index in sizes.forecasts if index.name == one.name)
            found.setdefault(f"{figure_title(one.figure, one.clients)}, {kind}", []).append(one)
        right += faster_named(sizes.checks)
    for title, checks in found.items():
        yield accuracy(title, [(one.predicted.value, one.measured, one.holds) for one in checks])
    if right:
        yield Row(
            f"faster of two, {APART} times apart", {"checks": len(right), "right": sum(right) / len(right)}
        )


def faster_named(checks: Sequence[Check]) -> Iterator[bool]:
    """Yield for each two indexes that differ whether the faster one was predicted to be the faster."""
    for one, other in combinations([one for one in checks if one.figure == "seconds"], 2):
        ratio = one.measured / other.measured
        if one.clients == other.clients and max(ratio, 1 / ratio) >= APART:
            yield (one.predicted.value < other.predicted.value) == (ratio < 1)


def accuracy(title: str, checks: Sequence[tuple[float, float, bool]]) -> Row:
    """Return the errors of (predicted, measured, whether the interval holds)."""
    errors = [math.log(predicted / measured) for predicted, measured, _ in checks]
    return Row(
        title,
        {
            "checks": len(checks),
            "median error": math.expm1(median(map(abs, errors))),
            "bias": math.expm1(sum(errors) / len(errors)),
            "intervals hold": sum(holds for *_, holds in checks) / len(checks),
        },
    )


REPORTS = {
    "5m": (5e6, 768),
    "100m": (1e8, 768),
    "1b": (1e9, 96),
}  # rows, dimension of each file in reference/
KINDS = {"pgvector HNSW": "graph", "VectorChord": "lists"}


def published_rows() -> Iterator[Row]:
    """Yield how far laws that are fitted to 5 and 100 million rows miss what was published of 1,000 million.

    The last ones have other dimensions, so builds are compared by the bytes that a row takes in the index.
    """
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for title, predicted, measured in published_checks():
        holds = predicted.low <= measured <= predicted.high
        found.setdefault(f"published: {title}", []).append((predicted.value, measured, holds))
    yield from (accuracy(title, checks) for title, checks in found.items())


def published_checks() -> Iterator[tuple[str, Prediction, float]]:
    """Yield what is checked, predicted and published."""
    tables = {name: published(name) for name in REPORTS}
    for name, (rows, dimension) in REPORTS.items():
        for build in tables[name].table("builds").rows:
            size = layout_bytes(build, int(rows), dimension) / 2**30
            yield "size by layout", Prediction(size, 0.99 * size, 1.01 * size), build["index_size"]
    for engine, kind in KINDS.items():
        builds = [
            [row for row in one.table("builds").rows if row["engine"] == engine] for one in tables.values()
        ]
        for of_sizes in zip(*builds, strict=True):
            yield f"build, {kind}", *predict("build", kind, of_sizes, lambda row: row["build_time"], True)
        for clients in (1, 32):
            best = [
                max(
                    (
                        row
                        for row in one.table("best").rows
                        if (row["engine"], row["clients"]) == (engine, clients)
                    ),
                    key=lambda row: row["qps"],
                )
                for one in tables.values()
            ]
            if kind == "graph":
                yield "ef_search", *predict("argument", kind, best, lambda row: argument_of(row["query"]))
            yield f"seconds, {kind}", *predict("seconds", kind, best, lambda row: 1 / row["qps"])
            yield f"p99, {kind}", *predict("p99", kind, best, lambda row: row["p99"])
            tiers = [
                [
                    row
                    for row in one.table("tiers").rows
                    if (row["engine"], row["clients"]) == (engine, clients)
                ]
                for one in tables.values()
            ]
            for row in tiers[2]:
                kept = [kept_share(of_size, row["ram"] / row["index_size"]) for of_size in tiers]
                yield (
                    f"throughput kept by RAM, {kind}",
                    Prediction(kept[1], min(kept[:2]), max(kept[:2])),
                    kept[2],
                )


def predict(
    law: str,
    kind: str,
    known: Sequence[Mapping[str, Any]],
    read: Callable[[Any], float],
    by_bytes: bool = False,
) -> tuple[Prediction, float]:
    """Fit a law to the first two of three rows of tables; return its prediction of the third, and that."""
    figures = [
        (rows, read(row) / (row["index_size"] / rows if by_bytes else 1))
        for (rows, _), row in zip(REPORTS.values(), known, strict=True)
    ]
    growth = LAWS[law].growth[kind]
    if base := LAWS[law].base:  # blocks were not published
        of_base = LAWS[base].growth[kind].exponent
        exponent = Known(*map(sum, zip(growth.exponent, of_base, strict=True)))
        growth = replace(growth, exponent=exponent)
    found = fit(growth, figures[:2]).predict(figures[2][0])
    assert found is not None
    return found, figures[2][1]


def kept_share(tiers: Sequence[Mapping[str, Any]], times: float) -> float:
    """Return the share of the best throughput with RAM of `times` the index, between two tiers."""
    places = sorted((math.log(row["ram"] / row["index_size"]), row["qps"]) for row in tiers)
    most = max(qps for _, qps in places)
    return float(np.interp(math.log(times), *zip(*places, strict=True))) / most


def argument_of(text: str) -> float:
    """Return the last number of query arguments such as ef_search=145."""
    return float(re.findall(r"\d+", text.split()[0])[-1])


def layout_bytes(build: Mapping[str, Any], rows: int, dimension: int) -> int:
    """Return the size of an index by the layout of its pages."""
    numbers = [int(number) for number in re.findall(r"\d+", build["build"])]
    if build["engine"] in KINDS and KINDS[build["engine"]] == "graph":
        return hnsw_bytes(rows, 4 * dimension + 8, numbers[0])
    return vchord_bytes(rows, dimension, numbers[-1], sum(numbers) + 1, 4 * dimension, False)
