"""What run.py makes of options that ask for load: series, attributes, and one line for what makes no sense.

All is measured on one server, whose indexes each run finds built.
"""

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from ann_benchmarks.distance import rounded_up
from ann_benchmarks.load.request import Load, Objective
from ann_benchmarks.load.search import ROUNDING
from ann_benchmarks.load.spans import BUCKETS_PER_DECADE
from ann_benchmarks.results.file import write_result
from ann_benchmarks.results.measurement import recall_of_each
from ann_benchmarks.run.plan import _other_load

from .conftest import Workspace, make_dataset
from .programs import call_program, temporary_folder, write_config

pytestmark = pytest.mark.thorough

CLIENTS = ["--clients", "2"]
LATENCIES = [f"latency_{name}" for name in ("p50", "p95", "p99", "p999")]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a dataset and two algorithms of one point each, for loads and for tiers."""
    with temporary_folder(on_disk=True) as folder:
        make_dataset("small", "angular", 2000, 12, queries=50, neighbours=100, folder=folder / "data")
        define(folder, [[15]], [[4]])
        yield folder


def define(folder: Path, ef_search: list[list[int]], probes: list[list[int]]) -> None:
    for name, constructor, build, query in (
        ("hnsw", "PGVectorHNSW", {"M": 4, "efConstruction": 16}, ef_search),
        ("ivfflat", "PGVectorIVFFlat", {"lists": 40}, probes),
    ):
        groups = {"one": {"arg_groups": [build], "query_args": query}}
        what = {"module": f"ann_benchmarks.algorithms.pgvector_{name}", "constructor": constructor}
        write_config(folder / "definitions" / name, name, base_args=["@metric"], run_groups=groups, **what)


def run(folder: Path, program: str, *options: str, status: int = 0) -> str:
    done = call_program(program, "--dataset", "small", *options, cwd=folder)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def measured(folder: Path, *options: str, algorithm: str = "hnsw") -> str:
    own = ["--local", "--definitions", "definitions", "--runs", "1"]
    chosen = ["--algorithm", algorithm] if algorithm else []
    return run(folder, "run.py", *own, *chosen, *options)


def stored(folder: Path, series: str, arguments: str = "15") -> dict[str, Any]:
    """The attributes and the datasets of the one point of a series, which are looked at in any case."""
    build = "lists_40" if series.startswith("ivfflat") else "M_4_efConstruction_16"
    name = f"angular_{build}_{arguments}.hdf5"
    (path,) = (path for path in (folder / "results/small/10" / series).iterdir() if path.name == name)
    with h5py.File(path) as file:
        arrays = {name: data[()] for name, data in file.items() if isinstance(data, h5py.Dataset)}
        point = {**file.attrs, **arrays}
    assert point["algo"] == series
    assert point["settings"]
    assert point["plan"]
    assert point["neighbors"].shape == point["distances"].shape == (50, 10)
    runs, edges = point["latency_histogram"], point["latency_histogram_edges"]
    assert runs.sum() == point["run_count"] * len(point["times"])
    assert edges[1:] / edges[:-1] == pytest.approx(10 ** (1 / BUCKETS_PER_DECADE))
    assert edges[0] <= point["times"].min() * 1.0001
    assert edges[-1] >= point["times"].max() * 0.9999
    assert sorted(point[name] for name in LATENCIES) == [point[name] for name in LATENCIES]
    assert 0 < point["recall_low"] < point["recall_high"] <= 1
    return point


def check_clients(point: dict[str, Any], clients: int) -> None:
    assert point["clients"] == clients
    # In a closed loop, those that were sent in the span are not quite those that were answered in it.
    assert abs(len(point["times"]) - point["queries_counted"]) <= (
        clients if point["loop"] == "closed" else 0
    )
    assert point["client_cpu_seconds_per_query"] > 0
    assert 0 < point["client_cpu_share"] < 1.5
    assert 0 < 1 / point["best_search_time"] < 1e6
    assert point["active_seconds"] > 0
    assert point["clients_were_limit"] in (True, False)
    check_blocks(point)


def check_blocks(point: dict[str, Any]) -> None:
    """With M = 4 and ef_search = 15, a query of HNSW looks at dozens of nodes, each on a block."""
    assert 20 < point["index_blocks_hit_per_query"] + point["index_blocks_read_per_query"] < 1000


def recall_of(point: dict[str, Any], folder: Path) -> float:
    with h5py.File(folder / "data" / "small.hdf5") as file:
        thresholds = rounded_up(file["distances"][:, 9].astype(float))
    return float(recall_of_each(point["distances"], thresholds, 10).mean())


@pytest.fixture(scope="module")
def three_runs(folder: Path) -> dict[str, Any]:
    """The point of a run.py without options for its load."""
    assert measured(folder, "--runs", "3", "--force").count(": recall ") == 1
    return stored(folder, "hnsw")


def test_without_clients_the_files_have_their_names_and_more_in_them(three_runs: dict[str, Any]):
    point = three_runs
    assert not {"clients", "loop", "driver", "query_order"} & point.keys()
    assert point["times"].shape == (50,)
    assert point["run_count"] == 3
    assert 0 <= point["qps_low"] < point["qps_high"]
    for name in LATENCIES:  # the rarer ones of 150 queries have no interval
        low, high = point[f"{name}_low"], point[f"{name}_high"]
        assert 0 <= low < high or (math.isnan(low) and math.isnan(high))
    assert 0 < point["latency_worth"] <= 150
    assert point["warmup"] == "auto"
    assert point["warmup_queries"] > 0
    assert point["warmup_settled"]
    assert point["prewarmed_by"] == "pg_prewarm"


def test_each_number_of_clients_is_a_series_and_is_found_finished(folder: Path):
    options = ("--clients", "1,3,1", "--max-queries", "3000", "--warmup", "50")
    out = measured(folder, *options)
    assert out.count(": recall ") == 2
    assert "by 1 client: recall" in out
    assert "by 3 clients: recall" in out
    for clients in (1, 3):
        point = stored(folder, f"hnsw-c{clients}")
        check_clients(point, clients)
        assert point["loop"] == "closed"
        assert point["query_order"] == "shuffled"
        assert point["driver"] == "own"
        assert point["queries_asked"] == 3000
        assert 0 < point["clients_waiting_share"] <= 1
        assert point["warmup_queries"] == 50
    assert "nothing to do: 2 points finished before" in measured(folder, *options)
    out = measured(folder, "--clients", "3", "--duration", "0.3", "--warmup", "50")
    path = "results/small/10/hnsw-c3/angular_M_4_efConstruction_16_15.hdf5"
    assert f"{path} was measured without --duration; it is measured again" in out
    point = stored(folder, "hnsw-c3")
    assert point["asked_duration"] == 0.3
    assert "asked_queries" not in point
    assert point["active_seconds"] == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        (Load(2), Load(2), None),
        (Load(2, seconds=3), Load(2, seconds=3), None),
        (Load(2, seconds=3), Load(2, seconds=2.5), "with --duration 3"),
        (Load(2, seconds=3), Load(2), "with --duration 3"),
        (Load(2), Load(2, seconds=3), "without --duration"),
        (Load(2, max_queries=500), Load(2, max_queries=600), "with --max-queries 500"),
        (Load(2, max_queries=5_000_000), Load(2), "with --max-queries 5000000"),
        (Load(2, max_queries=500), Load(2, seconds=2), "without --duration"),
        (None, Load(2, seconds=3), None),  # by somebody else's program
        (Load(2, seconds=3), None, None),
    ],
)  # fmt: skip
def test_what_a_point_was_measured_with_is_told(
    tmp_path: Path, before: Load | None, now: Load | None, problem: str | None
):
    path = tmp_path / "point.hdf5"
    attrs = {"best_search_time": 1.0, "count": 10, "name": "x", **(before.facts if before else {})}
    write_result(path, attrs, np.ones(3), np.zeros((3, 10), dtype=int), np.zeros((3, 10)))
    said = _other_load(path, now)
    assert said is None if problem is None else said == f"{path} was measured {problem}"


def test_each_rate_is_a_series_of_arrivals_of_popular_queries(folder: Path):
    rates = ("--rate", "50,100", "--duration", "0.8", "--query-order", "zipf:1.1", "--distinct-queries", "20")
    out = measured(folder, "--clients", "2", *rates, "--warmup", "50")
    assert "by 2 clients, queries in the order zipf:1.1, with 20 different queries, at 50/s: recall" in out
    for rate in (50, 100):
        point = stored(folder, f"hnsw-c2-zipf1.1-q20-r{rate}")
        check_clients(point, 2)
        assert point["loop"] == "open"
        assert point["rate"] == rate
        assert point["query_order"] == "zipf:1.1"
        assert point["distinct_queries"] == 20
        assert point["queries_due"] == len(point["times"])
        assert point["queries_due"] == pytest.approx(0.8 * rate, abs=5 * np.sqrt(rate))
        # On a machine that has no time for its clients, some may not have been asked.
        assert point["queries_asked"] + point["queries_unanswered"] == point["queries_due"]
        assert point["service_p50"] <= point["service_p99"]
        shares = json.loads(point["wait_events"])
        assert sum(shares.values()) == pytest.approx(1, abs=0.01)
        assert next(iter(shares)) == "idle"  # as clients are at a rate that keeps nobody busy


def test_the_point_at_a_recall_is_the_first_that_reaches_it(folder: Path):
    options = ("--target-recall", "0.9", "--warmup", "50")
    out = measured(folder, *options, algorithm="")
    assert "nothing to do: 2 points finished before" in measured(folder, *options, algorithm="")
    smaller = {}
    for name, parameter, least in (("hnsw", "ef_search", 10), ("ivfflat", "probes", 1)):
        point = stored(folder, name, "target_recall_0_9")
        assert point["target_recall"] == 0.9
        assert point["target_parameter"] == parameter
        assert f'"target_recall=0.9"): {parameter}={point["target_value"]}: recall' in out
        assert f"{parameter}={point['target_value']})" in point["name"]
        assert 1 < point["target_trials"] <= 12
        assert recall_of(point, folder) >= 0.9 - ROUNDING  # 450 of 500 may come out as less
        assert point["target_value"] > least
        smaller[name] = int(point["target_value"]) - 1
    define(folder, [[smaller["hnsw"]]], [[smaller["ivfflat"]]])
    try:
        measured(folder, "--warmup", "2000", algorithm="")
    finally:
        define(folder, [[15]], [[4]])
    for name, value in smaller.items():
        assert recall_of(stored(folder, name, str(value)), folder) < 0.9 - ROUNDING
    check_blocks(stored(folder, "hnsw", str(smaller["hnsw"])))  # of 50 queries, and not of 2,050


def test_a_cold_start_is_a_series_of_its_own(folder: Path):
    load = ("--clients", "2", "--max-queries", "2000", "--query-order", "same")
    assert "by 2 clients, queries in the order same, with cold caches: recall" in measured(
        folder, *load, "--warmup", "off"
    )
    point = stored(folder, "hnsw-c2-same-cold")
    check_clients(point, 2)
    assert point["warmup"] == "off"
    assert point["query_order"] == "same"
    assert "warmup_queries" not in point
    assert "prewarmed_by" not in point
    assert point["caches_dropped"] == hasattr(os, "posix_fadvise")
    assert point["index_blocks_read_per_query"] > 0  # the first one of all found nothing in the buffers


SEARCHED = """
    def fit(self, X): self.X = np.array(X)
    def set_query_arguments(self, effort): self.effort = effort
    def search_range(self, count):
        from types import SimpleNamespace
        return SimpleNamespace(parameter="effort", values=range(1, 9), arguments=lambda value: [value])
    def query(self, q, n):
        near = np.argsort(((self.X - q) ** 2).sum(1))
        return [*near[:self.effort], *near[-(n - self.effort):]]
    """


@pytest.fixture
def searched(workspace: Workspace) -> Workspace:
    """A test double of an index that finds as many tenths of the neighbours as it is told."""
    workspace.add_plugin("searched", SEARCHED, {"args": [], "query_args": [[3, 5]]})
    return workspace


def test_a_recall_is_searched_for_in_any_algorithm_that_says_how(searched: Workspace):
    out = searched.run("--target-recall", "0.65", *CLIENTS, "--warmup", "5", "--duration", "0.2")
    assert out.returncode == 0, out.stderr
    assert '"target_recall=0.65") by 2 clients: effort=7: recall 0.7000' in out.stdout
    (name,) = searched.results()
    assert name == "tiny/10/searched-c2/target_recall_0_65.hdf5"
    with h5py.File(Path("results") / name) as file:
        assert file.attrs["target_value"] == 7
        assert file.attrs["target_recall"] == 0.65


def test_the_highest_rate_that_keeps_an_objective_is_found(workspace: Workspace):
    """Of a plug-in that sleeps, as the search takes all that a server of queries can do."""
    workspace.add_plugin(
        "sleeping", "def query(self, q, n):\n    time.sleep(0.005)\n    return list(range(n))"
    )
    out = workspace.run(*CLIENTS, "--slo", "p50:30ms", "--duration", "1.2", "--warmup", "5")
    assert out.returncode == 0 and "by 2 clients, within p50:30ms: recall" in out.stdout, out.stderr
    with h5py.File("results/tiny/10/sleeping-c2-slo-p50-30ms/.hdf5") as file:
        point = {**file.attrs}
    assert (point["clients"], point["loop"], point["objective"]) == (2, "open", "p50:30ms")
    assert point["latency_p50"] <= 0.03
    assert point["queries_unanswered"] == 0
    assert point["objective_trials"] > 1
    # It is one that two clients of 5 ms a query can do.
    assert 1 / point["best_search_time"] == pytest.approx(point["rate"], rel=0.5)
    assert point["rate"] < 2 / 0.005 * 1.06


def test_a_recall_that_is_not_reached_is_told(searched: Workspace):
    out = searched.run("--target-recall", "0.95")
    assert out.returncode == 0, out.stderr
    said = "recall 0.95 is not reached, only 0.8000 at effort=8, its largest value"
    assert said in out.stderr
    with h5py.File(Path("results") / searched.results()[0]) as file:
        assert file.attrs["target_missed"] == 0.95
        assert file.attrs["target_value"] == 8
        assert "target_recall" not in file.attrs


FAILING = """
    def set_query_arguments(self, effort): self.effort = effort
    def query(self, q, n):
        if self.effort == 2: return 1 / 0
        if self.effort == 3:
            from ann_benchmarks.common.errors import UserError
            raise UserError("three is too much")
        return list(range(n))
    def recover(self): pass
    """


def test_a_failed_point_leaves_a_log_where_there_is_more_to_say(workspace: Workspace):
    workspace.add_plugin("failing", FAILING, {"args": [], "query_args": [[1, 2, 3, 4]]})
    out = workspace.run("--warmup", "5")
    assert out.returncode == 1
    broken, too_much = (line for line in out.stderr.splitlines() if line.startswith("failed: "))
    assert re.fullmatch(
        r"failed: failing\(.*2\): ZeroDivisionError: division by zero \(see .*\.log\)", broken
    )
    assert re.fullmatch(r"failed: failing\(.*3\): three is too much", too_much)
    log = Path(broken.rpartition("(see ")[2].rstrip(")"))
    assert "ZeroDivisionError: division by zero" in log.read_text().splitlines()[0]
    assert "in query" in log.read_text()
    assert len(list(log.parent.iterdir())) == 1
    assert [name.rpartition("/")[2] for name in workspace.results()] == ["1.hdf5", "4.hdf5"]


def test_an_algorithm_that_does_not_say_what_to_search_is_told_so(workspace: Workspace):
    workspace.add_plugin("plain", "def set_query_arguments(self, x): pass", {"args": [], "query_args": [[1]]})
    out = workspace.run("--target-recall", "0.9")
    assert out.returncode == 1
    assert "does not say which query argument to search: leave --target-recall out" in out.stderr
    assert workspace.results() == []


def test_a_rate_that_is_5_percent_too_high_does_not_keep_an_objective_for_so_long():
    for text in ("p50:5ms", "p99:50ms", "p999:1s"):
        objective = Objective.parse(text)
        for share, is_kept in ((1.06, False), (1.04, True)):
            due = np.linspace(0, objective.least_seconds, 20_000)
            assert objective.is_kept((share - 1) * due) == is_kept


def test_an_objective_is_looked_at_for_as_long_as_it_takes():
    def seconds(text: str, **how: Any) -> float:
        return float(Load(1, objective=Objective.parse(text), **how).arrivals(10, 100, 0)[0][-1])

    assert seconds("p99:50ms") == pytest.approx(10, abs=0.5)
    assert seconds("p99:1s") == pytest.approx(20.2, abs=0.5)
    assert seconds("p99:1s", seconds=30) == pytest.approx(30, abs=0.5)
