"""pgbench as the clients: what it is told, what its log says, and what is left when something goes wrong."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.algorithms.postgres.clients import pgbench
from ann_benchmarks.algorithms.postgres.clients.pgbench import PgbenchClients, PgbenchProgram, find_pgbench
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation
from ann_benchmarks.algorithms.postgres.statement import QueryStatement
from ann_benchmarks.algorithms.postgres.watching import CLIENT_APPLICATION

from .postgres_fixtures import clustered
from .programs import has_ended, temporary_folder, until

TRAIN = clustered(2000, 16, seed=11)
QUERIES = TRAIN[:40]
PROGRAM = embedded_installation() / "bin" / "pgbench"
OURS = PgbenchProgram(PROGRAM, server_account())


@pytest.fixture
def statement(plugin_server: Server) -> Iterator[QueryStatement]:
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    algorithm.fit(TRAIN)
    algorithm.set_query_arguments(40)
    yield algorithm.statement(QUERIES[0], 10)
    algorithm.done()


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files of all accounts, as /tmp is."""
    with temporary_folder() as folder:
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def opened(statement: QueryStatement, server: Server, temporary: Path, monkeypatch) -> Iterator:
    """Open clients of pgbench; neither a table nor a file nor a process is left of them afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    open_ones: list[PgbenchClients] = []

    def opened(clients: int = 2, skew: float | None = None, **changes) -> PgbenchClients:
        open_ones.append(PgbenchClients(replace(statement, **changes), QUERIES, clients, OURS, skew))
        return open_ones[-1]

    yield opened
    for one in open_ones:
        one.close()
    assert tables(server) == []
    assert not list(temporary.iterdir())
    assert not [child for child in psutil.Process().children() if child.name() == "pgbench"]


def tables(server: Server) -> list[str]:
    with server.connect() as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'pgbench%'")
        return [name for (name,) in rows]


def ask(clients: PgbenchClients, orders: list[np.ndarray], seconds: float | None = None) -> list:
    clients.prepare(orders, seconds)
    clients.run()
    return clients.answers()


def test_each_client_sends_so_many_queries(opened):
    clients = opened(3)
    assert clients.version.startswith("pgbench (PostgreSQL)")
    for _ in range(2):
        answers = ask(clients, [np.arange(50)] * 3)
        assert [len(given.sent) for given in answers] == [50] * 3
        for given in answers:
            assert given.due is None
            assert (given.numbers == -1).all()
            assert not len(given.sampled) and given.rows is None
            assert (given.answered > given.sent).all()
            # The next is sent when the last is answered, which microseconds may not tell apart.
            assert (given.sent[1:] >= given.answered[:-1] - 2e-6).all()
            assert 0 < given.cpu_seconds < 1
        assert min(given.sent[0] for given in answers) == 0
        sent, answered = answers[0].sent[0], answers[0].answered[-1]
        assert 0.3 < clients.queries_per_second * (answered - sent) / 150 < 3
        assert clients.answers() == []


@pytest.mark.parametrize(("form", "arguments"), [("halfvec", (40,)), ("bit_hamming", (40, 20))])
def test_every_form_of_an_index_is_used(plugin_server: Server, form: str, arguments: tuple[int, ...]):
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32, "form": form})
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(*arguments)
        clients = PgbenchClients(algorithm.statement(QUERIES[0], 10), QUERIES, 1, OURS)  # looks at the plan
        try:
            assert [len(given.sent) for given in ask(clients, [np.arange(7)])] == [7]
        finally:
            clients.close()
    finally:
        algorithm.done()


def test_latencies_and_throughput_are_those_that_pgbench_prints(opened, monkeypatch):
    clients = opened(2)
    printed = []
    monkeypatch.setattr(
        "ann_benchmarks.algorithms.postgres.clients.pgbench._queries_per_second",
        lambda said: printed.append(said) or 1.0,
    )
    answers = ask(clients, [np.arange(500)] * 2)
    (average,) = [line.split()[3] for line in printed[0].splitlines() if line.startswith("latency average")]
    latencies = np.concatenate([given.answered - given.sent for given in answers])
    # What it prints has the time between two queries in it.
    assert 0.5 * float(average) < 1000 * latencies.mean() <= 1.01 * float(average)
    assert "query mode: prepared" in printed[0]
    assert "number of threads: 2" in printed[0] or machine.cores() == 1


def test_for_a_time_instead_of_a_number(opened):
    clients = opened(2)
    answers = ask(clients, [np.arange(3)] * 2, 0.4)  # whole seconds: 1
    for given in answers:
        assert 0.7 < given.answered[-1] - given.sent[0] < 5
    asked = sum(len(given.sent) for given in answers)
    assert 0.7 < asked / clients.queries_per_second < 5


def test_a_rate_counts_from_when_a_query_was_due(opened):
    clients = opened(2)
    clients.prepare_arrivals(np.linspace(0.01, 2, 400), np.zeros(400, dtype=int), 1.0)
    clients.run()
    answers = clients.answers()
    asked = sum(len(given.sent) for given in answers)
    assert asked == pytest.approx(400, abs=6 * np.sqrt(400))
    assert clients.queries_per_second == pytest.approx(200, rel=0.4)
    for given in answers:
        assert (given.sent >= given.due).all()
        assert (given.answered >= given.sent).all()
        assert (np.diff(given.due) >= 0).all()
    dues = np.sort(np.concatenate([given.due for given in answers]))
    assert dues[0] == 0
    assert dues[-1] == pytest.approx(2, abs=0.3)
    # Exponential gaps: their deviation is their mean. A steady rate's would be 0.
    assert np.diff(dues).std() / np.diff(dues).mean() == pytest.approx(1, abs=0.4)


def test_more_than_the_server_can_do_waits(opened):
    clients = opened(1, sql="SELECT 1 FROM (SELECT pg_sleep(0.02), vector_dims($1)) AS slow", index=None)
    clients.prepare_arrivals(np.linspace(0, 1, 500), np.zeros(500, dtype=int), 1.0)
    clients.run()
    (given,) = clients.answers()
    assert 5 < len(given.sent) <= 50
    assert 0.02 <= np.median(given.answered - given.sent) < 0.2
    assert (given.answered - given.due)[-1] > 0.5


def test_queries_are_drawn_alike_or_by_popularity(opened, server: Server):
    """What is asked for is seen in a query that writes down what it is given."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE drawn (v vector)")
        connection.execute(
            "CREATE FUNCTION note(vector) RETURNS int VOLATILE LANGUAGE sql AS"
            " 'INSERT INTO drawn VALUES ($1) RETURNING 1'"
        )
        try:
            counts = {}
            for skew in (None, 1.5):
                connection.execute("TRUNCATE drawn")
                ask(opened(2, skew, sql="SELECT note($1)", index=None), [np.arange(500)] * 2)
                rows = connection.execute("SELECT v::text, count(*) FROM drawn GROUP BY v").fetchall()
                given = {tuple(np.array(text[1:-1].split(","), np.float32)): count for text, count in rows}
                counts[skew] = np.array([given.get(tuple(query), 0) for query in QUERIES])
                assert counts[skew].sum() == 1000
        finally:
            connection.execute("DROP FUNCTION note; DROP TABLE drawn")
    assert (counts[None] > 5).all()
    assert (counts[None] < 60).all()
    shares = np.arange(1, 41) ** -1.5
    assert counts[1.5][0] == pytest.approx(1000 * shares[0] / shares.sum(), rel=0.25)
    assert counts[1.5].argmax() == 0
    assert counts[1.5][1] == pytest.approx(counts[1.5][0] * shares[1], rel=0.4)


def test_a_skew_that_pgbench_lacks_is_told(opened):
    with pytest.raises(PostgresError, match=r"has Zipf distributions of 1.001 to 1000, not of 0.8"):
        opened(skew=0.8)


def test_the_sessions_are_those_of_a_client(opened, server: Server):
    path = r'"a b\c", public'
    clients = opened(
        2,
        sql="SELECT 1 / (current_setting('hnsw.ef_search') = '43')::int, pg_sleep(2), $1,"
        f" 1 / (current_setting('search_path') = $${path}$$)::int",
        index=None,
        settings={"hnsw.ef_search": "43", "search_path": path},
    )
    clients.prepare([np.arange(1)] * 2)
    thread = threading.Thread(target=clients.run)
    named = "SELECT FROM pg_stat_activity WHERE application_name = %s"
    with server.connect() as connection:
        thread.start()
        until(lambda: connection.execute(named, [CLIENT_APPLICATION]).rowcount == 2)
    thread.join()
    assert [len(given.sent) for given in clients.answers()] == [1, 1]


def test_a_query_that_does_not_use_the_index_is_told(opened, statement: QueryStatement, server: Server):
    with pytest.raises(PostgresError, match="pgbench's query does not scan the whole table but uses "):
        opened(index=None)
    with pytest.raises(PostgresError, match="pgbench's query does not use the index .* but scans the whole"):
        opened(sql=statement.sql.replace("<->", "<#>"))
    assert tables(server) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hnsw.ef_search": "0"}, r"the server refuses hnsw.ef_search = 0: .*outside the valid range"),
        ({"no_such": "1"}, r'cannot connect .*unrecognized configuration parameter "no_such"'),
    ],
)
def test_settings_that_the_server_refuses_are_told(opened, settings: dict[str, str], message: str):
    with pytest.raises(PostgresError, match=message):
        opened(settings=settings)


def test_an_error_of_the_server_is_told_at_once(opened, server: Server):
    sql = "SELECT 1 / (extract(epoch FROM clock_timestamp())::int % 1), $1"
    started = time.monotonic()
    with pytest.raises(PostgresError, match="pgbench failed: client .*division by zero") as caught:
        ask(opened(2, sql=sql, index=None), [np.arange(10)] * 2, 30)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 25
    assert tables(server) == []


def test_a_lost_connection_is_told(opened, server: Server):
    clients, is_over = opened(2), threading.Event()

    def end_backends() -> None:
        """End one after the other: the first may be that of a session that was closed before."""
        one = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s LIMIT 1"
        with server.connect() as connection:
            while not is_over.wait(0.3):
                connection.execute(one, [CLIENT_APPLICATION])

    ending = threading.Thread(target=end_backends)
    ending.start()
    try:
        with pytest.raises(PostgresError, match=r"pgbench failed: .*(terminating|died|closed)"):
            ask(clients, [np.arange(10)] * 2, 30)
    finally:
        is_over.set()
        ending.join()


def test_a_killed_pgbench_is_told(opened):
    clients = opened(2)

    def kill_one() -> bool:
        programs = [child for child in psutil.Process().children() if child.name() == "pgbench"]
        for program in programs:
            program.kill()
        return bool(programs)

    threading.Timer(0.5, until, [kill_one]).start()  # on a busy machine it takes a while to be there
    with pytest.raises(PostgresError, match="pgbench was ended by SIGKILL"):
        ask(clients, [np.arange(10)] * 2, 30)


def test_pgbench_is_found_or_it_is_said_where_it_was_looked_for(tmp_path: Path, monkeypatch):
    assert find_pgbench(PROGRAM.parent) == PROGRAM
    monkeypatch.setenv("PATH", str(PROGRAM.parent))
    assert find_pgbench(tmp_path) == PROGRAM
    assert find_pgbench(None) == PROGRAM
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_BIN", str(PROGRAM.parent))
    assert find_pgbench(None) == PROGRAM
    monkeypatch.delenv("ANN_BENCHMARKS_PG_BIN")
    with pytest.raises(
        PostgresError, match=f"no pgbench in {tmp_path}, PATH: install .*ANN_BENCHMARKS_PG_BIN"
    ):
        find_pgbench(tmp_path)


def test_a_program_that_does_not_run_is_told(statement: QueryStatement, server: Server, tmp_path: Path):
    with pytest.raises(PostgresError, match="pgbench does not run: No such file"):
        PgbenchClients(statement, QUERIES, 1, PgbenchProgram(tmp_path / "pgbench"))
    assert tables(server) == []


PARENT = """
import sys
import numpy as np
from pathlib import Path
from ann_benchmarks.algorithms.postgres.clients.pgbench import PgbenchClients, PgbenchProgram
from ann_benchmarks.algorithms.postgres.columns import VectorColumn
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.statement import QueryStatement

program = PgbenchProgram(Path({program!r}), server_account())
clients = PgbenchClients({statement!r}, np.ones((4, 16), np.float32), 2, program)
clients.prepare([np.arange(4)] * 2, seconds=60)
print("ready", flush=True)
clients.run()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_ends_leaves_no_pgbench(
    opened, statement: QueryStatement, server: Server, number, temporary: Path
):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(statement=statement, program=str(PROGRAM))],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.stdout.close()
    until(lambda: list(temporary.glob("ann-pgbench-*/log.*")))  # in the middle of a run
    [program] = psutil.Process(parent.pid).children()
    assert program.name() == "pgbench"
    parent.send_signal(number)
    parent.wait()
    until(lambda: has_ended(program))
    if number == signal.SIGINT:
        assert tables(server) == []
        assert not list(temporary.glob("ann-pgbench-*"))
    else:
        assert len(list(temporary.glob("ann-pgbench-*"))) == 1  # the next run removes it
        assert len(tables(server)) == 1
        first = opened()  # the next one drops what is left, and not what is in use
        assert tables(server) == [first._queries.name.partition(".")[2]]
        second = opened()
        assert len(tables(server)) == 2
        assert all(len(ask(one, [np.arange(2)] * 2)) == 2 for one in (first, second))


def test_a_log_that_is_in_use_stays(temporary: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pgbench._log_folder(OURS.account) as first, pgbench._log_folder(OURS.account) as second:
        assert {first, second} == set(temporary.iterdir())
    assert not list(temporary.iterdir())
