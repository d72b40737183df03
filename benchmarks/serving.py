"""What claims measure on: servers with an index, clients in a closed loop, commands of this project."""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.environment import variable
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation, installed_binaries
from ann_benchmarks.load.clients import open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured, closed_loop
from ann_benchmarks.plugin import NoWatch, Plugin

PROJECT = Path(__file__).parent.parent
K = 10  # neighbours of a query
HNSW = {"M": 16, "efConstruction": 64}
WARMUP_SECONDS = 0.2


@contextmanager
def temporary_server(**settings: str) -> Iterator[LocalServer]:
    """Start a server in a folder of its own; plug-ins use it while it is there.

    Its programs are those of ANN_BENCHMARKS_PG_BIN, else the embedded ones.
    """
    programs = installed_binaries() if variable("BIN") else embedded_installation() / "bin"
    with empty_folder() as folder:
        server = LocalServer(programs, folder / "server")
        servers._current = server
        try:
            server.start(settings)
            yield server
        finally:
            server.stop()


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Make a folder that every account may enter, as a server's has to."""
    with tempfile.TemporaryDirectory(prefix="ann-benchmark-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def random_vectors(rows: int, dimension: int, seed: int = 1) -> np.ndarray:
    """Return uniform vectors, (rows, dimension) float32."""
    return np.random.default_rng(seed).random((rows, dimension), dtype=np.float32)


@contextmanager
def hnsw_index(args: argparse.Namespace, ef_search: int) -> Iterator[tuple[Server, Any, np.ndarray]]:
    """Give a server, an HNSW index of args.rows x args.dimension on it, and args.queries queries."""
    vectors = random_vectors(args.rows + args.queries, args.dimension, args.seed)
    with temporary_server() as server, closing_algorithm(PGVectorHNSW("euclidean", HNSW)) as algorithm:
        algorithm.fit(vectors[: args.rows])
        algorithm.set_query_arguments(ef_search)
        yield server, algorithm, vectors[args.rows :]


@contextmanager
def closing_algorithm(algorithm: Any) -> Iterator[Any]:
    """End what a plug-in has started."""
    try:
        yield algorithm
    finally:
        algorithm.done()


def closed_rate(
    algorithm: Any, queries: np.ndarray, load: Load, run: int, keeps_ids: bool = False
) -> Measured:
    """Measure run.py's clients in a closed loop, after a warm-up that does not count."""
    with closing(open_clients(Plugin(algorithm), queries, K, load)) as clients:
        for number, seconds in ((1_000_000 + run, WARMUP_SECONDS), (run, load.seconds)):
            clients.prepare(load.orders(len(queries), number), seconds, keeps_ids and number == run)
            clients.run()
            answers = clients.answers()
        return closed_loop(answers, NoWatch().facts(sum(len(given.numbers) for given in answers)))


class Cost(NamedTuple):
    """Seconds, and CPU seconds of this process or of the children that it waited for."""

    wall: float
    cpu: float


def cost_of(call: Callable[[], object], who: int = resource.RUSAGE_SELF) -> Cost:
    """Measure one call."""
    used, began = cpu_seconds(who), time.perf_counter()
    call()
    return Cost(time.perf_counter() - began, cpu_seconds(who) - used)


def cpu_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """CPU seconds, user and system, of this process or of its ended children."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def run_command(folder: Path, words: Sequence[str], **environment: str) -> None:
    """Run one of this project's commands in a folder."""
    run_program(folder, [sys.executable, str(PROJECT / words[0]), *words[1:]], **environment)


def run_program(folder: Path, command: Sequence[str], **environment: str) -> None:
    """Run a program in a folder; its output is in the folder's log."""
    with (folder / "log").open("a") as log:
        done = subprocess.run(command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} has failed:\n{(folder / 'log').read_text()[-2000:]}")


def write_definition(folder: Path, name: str, query_arguments: Sequence[Any], **entry: Any) -> None:
    """Define an algorithm in folder/definitions, by default pgvector's HNSW."""
    group = {"arg_groups": [HNSW], "query_args": [list(query_arguments)]}
    defaults: Mapping[str, Any] = {
        "module": "ann_benchmarks.algorithms.pgvector_hnsw",
        "constructor": "PGVectorHNSW",
        "docker_tag": "none",
        "base_args": ["@metric"],
        "run_groups": {"one": group},
    }
    place = folder / "definitions" / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    text = yaml.safe_dump({"float": {"any": [{"name": name, **defaults, **entry}]}})
    (place / "config.yml").write_text(text)
