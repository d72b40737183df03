"""Clients of plug-ins that are no database: what they measure, and what is left when something goes wrong."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.algorithms.bruteforce.module import ExactScan
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.clients import ThreadClients, open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.plugin import Plugin

from .client_answers import ids_of

pytestmark = pytest.mark.thorough

QUERIES = np.repeat(np.arange(20, dtype=np.float32), 2).reshape(20, 2)  # each is its own number, twice
SECONDS = 0.01


class Sleeping(BaseANN):
    """Takes a known time for each query, and answers with its number, always in the same array."""

    def __init__(self) -> None:
        self.answer = np.zeros(1, dtype=np.int64)

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        time.sleep(SECONDS)
        self.answer[0] = q[0]
        return self.answer


class Stalling(BaseANN):
    """Stands still at query 10, as it lies on the disk, and is quick otherwise."""

    def query(self, q: np.ndarray, n: int) -> list[int]:
        time.sleep(0.4 if q[0] == 10 else 0.001)
        return [0]


class Failing(BaseANN):
    """Cannot answer query 7, and takes its time for all others."""

    def query(self, q: np.ndarray, n: int) -> list[int]:
        if q[0] == 7:
            raise ValueError("no such\nvector")
        time.sleep(0.05)
        return [0]


class Computing(BaseANN):
    """Takes CPU of its own client."""

    def query(self, q: np.ndarray, n: int) -> list[int]:
        until = time.thread_time() + SECONDS
        while time.thread_time() < until:
            pass
        return [0]


class Client(BaseANN):
    """Answers with the thread that asks."""

    def query(self, q: np.ndarray, n: int) -> list[int]:
        time.sleep(0.001)
        return [threading.get_ident()]


def native_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info())


class Native(BaseANN):
    """Answers with the number of threads that BLAS would use."""

    def query(self, q: np.ndarray, n: int) -> list[int]:
        return [native_threads()]


@pytest.fixture
def opened() -> Iterator:
    """Open clients; nothing of them is left afterwards."""
    threads, open_ones = threading.active_count(), []

    def opened(kind: type[BaseANN], clients: int = 3) -> ThreadClients:
        open_ones.append(open_clients(Plugin(kind()), QUERIES, 1, Load(clients)))
        return open_ones[-1]

    yield opened
    for one in open_ones:
        one.close()
    assert threading.active_count() == threads


def ask(clients, orders: list[np.ndarray], seconds: float | None = None) -> list:
    clients.prepare(orders, seconds)
    clients.run()
    return list(clients.answers())


def ask_at(clients, due: np.ndarray, numbers: np.ndarray, patience: float = 5.0) -> list:
    clients.prepare_arrivals(due, numbers, patience)
    clients.run()
    return list(clients.answers())


def test_each_client_is_a_thread_of_its_own(opened):
    clients = opened(Client)
    for _ in range(2):
        answers = ask(clients, [np.arange(3)] * 3)
        assert len({tuple(ids_of(given)[0]) for given in answers}) == 3


def test_each_client_asks_what_it_is_told_in_its_order(opened):
    clients = opened(Sleeping)
    orders = [np.arange(20), np.arange(20)[::-1], np.array([5, 5, 7]), np.array([], dtype=int)]
    for some in (orders[:3], orders[1:]):
        answers = ask(clients, some)
        for order, given in zip(some, answers, strict=True):
            assert given.numbers.tolist() == order.tolist()
            assert given.due is None
            assert (given.answered - given.sent >= SECONDS).all()
            assert (given.sent[1:] >= given.answered[:-1]).all()
            assert set(ids_of(given)) == set(order)
            assert given.cpu_seconds < 0.1
        starts, *_, ends = zip(*[given.sent[[0, -1]] for given in answers if len(given.sent)], strict=True)
        assert max(starts) < max(ends)  # at the same time


def test_ids_are_kept_where_they_are_wanted(opened):
    clients = opened(Client, 2)
    clients.prepare([np.arange(3)] * 2, keeps_ids=False)
    clients.run()
    assert [ids_of(given) for given in clients.answers()] == [{}, {}]
    clients.prepare_arrivals(np.zeros(3), np.arange(3), 1.0, keeps_ids=False)
    clients.run()
    assert [ids_of(given) for given in clients.answers()] == [{}, {}]


def test_a_plug_in_may_fill_the_same_array_again(opened):
    (given,) = ask(opened(Sleeping, 1), [np.arange(20)])
    assert [ids[0] for ids in ids_of(given).values()] == list(range(20))


def test_cpu_is_that_of_the_client(opened):
    for given in ask(opened(Computing, 2), [np.arange(10)] * 2):
        assert given.cpu_seconds == pytest.approx(15 * SECONDS, abs=5 * SECONDS)


def test_clients_share_the_cores_and_do_not_fight_for_them(opened):
    before = native_threads()
    clients = opened(Native, 2)
    assert [ids_of(given)[0] for given in ask(clients, [np.zeros(1, dtype=int)] * 2)] == [[1], [1]]
    clients.close()
    assert native_threads() == before


def test_an_arrival_is_asked_when_it_is_due_by_whoever_is_free(opened):
    due = np.cumsum(np.full(240, 0.005))
    numbers = np.arange(240) % 20
    answers = ask_at(opened(Sleeping, 4), due, numbers)  # 200 a second: half of what they can do
    assert sorted(n for given in answers for n in given.numbers) == sorted(numbers)
    assert all(len(given.numbers) for given in answers)
    late = np.concatenate([given.sent - given.due for given in answers])
    assert (late >= 0).all()
    assert np.median(late) < 0.3  # one client alone would be later and later, by 0.6 s in the middle
    in_order = np.argsort(np.concatenate([given.due for given in answers]))
    assert (np.concatenate([given.numbers for given in answers])[in_order] == numbers).all()
    dues = np.sort(np.concatenate([given.due for given in answers]))
    assert np.diff(dues) == pytest.approx(0.005)


def test_what_nobody_takes_in_time_is_not_asked(opened):
    # All are due at once: each of two clients asks one every 10 ms, for 0.5 s.
    answers = ask_at(opened(Sleeping, 2), np.zeros(1000), np.zeros(1000, dtype=int), patience=0.5)
    assert 2 <= sum(len(given.numbers) for given in answers) <= 104
    assert all(given.due is not None for given in answers)


def test_an_open_and_a_closed_loop_follow_each_other(opened):
    clients = opened(Stalling, 2)
    for _ in range(2):
        assert sum(len(given.numbers) for given in ask_at(clients, np.zeros(5), np.arange(5))) == 5
        assert [len(given.numbers) for given in ask(clients, [np.arange(2), np.arange(3)])] == [2, 3]
    assert [len(given.due) for given in ask_at(clients, np.zeros(0), np.arange(0))] == [0, 0]


def test_an_error_names_the_client_and_ends_all(opened):
    clients = opened(Failing)
    with pytest.raises(UserError, match="client 2 of 3: ValueError: no such vector$"):
        ask(clients, [np.arange(3), np.arange(6, 9), np.arange(3)], None)


def test_an_error_ends_those_that_would_go_on_for_long(opened):
    started = time.perf_counter()
    with pytest.raises(UserError, match="client 1 of 2"):
        ask(opened(Failing, 2), [np.array([0, 7]), np.array([0])], 30)
    with pytest.raises(UserError, match=r"client \d of 2"):
        ask_at(opened(Failing, 2), np.array([0.0, 30.0]), np.array([7, 0]))
    assert time.perf_counter() - started < 20


def test_clients_share_the_index_and_answer_as_one_does():
    algo = ExactScan("euclidean")
    algo.fit(QUERIES)
    clients = open_clients(Plugin(algo), QUERIES, 3, Load(2))
    try:
        for given in ask(clients, [np.arange(20)] * 2):
            assert all((ids == algo.query(QUERIES[number], 3)).all() for number, ids in ids_of(given).items())
    finally:
        clients.close()
