"""What benchmarks share: a command line, a server with an index, ways that take turns, and spreads."""

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.environment import variable
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation, installed_binaries
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured, closed_loop
from ann_benchmarks.measure.clients import open_clients
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import NoWatch, Plugin, Watch

PROJECT = Path(__file__).parent.parent
K = 10  # neighbours of a query
T = TypeVar("T")


def arguments(description: str | None, **options: Any) -> argparse.Namespace:
    """Read the command line; an option is its default value, or what add_argument takes by name.

    A default value gives the type. A list takes several values.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, option in options.items():
        settings = dict(option) if isinstance(option, dict) else {"default": option}
        default = settings.get("default")
        if isinstance(default, list | tuple):
            settings, default = {"nargs": "+", **settings}, default[0]
        if default is not None:
            settings.setdefault("type", type(default))
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)
    return parser.parse_args()


@contextmanager
def temporary_server(programs: Path | None = None, **settings: str) -> Iterator[Server]:
    """Start a server in a folder of its own; plug-ins use it while it is there.

    Its programs are those of a folder, else those of ANN_BENCHMARKS_PG_BIN, else the embedded ones.
    """
    folder = Path(tempfile.mkdtemp(prefix="ann-benchmark-"))
    folder.chmod(0o755)  # the server's account must be able to enter
    if programs is None:
        programs = installed_binaries() if variable("BIN") else embedded_installation() / "bin"
    server = LocalServer(programs, folder / "server")
    servers._current = server
    try:
        server.start(settings)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def random_vectors(rows: int, dimension: int, seed: int = 1) -> np.ndarray:
    """Return uniform vectors, (rows, dimension) float32."""
    return np.random.default_rng(seed).random((rows, dimension), dtype=np.float32)


@contextmanager
def hnsw_index(args: argparse.Namespace, ef_search: int) -> Iterator[tuple[Server, Any, np.ndarray]]:
    """Give a server, an HNSW index of args.rows x args.dimension on it, and args.queries queries."""
    vectors = random_vectors(args.rows + args.queries, args.dimension)
    with temporary_server() as server:
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        try:
            algorithm.fit(vectors[: args.rows])
            algorithm.set_query_arguments(ef_search)
            yield server, algorithm, vectors[args.rows :]
        finally:
            algorithm.done()


def closed_rate(
    algorithm: Any,
    queries: np.ndarray,
    load: Load,
    run: int,
    warmup: float,
    watch: Watch | None = None,
    keeps_ids: bool = False,
) -> Measured:
    """Measure run.py's clients in a closed loop, after `warmup` s that do not count."""
    watch = watch or NoWatch()
    with closing(open_clients(Subject(Plugin(algorithm), queries, K, 0), load)) as clients:
        for number, seconds, seen_by in ((1_000_000 + run, warmup, NoWatch()), (run, load.seconds, watch)):
            clients.prepare(load.orders(len(queries), number), seconds, keeps_ids and number == run)
            with seen_by.running():
                clients.run()
            answers = clients.answers()
        return closed_loop(answers, watch.facts(sum(len(given.numbers) for given in answers)))


def in_turn(ways: Mapping[str, Callable[[int], T]], rounds: int) -> dict[str, list[T]]:
    """Call every way with the number of each round, which begins with another one; return what each gave."""
    results: dict[str, list[T]] = {way: [] for way in ways}
    names = [*ways]
    for number in range(rounds):
        turn = number % len(names)
        for way in names[turn:] + names[:turn]:
            results[way].append(ways[way](number))
    return results


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


def ratios(own: Iterable[float], base: Iterable[float]) -> list[float]:
    """The ratio of each round."""
    return [a / b for a, b in zip(own, base, strict=True)]


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Median (least to largest)."""
    values = [*values]
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Make a folder that every account may enter, and work in it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chdir(folder)
        Path(folder).chmod(0o755)
        yield Path(folder)
