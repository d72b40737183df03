"""Clients and their processes: what they measure, and what is left when something dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.clients.pool import ClientPool
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server

from .client_answers import ids_of
from .postgres_fixtures import clustered

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
    starts = [given.sent[0] for given in answers]
    assert max(starts) - min(starts) < 0.2


def test_for_a_time_instead_of_a_number(pool: ClientPool):
    ask(pool, [np.array([1, 2, 3])] * 3, 0.3)
    for given in pool.answers():
        assert 0.25 < given.answered[-1] - given.sent[0] < 0.6
        assert (given.numbers == np.resize([1, 2, 3], len(given.numbers))).all()
        assert len(given.numbers) > 20
        assert set(ids_of(given)) <= {1, 2, 3}


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
    with pytest.raises(PostgresError, match="client 3 of 3: .*connection") as caught:
        ask(pool, [np.arange(40)] * 3)
        pool.answers()
    assert "\n" not in str(caught.value)
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
