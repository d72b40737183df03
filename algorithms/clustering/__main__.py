"""Centroids from the command line, into a file: python -m algorithms.clustering.

A machine with a GPU can compute them for another that has none.
"""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.cli import (
    HelpWithDefaults,
    Parser,
    path,
    positive_int,
    run_command,
    seed,
    size,
)
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, disk_errors
from ann_benchmarks.data.datasets import canonical_name, get_dataset

from .clustering import cluster
from .settings import ALGORITHMS, DEVICES, METRICS, Clustering, ClusteringError, Settings


def main(arguments: list[str] | None = None) -> int:
    """Cluster a sample of a dataset, and write the centroids to a file."""
    given = vars(make_parser().parse_args(arguments))
    name, output, force = canonical_name(given.pop("dataset")), given.pop("output"), given.pop("force")
    if output.suffix != ".npy":
        raise UserError(f"{output}: the file of centroids is an NPY file: give a name ending in .npy")
    if output.exists() and not force:
        raise UserError(f"{output} exists already; --force replaces it")
    dataset, dimension = get_dataset(name)
    with dataset:
        metric = str(dataset.attrs["distance"])
        if metric not in METRICS:
            raise UserError(f"{name} has the metric {metric}: k-means needs {', '.join(METRICS)}")
        print(f"dataset {name}: {dataset.rows:,} x {dimension}, {metric}", flush=True)
        if given["spherical"] is None:
            given["spherical"] = metric in ("angular", "ip")
        try:
            settings = Settings(unit_rows=metric == "angular", **given)
            found = cluster(dataset.train_rows(), settings)
        except ClusteringError as error:
            raise UserError(str(error)) from None
    write(output, found, {"dataset": name} | asdict(settings))
    parts = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in found.parts.items())
    passes = len(found.history)
    print(
        f"{found.sample_rows:,} rows clustered by {found.device} in {found.seconds:.1f} s ({parts}),"
        f" {passes} pass{'es' * (passes != 1)}: inertia {found.inertia:.6g},"
        f" {found.sizes.min():,} to {found.sizes.max():,} sampled rows a list"
    )
    lists = f", lists: [{settings.lists}]" if len(settings.lists) > 1 else ""
    print(f"{output} is ready: use arg_groups: [{{centroids: {output}{lists}}}]")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    command, task = "python -m algorithms.clustering", "compute centroids for an index"
    parser = Parser(command, description=task, formatter_class=HelpWithDefaults)
    add = parser.add_argument
    add("--dataset", metavar="NAME", required=True, help="the vectors to cluster")
    add("--lists", metavar="[COARSE,]LISTS", type=_lists, required=True, help="such as 2000, or 550,320000")
    add("--device", choices=DEVICES, default="cpu", help="gpu: by PyTorch")
    add("-o", "--output", metavar="FILE", type=path, required=True, help="the NPY file to write")
    add("--sampling-factor", metavar="N", type=positive_int, default=256, help="sampled rows for each list")
    add("--iterations", metavar="N", type=positive_int, default=10, help="the most passes over the sample")
    add("--algorithm", choices=ALGORITHMS, default="lloyd", help="hierarchical: less exact; faster on a CPU")
    spherical = "centroids of length 1 (default: for angular and ip)"
    add("--spherical", action=argparse.BooleanOptionalAction, help=spherical)
    add("--threads", metavar="N", type=positive_int, help="of the CPU (default: one for each core)")
    add("--memory", metavar="SIZE", type=size, help="for the sample (default: half of what is free)")
    add("--seed", metavar="N", type=seed, default=0, help="of the sample and the start")
    add("--force", action="store_true", help="replace the file")
    return parser


def write(path: Path, found: Clustering, origin: dict[str, Any]) -> None:
    """Write the centroids, and next to them, in FILE.json, how they were made and in what time."""
    facts = ("device", "seconds", "sample_rows", "inertia")
    about = origin | {name: getattr(found, name) for name in facts}
    with disk_errors(path):
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, found.centroids)
        with atomic_path(path.with_name(f"{path.name}.json")) as temporary:
            temporary.write_text(json.dumps(about, indent=1) + "\n")


def _lists(text: str) -> list[int]:
    lists = [positive_int(part) for part in text.split(",")]
    if len(lists) > 2 or lists != sorted(lists):
        raise argparse.ArgumentTypeError(f"'{text}': give LISTS or COARSE,LISTS, as 2000 or 550,320000")
    return lists


if __name__ == "__main__":
    run_command(main)
