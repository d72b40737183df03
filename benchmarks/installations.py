"""Two PostgreSQLs with pgvector on the same work: load, build of an HNSW index, queries of 1 and 8 clients.

    python -m benchmarks.installations [--base 0.8.5] [--other 0.8.6] [--rounds 12] [--seconds 1.5]
        [--dataset clustered-30k-96-euclidean] [--clients 1 8] [--ef-search 40]

Each is a release of pgvector as `install.py --local` has it, which is downloaded once, or a folder with bin/.
Both servers run all the time, with the same settings. In each round both load, build anew and answer, in an
order that changes, so that each round is of new graphs. Ratios are those of each round, other to base: above
1, the other is faster. "per CPU s" is of the server's processes. With --itself, the base takes part twice:
the ratios of the second are noise.
"""

import io
from contextlib import ExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import releases, servers
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import built_version
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.tables import load_whole
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.load.request import Load
from ann_benchmarks.results.intervals import interval_text, mean_interval
from benchmarks.harness import K, arguments, closed_rate, in_turn, ratios, temporary_server

SETTINGS = {"shared_buffers": "512MB"}
WARMUP = 0.3  # s
LOADS = 5  # of one figure, as one load is short
_TABLE = "ann_benchmarks.items_loaded"


class Installed:
    """A server with a table and an index, which it loads and builds again in each round."""

    def __init__(self, server: Server, train: np.ndarray, ef_search: int) -> None:
        """Make the table and the first index, which warms everything."""
        self._server, self._train, self._ef_search = server, train, ef_search
        self.algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        servers._current = server
        self.algorithm.fit(train)

    def figures(self, queries: np.ndarray, clients: list[int], seconds: float, run: int) -> dict[str, float]:
        """Return what is measured in a round, as rates: more is better."""
        rows = len(self._train)
        found = {"rows/s loaded": LOADS * rows / self._load(), "rows/s built": rows / self._build()}
        for number in clients:
            load, watch = Load(number, seconds=seconds), self.algorithm.watch_server()
            measured = closed_rate(self.algorithm, queries, load, run, WARMUP, watch)
            watch.close()
            clients_are = f"{number} client{'s' if number > 1 else ''}"
            found[f"QPS, {clients_are}"] = 1 / measured.seconds_per_query
            found[f"per CPU s, {clients_are}"] = 1 / measured.facts["server_cpu_seconds_per_query"]
        return found

    def recall(self, queries: np.ndarray, true: np.ndarray) -> float:
        """Return the recall of the last round's index."""
        found = self.algorithm.time_queries(queries, K)[1]
        return float(
            np.mean([len({*a} & {*b}) / K for a, b in zip(found, true[:, :K].tolist(), strict=True)])
        )

    def _load(self) -> float:
        """Seconds of loads as a plug-in does them, each of a new table."""
        seconds = 0.0
        with self._server.connect() as connection:
            for _ in range(LOADS):
                connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
                connection.execute("CHECKPOINT")
                seconds += load_whole(
                    connection, _TABLE, self.algorithm.column, self._train, "of a benchmark"
                )
        return seconds

    def _build(self) -> float:
        """Seconds of a build."""
        servers._current = self._server
        self.algorithm.set_build_options(rebuild=True)
        with redirect_stdout(io.StringIO()):
            self.algorithm.fit(self._train)
        self.algorithm.set_query_arguments(self._ef_search)
        return float(self.algorithm.get_additional()["index_build_time"])


def programs_of(name: str) -> Path:
    """Find the programs of a folder, or of a release, which is installed where it is not here."""
    if (folder := Path(name)).is_dir():
        return folder / "bin"
    if releases.installed(name) is None:
        print(releases.install_release(releases.EXTENSION, name, None))
    found = releases.installed(name)
    assert found is not None
    return found.resolve() / "bin"


def main() -> None:
    args = arguments(
        __doc__, base="0.8.5", other="0.8.6", itself={"action": "store_true"}, rounds=12, seconds=1.5,
        dataset="clustered-30k-96-euclidean", clients=[1, 8], ef_search=40,
    )  # fmt: skip
    dataset, _ = get_dataset(args.dataset)
    with dataset:
        train, queries, true = (dataset[name][:] for name in ("train", "test", "neighbors"))
    named = {"base": args.base, "other": args.other} | ({"base again": args.base} if args.itself else {})
    with ExitStack() as stack:
        contenders = {}
        for name, release in named.items():
            programs = programs_of(release)
            has = Installation(programs.parent).version_of("vector")
            print(f"{name}: PostgreSQL {built_version(programs.parent)}, pgvector {has}, {programs}")
            server = stack.enter_context(temporary_server(programs, **SETTINGS))
            contenders[name] = Installed(server, train, args.ef_search)
            stack.callback(contenders[name].algorithm.done)
        ways = {
            name: partial(contender.figures, queries, args.clients, args.seconds)
            for name, contender in contenders.items()
        }
        rounds = in_turn(ways, args.rounds)
        recalls = {name: contender.recall(queries, true) for name, contender in contenders.items()}
    show(rounds, recalls)


def show(rounds: dict[str, list[dict[str, float]]], recalls: dict[str, float]) -> None:
    """Print a table: medians of each, and the ratios to the base."""
    print(f"{'':>22} {'':>10} {'median':>10}  ratio to base, mean (95% interval), least to largest")
    for figure in rounds["base"][0]:
        base = [each[figure] for each in rounds["base"]]
        for name, given in rounds.items():
            own = [each[figure] for each in given]
            line = f"{figure:>22} {name:>10} {median(own):10,.0f}"
            if name != "base":
                compared = ratios(own, base)
                bounds = interval_text(mean_interval(compared), "{:.3f}".format)
                line += f"  {mean(compared):.3f}{bounds}, {min(compared):.3f} to {max(compared):.3f}"
            print(line)
    print("recall of the last index: " + ", ".join(f"{name} {value:.4f}" for name, value in recalls.items()))


if __name__ == "__main__":
    main()
