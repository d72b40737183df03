"""Processes that serve several connections: none of their clients waits for another."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest

from ann_benchmarks.algorithms.postgres.clients import pool
from ann_benchmarks.algorithms.postgres.clients.pool import ClientPool
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server, machine
from ann_benchmarks.algorithms.postgres.session.statement import QueryStatement
from ann_benchmarks.algorithms.postgres.table import VectorColumn

from .client_answers import ids_of

pytestmark = pytest.mark.thorough

SLEEP = "SELECT 7 FROM pg_sleep(vector_norm($1::vector))"
# Beyond a row, it sleeps; what the rows before it filled has been sent by then.
IN_PARTS = (
    "SELECT i, CASE WHEN i = 4000 THEN pg_sleep(vector_norm($1::vector)) END FROM generate_series(1, 4500) i"
)
SECONDS = np.array([[0.001], [2.0]], dtype=np.float32)  # that the queries 0 and 1 sleep for
FAST, SLOW = 0, 1


@contextmanager
def sleepers(server: Server, clients: int, processes: int, sql: str = SLEEP) -> Iterator[ClientPool]:
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    statement = QueryStatement(server.connection_parameters(), sql, VectorColumn(1), "[0]", {}, None)
    with closing(ClientPool(statement, SECONDS, clients, processes=processes)) as opened:
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
        with pytest.raises(PostgresError, match="^client 1 of 2: the connection was lost: ") as caught:
            clients.run()
    assert "\n" not in str(caught.value)


def test_several_sessions_of_a_process_connect_and_report_alike(server: Server) -> None:
    with sleepers(server, 40, 2) as clients:
        assert len({member.backend for member in clients.members}) == 40
        processes = [member.process for member in clients.members]
        assert processes == sorted(processes, key=processes.index) and len(set(processes)) == 2
        clients.prepare([np.array([FAST])] * 40)
        clients.run()
        assert sum(len(given.sent) for given in clients.answers()) == 40


def test_a_core_has_a_process_which_serves_several_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    assert [pool.processes_for(clients) for clients in (1, 2, 32)] == [1, 2, 2]
    monkeypatch.setattr(pool, "HAS_EPOLL", False)  # as on other systems than Linux
    assert pool.processes_for(32) == 32
