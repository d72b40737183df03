"""What PostgreSQL's statistics tell of what was really done, and the way from run.py to the picture."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import h5py
import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.external import ExternalServer
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.statistics import counters
from ann_benchmarks.algorithms.postgres.statistics.counters import VIEWS, StatisticsView
from ann_benchmarks.algorithms.postgres.statistics.watch import PostgresStatistics, ServerWatch
from ann_benchmarks.commands import plot as plot_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Execution, Job, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.monitoring import Monitor, read_monitoring
from ann_benchmarks.monitoring.monitor import Recording, Sample, Stretch
from ann_benchmarks.monitoring.stored import monitored
from ann_benchmarks.plotting.chart import draw_chart
from ann_benchmarks.results.file import read_result
from ann_benchmarks.views.monitoring import monitoring_chart

from .programs import events_of, until

pytestmark = pytest.mark.thorough


@pytest.fixture
def watched_table(server: Server):
    with server.connect() as connection:
        connection.execute("CREATE TABLE watched (id int4)")
        connection.execute("CREATE INDEX watched_index ON watched (id)")
        yield connection
        connection.execute("DROP TABLE watched")


def statistics(server: Server) -> PostgresStatistics:
    return PostgresStatistics(lambda: server, lambda: ("watched", "watched_index"))


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name.removeprefix("postgresql."): after[name] - before[name] for name in after}


def test_what_was_done_is_counted(server: Server, watched_table):
    with closing(statistics(server)) as watching:
        before = watching.sample()
        watched_table.execute("INSERT INTO watched SELECT generate_series(1, 5000)")
        watched_table.execute("DELETE FROM watched WHERE id <= 1000")
        watched_table.execute("SET enable_seqscan = off")
        watched_table.execute("SELECT count(*) FROM watched WHERE id BETWEEN 10 AND 20")
        watched_table.execute("CHECKPOINT")
        watched_table.execute("SELECT pg_stat_force_next_flush()")
        # The checkpointer counts a checkpoint only after it has answered the session that requested it.
        requested = "postgresql.checkpoints_requested"
        until(lambda: watching.sample()[requested] > before[requested])
        done = difference(before, watching.sample())
    assert (done["table_rows_inserted"], done["table_rows_deleted"]) == (5000, 1000)
    assert (done["table_rows_live"], done["table_rows_dead"]) == (4000, 1000)
    assert done["rows_inserted"] >= 5000
    assert done["index_scans"] >= 1
    assert done["index_blocks_hit"] > 0
    assert done["table_blocks_hit"] > 0
    assert done["blocks_hit"] >= done["table_blocks_hit"] + done["index_blocks_hit"]
    assert 5000 * 50 < done["wal_bytes"] < 5000 * 500
    assert done["checkpoints_requested"] >= 1
    assert done["checkpoint_bytes"] % 8192 == 0 < done["checkpoint_bytes"]
    assert done["io_writes"] > 0
    assert watching.is_local


def test_sessions_are_counted_by_what_they_wait_for(server: Server, watched_table):
    waits = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
    with (
        closing(statistics(server)) as watching,
        server.connect() as sleeping,
        server.connect() as blocked,
        server.connect() as outside,  # in a transaction, the view would stay as it was
        ThreadPoolExecutor(2) as threads,
    ):
        idle = watching.sample()
        watched_table.execute("BEGIN")
        watched_table.execute("LOCK TABLE watched")
        asleep = threads.submit(sleeping.execute, "SELECT pg_sleep(600)")
        threads.submit(blocked.execute, "SELECT FROM watched")
        try:
            for session, event in ((sleeping, "PgSleep"), (blocked, "relation")):
                pid = session.info.backend_pid
                until(lambda: outside.execute(waits, [pid]).fetchone() == (event,))  # noqa: B023
            waiting = difference(idle, watching.sample())
        finally:
            watched_table.execute("COMMIT")
            sleeping.cancel()
        assert isinstance(asleep.exception(), psycopg.errors.QueryCanceled)
    counts = {name: waiting[f"{name}_sessions"] for name in ("lock", "other", "cpu", "idle")}
    assert counts == {"lock": 1, "other": 1, "cpu": 0, "idle": -2}


def test_it_keeps_no_transaction_and_is_one_of_its_own_name(server: Server, watched_table):
    with closing(statistics(server)) as watching:
        for _ in range(3):
            watching.sample()
        sessions = watched_table.execute(
            "SELECT state, backend_xmin, xact_start IS NULL OR state = 'idle' FROM pg_stat_activity"
            " WHERE application_name = 'ann_benchmarks_monitor'"
        ).fetchall()
    assert sessions == [("idle", None, True)]


def test_a_relation_that_is_not_there_is_left_out(server: Server):
    for names in ((None, None), ("nowhere", "nothing"), ("", "")):
        with closing(PostgresStatistics(lambda: server, lambda names=names: names)) as watching:
            found = watching.sample()
            assert "postgresql.blocks_hit" in found
            assert not [name for name in found if "table_" in name or "index_" in name]


def test_a_server_that_ends_and_comes_again(server: LocalServer):
    started = []
    with closing(PostgresStatistics(lambda: server if started else None, lambda: (None, None))) as watching:
        assert watching.sample() == {}
        assert watching.is_local  # it will be ours
        started.append(True)
        assert watching.sample()
        settings = server._settings
        server.stop()
        assert watching.sample() == {}
        assert watching.sample() == {}
        server.start(settings)
        assert watching.sample() == {}  # not at once: the log's last words are about what ended it
        watching.revived()
        assert watching.sample()


def test_what_a_service_lacks_is_left_out(server: Server, monkeypatch):
    views = (*VIEWS, StatisticsView("pg_stat_lost", "lost lost"))
    monkeypatch.setattr(counters, "VIEWS", views)
    with closing(statistics(server)) as watching:
        assert {"postgresql.wal_bytes", "postgresql.cpu_sessions"} < set(watching.sample())


def test_a_statistic_of_one_view_is_sampled_and_stored(server: Server, watched_table, monkeypatch):
    relation = "(SELECT 7 * count(*) AS n FROM pg_am) AS a"
    view = StatisticsView(relation, "seven_times n", is_stored=True)
    monkeypatch.setattr(counters, "VIEWS", (*VIEWS, view))
    with closing(statistics(server)) as watching, closing(ServerWatch(server, "watched", None)) as watch:
        assert watching.sample()["postgresql.seven_times"] % 7 == 0
        with watch.running():
            watched_table.execute("CREATE ACCESS METHOD seven TYPE TABLE HANDLER heap_tableam_handler")
        assert watch.facts(2)["seven_times_per_query"] == 3.5
        watched_table.execute("DROP ACCESS METHOD seven")


def test_the_machine_of_a_server_somewhere_else_is_not_sampled(server: Server, monkeypatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "elsewhere")
    assert not PostgresStatistics(lambda: None, lambda: (None, None)).is_local
    there = ExternalServer()
    monkeypatch.setattr(there, "connection_parameters", server.connection_parameters)
    with closing(PostgresStatistics(lambda: there, lambda: (None, None))) as watching:
        assert not watching.is_local
        assert watching.sample()
        assert watching.is_local  # it is here, after all


def test_the_plug_in_names_its_phases(plugin_server: Server):
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    monitor = Monitor(algorithm.open_monitor(), interval=0.05)
    entered = []
    algorithm.set_phase_listener(lambda phase: (entered.append(phase), monitor.enter(phase)))
    train = np.random.default_rng(5).random((8000, 16), dtype=np.float32)
    try:
        algorithm.fit(train)
        algorithm.set_query_arguments(10)
        assert entered == ["start", "load", "build", "prewarm"]
        with monitor.phase("measure"):
            algorithm.time_queries(train[:300], 10)
            algorithm.flush_statistics()
            time.sleep(0.3)  # shorter phases are not kept
        recording = monitor.cut()
    finally:
        monitor.close()
        algorithm.done()
    seen = monitored(recording)
    assert "build" in seen.phases
    measure = next(place for phase, place in seen.stretches() if phase == "measure")
    seconds = np.diff(seen.seconds[measure])
    scans = np.nansum(seen.columns["postgresql.index_scans"][measure][1:] * seconds)
    assert scans == pytest.approx(300, abs=2)
    assert np.nanmax(seen.columns["postgresql.table_rows_live"]) == 8000


PLAIN = """
def fit(self, X):
    self.X = X
    time.sleep(0.3)
def set_query_arguments(self, number):
    pass
def query(self, q, n):
    time.sleep(0.005)
    return np.argsort(((self.X - q) ** 2).sum(1))[:n]
"""


@pytest.fixture
def run_plain(workspace, monkeypatch):
    """Run a plug-in in this process; return the paths of its results."""

    def run_it(name, points, **options):
        monkeypatch.syspath_prepend(str(workspace.path))
        workspace.add_plugin(name, PLAIN)
        (workspace.path / "plugins" / name).rename(workspace.path / name)
        definition = Definition(name, "Plugin", name, "t", [], [], False)
        procedure = Procedure(2, load=Load(1), warmup=Warmup("queries", 40))
        execution = Execution(**options)
        job = Job(definition, points, "tiny", 5, procedure, execution)
        return [event.path for event in events_of(job) if isinstance(event, PointDone)]

    return run_it


def test_from_a_job_to_the_picture(run_plain, monkeypatch, capsys):
    first, second = run_plain("plain_monitored", [[1], [2]])
    begins = []
    for path in (first, second):
        seen = read_monitoring(path)
        named = [(phase, place) for phase, place in seen.stretches() if phase not in ("other", "clients")]
        assert [phase for phase, _ in named] == ["build", "warm-up", "measure"]
        begins.append([seen.seconds[place.start] for _, place in named])
        assert begins[-1] == sorted(begins[-1])
        assert 0 < read_result(path).attrs["monitoring_cpu_seconds"] < 1
    assert begins[0][0] == begins[1][0]  # the same build
    assert begins[0][-1] < begins[1][1]  # and points of their own

    capsys.readouterr()
    plot(monkeypatch, "--monitoring", str(first))
    picture = first.with_name(f"{first.stem}-monitoring.png")
    assert capsys.readouterr().out == f"wrote {picture}\n"
    assert 10_000 < picture.stat().st_size < 500_000
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_it_can_be_left_out(run_plain, monkeypatch):
    (path,) = run_plain("plain_alone", [[1]], monitoring=False)
    with h5py.File(path) as file:
        assert "monitoring" not in file
        assert "monitoring_cpu_seconds" not in file.attrs
    with pytest.raises(UserError, match=r"nothing was sampled for .*hdf5: measure it with run.py --force"):
        plot(monkeypatch, "--monitoring", str(path))


def test_a_picture_of_an_hour_and_of_a_container(tmp_path):
    rng = np.random.default_rng(3)
    stretches = []
    for phase, start, seconds in (("load", 0, 900), ("build", 900, 3600), ("measure", 9000, 20)):
        stretch = Stretch(phase, 1.0)
        for second in np.linspace(start, start + seconds, 240):
            totals = {name: 1e6 * rng.random() + 2e6 * second for name in TOTALS}
            cores = np.array([[second / 2, second / 9, 0, second]] * 64)
            levels = {"machine.page_cache_bytes": 4e9, "postgresql.cpu_sessions": float(rng.integers(9))}
            stretch.add(Sample(second, totals, levels, cores))
        stretches.append(stretch)
    seen = monitored(Recording(stretches, facts={"in_container": True}))
    picture = tmp_path / "an_hour.png"
    chart = monitoring_chart(seen, "$an_hour")
    draw_chart(chart, picture)
    assert 10_000 < picture.stat().st_size < 500_000
    assert chart.note == "CPU, memory and disks are those of the whole host"
    titles = [panel.y.label for panel in chart.panels[::2]]
    assert titles[:3] == ["CPU (%)", "Memory (GB)", "Network (MB/s)"]
    assert [[name for *_, name in panel.bands] for panel in chart.panels[:2]] == [
        ["load", "build"],
        ["measure"],
    ]
    with pytest.raises(UserError, match="its name must end in"):
        draw_chart(chart, tmp_path / "an_hour.unknown")


DISKS = ("nvme0n1", "sda", "sdb", "sdc")
TOTALS = [f"disk.{disk}.{kind}_bytes" for disk in DISKS for kind in ("read", "write")]
TOTALS += ["network.sent_bytes", "postgresql.blocks_hit", "postgresql.blocks_read", "postgresql.wal_bytes"]


def plot(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["plot.py", *arguments])
    plot_command.main()
