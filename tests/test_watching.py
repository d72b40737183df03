"""What is seen of a server during a run, and an index brought into memory before it."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers import caches as prewarming
from ann_benchmarks.algorithms.postgres.servers.caches import cache_files, warm_index
from ann_benchmarks.algorithms.postgres.servers.libpq import connect
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.machine import busy_share, machine_cpu, server_processes
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.statistics import watch as watch_module
from ann_benchmarks.algorithms.postgres.statistics.counters import CLIENT_APPLICATION, FLUSH, WaitSampler
from ann_benchmarks.algorithms.postgres.statistics.watch import ServerWatch

from .postgres_fixtures import copied
from .programs import PATIENCE, temporary_folder, until

pytestmark = pytest.mark.thorough

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@contextmanager
def own_server(binaries: Path, made_server: Path | None = None) -> Iterator[LocalServer]:
    with temporary_folder() as folder:
        if made_server is not None:
            copied(made_server, folder / "server")
        server = LocalServer(binaries, folder / "server")
        server.start({"shared_buffers": "4MB", "fsync": "off"})
        yield server
        server.stop()


@pytest.fixture(scope="module")
def small(made_server: Path) -> Iterator[LocalServer]:
    """A server of 512 buffers, with a relation that fits and one that does not."""
    with own_server(embedded_installation() / "bin", made_server) as server:
        with server.connect() as connection:
            fill(connection, "few", 20_000)
            fill(connection, "many", 500_000)
        yield server


def fill(connection: psycopg.Connection[Any], table: str, rows: int) -> None:
    """A table of ids and texts, of which the first is kept apart, and two indexes of the ids."""
    connection.execute(f"CREATE TABLE {table} (id int4, said text)")
    connection.execute(f"ALTER TABLE {table} ALTER said SET STORAGE EXTERNAL")
    connection.execute(
        f"INSERT INTO {table} SELECT i, CASE WHEN i = 1 THEN repeat('long', 20000) END"
        f" FROM generate_series(1, {rows}) AS i"
    )
    connection.execute(f"CREATE INDEX {table}_index ON {table} (id)")
    connection.execute(f"CREATE INDEX {table}_other ON {table} (id DESC NULLS LAST)")
    connection.execute(f"VACUUM ANALYZE {table}")


def client(server: Server) -> psycopg.Connection[Any]:
    return connect(server.connection_parameters() | {"application_name": CLIENT_APPLICATION})


def watched(server: Server, relation: str, *statements: str, queries: int = 1) -> dict[str, Any]:
    """What is seen while a client runs statements."""
    watch = ServerWatch(server, relation, f"{relation}_index")
    with closing(watch), client(server) as connection:
        connection.execute(FLUSH)
        with watch.running():
            for statement in statements:
                connection.execute(statement)
        connection.execute(FLUSH)
        return watch.facts(queries)


def blocks(facts: dict[str, Any]) -> dict[str, float]:
    return {name.removesuffix("_per_query"): count for name, count in facts.items() if "_blocks_" in name}


def whole_index(relation: str) -> str:
    return f"SELECT count(*) FROM (SELECT id FROM {relation} ORDER BY id OFFSET 0) AS ids"


@pytest.fixture(scope="module")
def pages(small: Server) -> dict[str, int]:
    with small.connect() as connection:
        return dict(connection.execute("SELECT relname, relpages FROM pg_class").fetchall())


PLAIN_SCAN = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET max_parallel_workers_per_gather = 0",
)


def test_an_index_that_does_not_fit_is_read_and_one_that_fits_is_hit(small: Server, pages: dict[str, int]):
    seen = blocks(watched(small, "many", *PLAIN_SCAN, whole_index("many")))
    assert pages["many_index"] > 2 * 512
    assert seen["index_blocks_read"] == pytest.approx(pages["many_index"], rel=0.01)
    assert seen["index_blocks_hit"] < 0.05 * pages["many_index"]
    watched(small, "few", *PLAIN_SCAN, whole_index("few"))
    again = blocks(watched(small, "few", *PLAIN_SCAN, *[whole_index("few")] * 4, queries=4))
    assert again["index_blocks_read"] == 0
    assert again["index_blocks_hit"] == pytest.approx(pages["few_index"], rel=0.1)


def test_only_this_index_counts_and_what_is_kept_apart_is_the_tables(small: Server, pages: dict[str, int]):
    other = whole_index("few").replace("ORDER BY id", "ORDER BY id DESC NULLS LAST")
    seen = blocks(watched(small, "few", *PLAIN_SCAN, other))
    assert seen["index_blocks_hit"] + seen["index_blocks_read"] <= 1  # the planner looks at its first
    table = [*PLAIN_SCAN, "SET enable_indexscan = off", "SET enable_indexonlyscan = off"]
    short = blocks(watched(small, "few", *table, "SELECT count(*) FROM few"))
    assert short["table_blocks_hit"] + short["table_blocks_read"] == pages["few"]
    long = blocks(watched(small, "few", *table, "SELECT count(*), max(length(said || 'x')) FROM few"))
    apart = long["table_blocks_hit"] + long["table_blocks_read"] - pages["few"]
    assert apart > 80_000 / 8192


def test_without_an_index_and_without_statistics(small: Server):
    watch = ServerWatch(small, "few", None)
    with closing(watch), watch.running():
        pass
    assert not blocks(watch.facts(1))  # closed
    with closing(watch):
        for _ in range(2):
            with watch.running():
                time.sleep(0.1)
        assert "already exists" not in small.last_words()
        assert set(blocks(watch.facts(1))) == {"table_blocks_hit", "table_blocks_read"}
        assert not [name for name in watch.facts(0) if name.endswith("_per_query")]
    with small.connect() as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET track_counts = off")
        try:
            assert not blocks(watched(small, "few", "SELECT 1"))
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET track_counts")


BUSY = "SELECT sum(sqrt(i)) FROM (SELECT generate_series(1, 300000) AS i) AS one"  # writes nothing


@on_linux
def test_what_sessions_wait_for_and_what_they_compute(server: Server):
    watch = ServerWatch(server, "pg_class", None)
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        stack.callback(watch.close)
        sleeping, busy, idle = (stack.enter_context(client(server)) for _ in range(3))
        unseen = stack.enter_context(server.connect())
        backend = psutil.Process(busy.info.backend_pid)
        began, before, queries = time.monotonic(), sum(backend.cpu_times()[:2]), 0
        with watch.running():
            asleep = [threads.submit(each.execute, "SELECT pg_sleep(600)") for each in (sleeping, unseen)]
            while time.monotonic() < began + 1.2 * PATIENCE or sum(backend.cpu_times()[:2]) < before + 0.4:
                busy.execute(BUSY.replace("300000", "2000000"))  # seldom idle, however busy the machine is
                queries += 1
        sleeping.cancel()
        unseen.cancel()
        assert all(isinstance(each.exception(), psycopg.errors.QueryCanceled) for each in asleep)
        facts = watch.facts(queries)
        computed = sum(backend.cpu_times()[:2]) - before
        assert idle.closed == 0
    waits = json.loads(facts["wait_events"])
    for doing in ("Timeout:PgSleep", "CPU", "idle"):
        assert waits[doing] == pytest.approx(1 / 3, abs=0.2), waits
    assert list(waits.values()) == sorted(waits.values(), reverse=True)
    assert sum(waits.values()) == pytest.approx(1, abs=0.01)
    assert facts["server_cpu_seconds_per_query"] * queries == pytest.approx(computed, rel=0.15, abs=0.05)
    assert 0.2 < facts["machine_busy_share"] <= 1


@on_linux
def test_the_cpu_of_a_backend_that_has_ended_counts(server: Server):
    watch = ServerWatch(server, "pg_class", None)
    with closing(watch), server.connect() as old:
        old_pid = old.info.backend_pid
        for _ in range(10):
            old.execute(BUSY)  # before the run, which it is no part of
        with watch.running():
            with server.connect() as new:
                for _ in range(10):
                    new.execute(BUSY)
                pid = new.info.backend_pid
                computed = sum(psutil.Process(pid).cpu_times()[:2])
            old.close()
            while psutil.pid_exists(pid) or psutil.pid_exists(old_pid):
                time.sleep(0.01)
        assert watch.facts(1)["server_cpu_seconds_per_query"] == pytest.approx(computed, rel=0.25, abs=0.05)


@on_linux
def test_what_the_watchs_own_backend_computes_does_not_count(server: Server):
    with server.connect() as own, server.connect() as other:
        found = [server_processes(connection) for connection in (own, other)]
        before = [processes.used() for processes in found]
        for _ in range(20):
            own.execute(BUSY)
        without, whole = (
            processes.used()["server_cpu_seconds"] - then["server_cpu_seconds"]
            for processes, then in zip(found, before, strict=True)
        )
    assert whole > 0.1
    assert without < 0.3 * whole


@on_linux
def test_bytes_that_came_from_the_disk(small: Server):
    with small.connect() as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_relation_filepath('many_index')").fetchone()
    [file] = small.data_folder.glob(f"pg*/data/{row[0]}")
    if os.geteuid() and file.stat().st_uid != os.geteuid():
        pytest.skip("needs root")

    def forget() -> int:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            before = psutil.Process().io_counters().read_bytes
            opened.read(1 << 20)
            return psutil.Process().io_counters().read_bytes - before

    if not forget():
        pytest.skip("the file system does not read from a disk")
    forget()
    cold = watched(small, "many", *PLAIN_SCAN, whole_index("many"), queries=2)
    warm = watched(small, "many", *PLAIN_SCAN, whole_index("many"), queries=2)
    size = file.stat().st_size
    assert 0.8 * size < 2 * cold["server_disk_bytes_read_per_query"] < 1.5 * size
    assert 2 * warm["server_disk_bytes_read_per_query"] < 0.1 * size


@pytest.fixture
def sleep_seen(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether the samples of the latest run saw more sleeping than idling."""
    started: list[WaitSampler] = []

    class Recorded(WaitSampler):
        def __init__(self, connection: psycopg.Connection[Any]) -> None:
            super().__init__(connection)
            started.append(self)

    monkeypatch.setattr(watch_module, "WaitSampler", Recorded)
    return lambda: started[-1]._seen["Timeout:PgSleep"] > started[-1]._seen["idle"]


def test_the_watchs_own_backend_killed_in_the_middle(server: Server, sleep_seen: Callable[[], bool]):
    watch = ServerWatch(server, "pg_class", None)
    with closing(watch), client(server) as connection:
        with watch.running():
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            assert connection.execute(end, ["ann_benchmarks_watch"]).fetchall() == [(True,)]
            connection.execute("SELECT pg_sleep(0.2)")
        assert "machine_busy_share" in watch.facts(1)
        assert blocks(watch.facts(1))  # over a new connection
        with watch.running():  # the next run is seen again
            until(lambda: bool(connection.execute("SELECT pg_sleep(0.2)")) and sleep_seen())
        facts = watch.facts(1)
        assert blocks(facts)
        assert next(iter(json.loads(facts["wait_events"]))) == "Timeout:PgSleep"


def test_a_server_that_dies_leaves_the_clients_error_as_it_is(
    server_folder: Path, sleep_seen: Callable[[], bool]
):
    server = LocalServer(embedded_installation() / "bin", server_folder)
    server.start({"shared_buffers": "4MB"})
    watch = ServerWatch(server, "pg_class", None)

    def stop_once_seen() -> None:
        until(sleep_seen)
        server.stop()

    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(psycopg.OperationalError), client(server) as connection, watch.running():
            stopped = threads.submit(stop_once_seen)
            connection.execute("SELECT pg_sleep(600)")
        stopped.result()
    assert next(iter(json.loads(watch.facts(1)["wait_events"]))) == "Timeout:PgSleep"
    assert not blocks(watch.facts(1))
    with watch.running():  # the server is not there at all
        time.sleep(0.05)
    assert set(watch.facts(1)) == {"machine_busy_share"}
    watch.close()


class Elsewhere:
    """Stands for a connection to another machine, or into a container."""

    def __init__(self, address: str, backend: int) -> None:
        self.info = SimpleNamespace(hostaddr=address)
        self.execute = lambda sql: SimpleNamespace(fetchone=lambda: (backend,))


@on_linux
def test_the_processes_of_another_machine_are_not_looked_for_here(server: Server):
    with server.connect() as connection:
        backend = connection.info.backend_pid
        assert server_processes(connection).used()["server_cpu_seconds"] > 0
        for address in ("127.0.0.1", "::1", ""):
            assert server_processes(Elsewhere(address, backend))
        for address in ("192.0.2.1", "2001:db8::1"):
            assert server_processes(Elsewhere(address, backend)) is None
    for stranger in (os.getpid(), 1, 2**22 + 1):
        assert server_processes(Elsewhere("127.0.0.1", stranger)) is None


def test_the_share_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    assert busy_share((100, 50), (108, 52)) == 0.75 and busy_share((100, 50), (100, 50)) is None
    before, began = machine_cpu(), time.monotonic()
    time.sleep(0.3 * PATIENCE)
    total, seconds = machine_cpu()[0] - before[0], time.monotonic() - began
    assert total == pytest.approx(
        seconds * len(psutil.Process().cpu_affinity() if sys.platform == "linux" else psutil.cpu_times(True)),
        rel=0.4,
    )


@on_linux
def test_a_relation_is_read_for_a_bounded_time(small: Server, monkeypatch: pytest.MonkeyPatch):
    with small.connect() as connection:
        backend = psutil.Process(connection.info.backend_pid)
        [(size,)] = connection.execute("SELECT pg_relation_size('many')").fetchall()
        monkeypatch.setattr(prewarming, "_PIECE_BYTES", size // 4)
        before = backend.io_counters().read_chars
        cache_files(connection, ["public.many"])
        assert backend.io_counters().read_chars - before >= size
        monkeypatch.setattr(prewarming, "_CACHE_SECONDS", 0.0)
        before = backend.io_counters().read_chars
        cache_files(connection, ["public.many"])
        assert size / 4 <= backend.io_counters().read_chars - before < size


def test_who_may_not_use_pg_prewarm_warms_nothing(small: Server):
    with small.connect() as connection:
        connection.execute("CREATE ROLE someone")
        connection.execute("SET ROLE someone")
        assert warm_index(connection, "public.many_index") is None
        cache_files(connection, ["public.many"])
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_lost_connection_is_an_error(small: Server):
    with small.connect() as connection, small.connect() as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            warm_index(connection, "public.many_index")


def test_warmed_by_pg_prewarm(small: LocalServer):
    small.restart({"shared_buffers": "4MB"})
    with small.connect() as connection:
        for _ in range(2):
            assert warm_index(connection, "public.few_index") == "pg_prewarm"
        with pytest.raises(psycopg.errors.UndefinedTable):
            warm_index(connection, "public.no_index")
    seen = blocks(watched(small, "few", *PLAIN_SCAN, whole_index("few")))
    assert seen["index_blocks_read"] == 0 < seen["index_blocks_hit"]
