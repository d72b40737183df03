"""Clients and their processes: what they measure, and what is left when something dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from threadpoolctl import threadpool_info

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.clients import pool as pools
from ann_benchmarks.algorithms.postgres.clients.pool import ClientPool
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server, machine
from ann_benchmarks.algorithms.postgres.session.statement import QueryStatement
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.clients import ThreadClients, open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.plugin import Plugin

from .client_answers import ids_of
from .postgres_fixtures import clustered
from .programs import one_line

pytestmark = pytest.mark.thorough

K = 10
TRAIN = clustered(2000, 16, seed=11)
QUERIES = TRAIN[:40]


@pytest.fixture(autouse=True)
def members_are_forks() -> None:
    """Here they are not: what starts them is tested."""


@pytest.fixture
def algorithm(plugin_server: Server):
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    algorithm.fit(TRAIN)
    algorithm.set_query_arguments(40)
    yield algorithm
    algorithm.done()


@pytest.fixture(params=[3, 2, 1])
def pool(algorithm, request):
    """Three clients in so many processes."""
    pool = ClientPool(algorithm.statement(QUERIES[0], K), QUERIES, 3, processes=request.param)
    yield pool
    pool.close()


def ask(pool: ClientPool, orders: list[np.ndarray], seconds: float | None = None) -> None:
    pool.prepare(orders, seconds)
    pool.run()


def test_each_client_asks_what_it_is_told_in_its_order(pool: ClientPool, algorithm):
    orders = [np.arange(40), np.arange(40)[::-1], np.array([5, 5, 7])]
    for _ in range(2):
        ask(pool, orders)
        answers = pool.answers()
        for order, given in zip(orders, answers, strict=True):
            assert (given.numbers == order).all()
            assert set(ids_of(given)) <= set(order)
            assert (given.answered > given.sent).all()
            assert (given.sent[1:] >= given.answered[:-1]).all()
            assert 0 <= given.cpu_seconds < given.answered[-1] - given.sent[0] + 0.1
    true = {number: algorithm.query(query, K) for number, query in enumerate(QUERIES)}
    found = [ids_of(given) for given in answers]
    assert found[0] | found[1] | found[2] == true
    assert all(ids.items() <= true.items() for ids in found)


def test_for_a_time_instead_of_a_number(pool: ClientPool):
    ask(pool, [np.array([1, 2, 3])] * 3, 0.5)
    answers = pool.answers()
    for given in answers:
        assert given.sent[-1] - given.sent[0] <= 0.5
        assert (given.numbers == np.resize([1, 2, 3], len(given.numbers))).all()
        assert set(ids_of(given)) <= {1, 2, 3}
    assert max(given.answered[-1] - given.sent[0] for given in answers) > 0.4
    assert max(len(given.numbers) for given in answers) > 20
    assert max(given.sent[0] for given in answers) < min(given.answered[-1] for given in answers)


def test_every_client_is_a_connection_of_its_own(pool: ClientPool, server: Server, request):
    backends = list({member.backend for member in pool.members})
    with server.connect() as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [backends])
        assert found.rowcount == 3
    processes = {member.process for member in pool.members}
    assert len(processes - {os.getpid()}) == request.node.callspec.params["pool"]


def test_a_killed_process_ends_all_and_its_clients_are_named(pool: ClientPool):
    children = {number: psutil.Process(member.process) for number, member in enumerate(pool.members)}
    name = {
        3: "client 2 of 3",
        2: "the process of clients 1 to 2 of 3",
        1: "the process of clients 1 to 3 of 3",
    }
    children[1].send_signal(signal.SIGKILL)
    with pytest.raises(PostgresError, match=f"^{name[len(set(children.values()))]} ended before it answered"):
        ask(pool, [np.arange(40)] * 3, 5)
    _, alive = psutil.wait_procs(children.values(), timeout=60)
    assert not alive


def test_a_lost_connection_ends_all_and_says_why(pool: ClientPool, server: Server):
    with server.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [pool.members[2].backend])
    with one_line("client 3 of 3: .*connection"):
        ask(pool, [np.arange(40)] * 3)
        pool.answers()
    assert not len(pool)


def test_a_wrong_plan_is_told_before_anything_is_measured(algorithm, server: Server):
    statement = algorithm.statement(QUERIES[0], K)
    with server.connect() as connection:
        connection.execute(
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{statement.index}'::regclass"
        )
    try:
        with pytest.raises(PostgresError, match=r"client \d of 2: the query does not use the index"):
            ClientPool(statement, QUERIES, 2)
    finally:
        with server.connect() as connection:
            connection.execute(
                f"UPDATE pg_index SET indisvalid = true WHERE indexrelid = '{statement.index}'::regclass"
            )


PARENT = """
import sys, numpy as np
from ann_benchmarks.algorithms.postgres.clients.pool import ClientPool
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.session.statement import QueryStatement

statement = QueryStatement({parameters!r}, {sql!r}, VectorColumn(16), {example!r}, {{}}, {index!r})
pool = ClientPool(statement, np.zeros((4, 16), np.float32), 4, processes={processes})
print(pool._spawner.pid, *[member.process for member in pool.members], flush=True)
pool.prepare([np.arange(4)] * 4, seconds=60)
pool.run()
"""


@pytest.mark.parametrize("processes", [4, 2])
def test_a_killed_parent_leaves_no_client(algorithm, tmp_path: Path, processes: int):
    statement = algorithm.statement(QUERIES[0], K)
    script = tmp_path / "parent.py"
    script.write_text(
        PARENT.format(
            parameters=dict(statement.parameters),
            sql=statement.sql,
            example=statement.example,
            index=statement.index,
            processes=processes,
        )
    )
    root = Path(__file__).parents[1]
    parent = subprocess.Popen(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    children = [psutil.Process(pid) for pid in {int(pid) for pid in parent.stdout.readline().split()}]
    assert len(children) == processes + 1  # the one that they came from
    time.sleep(0.3)  # in the middle of a run
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_clients_at_rest_are_the_next_ones_by_connections_of_their_own(plugin_server: Server, algorithm):
    first = algorithm.open_clients(QUERIES, K, 3)
    ask(first, [np.arange(40)] * 3)
    few = ids_of(first.answers()[0])
    processes, backends = [{getattr(m, name) for m in first.members} for name in ("process", "backend")]
    first.close()
    with plugin_server.connect() as connection:
        left = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [list(backends)])
        assert left.rowcount == 0
    algorithm.set_query_arguments(1)
    second = algorithm.open_clients(QUERIES, K, 3)
    assert {member.process for member in second.members} == processes
    assert not backends & {member.backend for member in second.members}
    assert json.loads(algorithm.get_additional()["settings"])["hnsw.ef_search"] == "1"
    ask(second, [np.arange(40)] * 3)
    answers = ids_of(second.answers()[0])
    assert answers == {number: algorithm.query(query, K) for number, query in enumerate(QUERIES)} != few


def test_clients_at_rest_end_where_others_are_asked_for(algorithm):
    first = algorithm.open_clients(QUERIES, K, 3)
    children = [psutil.Process(member.process) for member in first.members]
    first.close()
    second = algorithm.open_clients(QUERIES[:20], K, 3)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    children = [psutil.Process(member.process) for member in second.members]
    second.close()
    algorithm.done()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_clients_whose_run_was_broken_off_do_not_rest(algorithm):
    pool = algorithm.open_clients(QUERIES, K, 3)
    ask(pool, [np.arange(40)] * 3)  # and nobody takes the answers
    pool.close()
    assert not len(pool)
    pool = algorithm.open_clients(QUERIES, K, 3)
    pool.prepare([np.arange(40)] * 3)  # and nobody gives the word
    pool.close()
    assert not len(pool)


# Clients of plug-ins without a database: what they measure, and what they leave behind after a failure.


NUMBERS = np.repeat(np.arange(20, dtype=np.float32), 2).reshape(20, 2)  # each is its own number, twice
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
        open_ones.append(open_clients(Plugin(kind()), NUMBERS, 1, Load(clients)))
        return open_ones[-1]

    yield opened
    for one in open_ones:
        one.close()
    assert threading.active_count() == threads


def ask_threads(clients, orders: list[np.ndarray], seconds: float | None = None) -> list:
    clients.prepare(orders, seconds)
    clients.run()
    return list(clients.answers())


def ask_at(clients, due: np.ndarray, numbers: np.ndarray, patience: float = 5.0) -> list:
    clients.prepare_arrivals(due, numbers, patience)
    clients.run()
    return list(clients.answers())


def test_each_thread_asks_what_it_is_told_in_its_order(opened):
    clients = opened(Sleeping)
    orders = [np.arange(20), np.arange(20)[::-1], np.array([5, 5, 7]), np.array([], dtype=int)]
    for some in (orders[:3], orders[1:]):
        answers = ask_threads(clients, some)
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


def test_a_plug_in_may_fill_the_same_array_again(opened):
    (given,) = ask_threads(opened(Sleeping, 1), [np.arange(20)])
    assert [ids[0] for ids in ids_of(given).values()] == list(range(20))


def test_cpu_is_that_of_the_client(opened):
    for given in ask_threads(opened(Computing, 2), [np.arange(10)] * 2):
        assert given.cpu_seconds == pytest.approx(15 * SECONDS, abs=5 * SECONDS)


def test_clients_share_the_cores_and_do_not_fight_for_them(opened):
    before = native_threads()
    clients = opened(Native, 2)
    assert [ids_of(given)[0] for given in ask_threads(clients, [np.zeros(1, dtype=int)] * 2)] == [[1], [1]]
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
        assert [len(given.numbers) for given in ask_threads(clients, [np.arange(2), np.arange(3)])] == [2, 3]
    assert [len(given.due) for given in ask_at(clients, np.zeros(0), np.arange(0))] == [0, 0]


def test_an_error_names_the_client_and_ends_all(opened):
    clients = opened(Failing)
    with pytest.raises(UserError, match="client 2 of 3: ValueError: no such vector$"):
        ask_threads(clients, [np.arange(3), np.arange(6, 9), np.arange(3)], None)


def test_an_error_ends_those_that_would_go_on_for_long(opened):
    started = time.perf_counter()
    with pytest.raises(UserError, match="client 1 of 2"):
        ask_threads(opened(Failing, 2), [np.array([0, 7]), np.array([0])], 30)
    with pytest.raises(UserError, match=r"client \d of 2"):
        ask_at(opened(Failing, 2), np.array([0.0, 30.0]), np.array([7, 0]))
    assert time.perf_counter() - started < 20


# Processes that serve several connections: none of their clients waits for another.


SLEEPS = "SELECT 7 FROM pg_sleep(vector_norm($1::vector))"
# Beyond a row, it sleeps; what the rows before it filled has been sent by then.
IN_PARTS = (
    "SELECT i, CASE WHEN i = 4000 THEN pg_sleep(vector_norm($1::vector)) END FROM generate_series(1, 4500) i"
)
SLEPT = np.array([[0.001], [2.0]], dtype=np.float32)  # Queries 0 and 1 sleep for these seconds.
FAST, SLOW = 0, 1


@contextmanager
def sleepers(server: Server, clients: int, processes: int, sql: str = SLEEPS) -> Iterator[ClientPool]:
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    statement = QueryStatement(server.connection_parameters(), sql, VectorColumn(1), "[0]", {}, None)
    with closing(ClientPool(statement, SLEPT, clients, processes=processes)) as opened:
        yield opened


def test_a_slow_query_holds_no_other_client_of_its_process_up(server: Server) -> None:
    with sleepers(server, 2, 1) as clients:
        clients.prepare([np.array([SLOW]), np.full(40, FAST)])
        clients.run()
        slow, fast = clients.answers()
    assert fast.answered[-1] < slow.answered[0]
    assert ids_of(slow) == {SLOW: [7]} and ids_of(fast) == {FAST: [7]}
    assert slow.rows.tolist() == [1] and fast.rows.tolist() == [1] * 40
    assert (fast.sent[1:] >= fast.answered[:-1]).all()


def test_an_answer_that_comes_in_parts_holds_none_up_and_is_whole(server: Server) -> None:
    with sleepers(server, 2, 1, IN_PARTS) as clients:
        clients.prepare([np.array([SLOW]), np.full(5, FAST)])
        clients.run()
        slow, fast = clients.answers()
    assert fast.answered[-1] < slow.answered[0]
    assert slow.rows.tolist() == [4500]
    assert ids_of(slow)[SLOW] == ids_of(fast)[FAST] == list(range(1, 4501))


def test_a_client_may_have_nothing_to_send(server: Server) -> None:
    with sleepers(server, 3, 2) as clients:
        for _ in range(2):
            clients.prepare([np.array([FAST]), np.array([], dtype=int), np.array([], dtype=int)])
            clients.run()
            assert [len(given.sent) for given in clients.answers()] == [1, 0, 0]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_arrivals_are_taken_by_whichever_connection_is_free(server: Server, processes: int) -> None:
    due = np.array([0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.15, 0.2])
    numbers = np.array([SLOW, SLOW, SLOW, FAST, FAST, FAST, FAST, FAST])
    with sleepers(server, 4, processes) as clients:
        clients.prepare_arrivals(due, numbers, 5.0)
        clients.run()
        answers = clients.answers()
    sent, slow = [
        np.concatenate(parts) for parts in zip(*[(a.sent, a.numbers == SLOW) for a in answers], strict=True)
    ]
    when_due = np.concatenate([given.due for given in answers])
    assert (sent >= when_due).all()
    assert sorted(when_due - when_due.min()) == pytest.approx(due)
    assert sorted(np.concatenate([given.numbers for given in answers])) == sorted(numbers)
    # Three sleep: the fourth one takes all that comes meanwhile.
    answered = np.concatenate([given.answered for given in answers])
    assert sent[slow].max() < answered[~slow].min() and answered[~slow].max() < answered[slow].min()
    assert sorted(len(given.sent) for given in answers) == [1, 1, 1, 5]
    assert {number for given in answers for number in ids_of(given)} == {FAST, SLOW}


def test_what_nobody_is_free_for_waits_and_is_not_sent_after_the_end(server: Server) -> None:
    due = np.array([0.0, 0.0, 0.01, 0.02, 0.03])
    with sleepers(server, 2, 1) as clients:
        clients.prepare_arrivals(due, np.array([SLOW] * 5), 3.0)
        clients.run()
        answers = clients.answers()
    # At 0 two are sent, at 2 s two more; the fifth could be sent at 4 s only, and 3.03 s is the end.
    assert [len(given.sent) for given in answers] == [2, 2]
    for given in answers:
        assert given.sent[1] >= given.answered[0]


def test_a_connection_that_is_lost_while_its_client_is_free_is_named(server: Server) -> None:
    with sleepers(server, 2, 1) as clients:
        clients.prepare_arrivals(np.array([0.0, 0.3]), np.array([FAST, SLOW]), 5.0)

        def terminate() -> None:
            with server.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", [clients.members[0].backend])

        threading.Timer(0.1, terminate).start()
        with one_line("^client 1 of 2: the connection was lost: "):
            clients.run()


def test_a_core_has_a_process_which_serves_several_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    assert [pools.processes_for(clients) for clients in (1, 2, 32)] == [1, 2, 2]
    monkeypatch.setattr(pools, "HAS_EPOLL", False)  # as on other systems than Linux
    assert pools.processes_for(32) == 32
