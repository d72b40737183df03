"""Points that many clients measure: orders, arithmetic, results, and what a death in the middle leaves."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.algorithms.postgres.clients import Answers
from ann_benchmarks.clients import Load, active_span, measure_clients
from ann_benchmarks.errors import UserError

from .test_contract import folder, make_dataset, our_run, run

__all__ = ["folder"]

ROOT = Path(__file__).parents[1]


def test_each_client_asks_every_query_in_an_order_of_its_own():
    orders = Load(4).orders(100, run=0)
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert [list(order) for order in Load(4).orders(100, run=0)] == [list(order) for order in orders]
    assert list(Load(4).orders(100, run=1)[0]) != list(orders[0])


@pytest.mark.parametrize(
    ("load", "length"),
    [(Load(32), 100), (Load(2), 500), (Load(3, max_queries=100), 34), (Load(2, max_queries=5000), 2500),
     (Load(2, seconds=1), 1000)],
)  # fmt: skip
def test_how_much_a_client_asks(load: Load, length: int):
    assert {len(order) for order in load.orders(1000, run=0)} == {length}


class Sleeping:
    """Clients that take a known time for each query, on a clock that only they move."""

    def __init__(self, late: float = 0.0) -> None:
        self.closed, self.late = False, late

    def __str__(self) -> str:
        return "Sleeping"

    def open_clients(self, queries: np.ndarray, count: int, clients: int) -> "Sleeping":
        self.seconds = [0.01 * (client + 1) for client in range(clients)]
        return self

    def prepare(self, orders: Sequence[np.ndarray], seconds: float | None = None) -> None:
        self.orders = [np.resize(o, int(seconds / s)) if seconds else o
                       for o, s in zip(orders, self.seconds, strict=True)]  # fmt: skip

    def run(self) -> None:
        pass

    def answers(self) -> list[Answers]:
        given = []
        for client, (order, seconds) in enumerate(zip(self.orders, self.seconds, strict=True)):
            sent = self.late * client + seconds * np.arange(len(order))
            ids = {int(number): [int(number)] for number in order}
            given.append(Answers(order, sent, sent + seconds, ids, 0.001 * len(order)))
        return given

    def close(self) -> None:
        self.closed = True


def test_throughput_and_latencies_are_what_arithmetic_says():
    algorithm = Sleeping()
    (run,) = measure_clients(algorithm, np.zeros((50, 4)), 1, Load(2, seconds=10), 1, 50, True)
    assert run.facts["active_seconds"] == pytest.approx(10)
    # 100 and 50 queries a second, of 10 and of 20 ms
    assert 1 / run.seconds_per_query == pytest.approx(150, rel=0.01)
    assert np.percentile(run.times, 50) == pytest.approx(0.01)
    assert np.percentile(run.times, 90) == pytest.approx(0.02)
    assert (run.neighbors[:, 0] == np.arange(50)).all()
    assert run.facts["client_cpu_seconds_per_query"] == pytest.approx(0.001)
    assert algorithm.closed


def test_only_the_time_in_which_all_are_active_counts():
    algorithm = Sleeping(late=4.0)
    (run,) = measure_clients(algorithm, np.zeros((1000, 4)), 1, Load(2, max_queries=2000), 1, 1000, True)
    # The first asks from 0 to 10 s, the second from 4 to 24 s.
    assert active_span(algorithm.answers()) == pytest.approx((4, 10))
    assert run.facts["queries_counted"] == pytest.approx(600 + 300, abs=2)
    assert 1 / run.seconds_per_query == pytest.approx(150, rel=0.01)


def test_clients_that_never_met_are_an_error():
    algorithm = Sleeping(late=60.0)
    with pytest.raises(UserError, match="was done before the last had begun: give them more to do"):
        measure_clients(algorithm, np.zeros((100, 4)), 1, Load(2), 1, 100, True)
    assert algorithm.closed


def test_each_number_of_clients_is_a_series_and_is_found_finished(folder: Path):
    make_dataset(folder / "data" / "small.hdf5")
    options = ("--clients", "1,3,1", "--max-queries", "120")
    out = our_run(folder, "small", "pgvector_ivfflat", *options)
    assert out.count("QPS") == 14
    assert "by 1 client: recall" in out
    assert "by 3 clients: recall" in out
    for clients in (1, 3):
        files = list((folder / "results/small/10" / f"pgvector_ivfflat-c{clients}").glob("*.hdf5"))
        assert len(files) == 7
        for path in files:
            with h5py.File(path) as file:
                assert file.attrs["algo"] == f"pgvector_ivfflat-c{clients}"
                assert file.attrs["clients"] == clients
                assert file.attrs["settings"]
                assert file["neighbors"].shape == (50, 10)
                assert len(file["times"]) == file.attrs["queries_counted"] <= 120
    files[0].unlink()
    assert our_run(folder, "small", "pgvector_ivfflat", *options).count("QPS") == 1
    run(folder, sys.executable, str(ROOT / "plot.py"), "--dataset", "small")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients", "0"], "'0' is not a whole number of at least 1"),
        (["--clients", "1,x"], "'x' is not a whole number"),
        (["--clients", "2", "--batch"], "--clients cannot be had with --batch"),
        (["--duration", "3"], "add --clients"),
        (["--clients", "2", "--duration", "3", "--max-queries", "9"], "give one of them"),
        (["--clients", "2", "--duration", "0"], "'0' is not a number above 0"),
        (["--clients", "2"], "cannot be asked by clients: leave --clients out"),
    ],
)
def test_options_that_make_no_sense_are_one_line(folder: Path, options: list[str], message: str):
    make_dataset(folder / "data" / "small.hdf5")
    command = ["run.py", "--local", "--dataset", "small", "--algorithm", "bruteforce-numpy", *options]
    done = subprocess.run(
        [sys.executable, ROOT / command[0], *command[1:]], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
