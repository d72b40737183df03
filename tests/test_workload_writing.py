"""Tables that are written to, on a real server: every change is made once, and nothing is left behind."""

import json
import os
import signal
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.writing.pool import DELETE, INSERT, UPDATE
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.definitions.definition import Definition, construct
from ann_benchmarks.jobs.events import Built, Note, PhaseDone, WorkloadDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.measure.workloads import queries as querying
from ann_benchmarks.measure.workloads.work import Work
from ann_benchmarks.measure.workloads.workload import check_room, writing
from ann_benchmarks.monitoring.stored import monitored_from
from ann_benchmarks.plotting.draw import draw_monitoring
from ann_benchmarks.plugin import Changes
from ann_benchmarks.results.records import iter_record_paths, read_record
from ann_benchmarks.run.console import Console

from .conftest import make_dataset
from .postgres_fixtures import clustered, fitted
from .programs import events_of

pytestmark = pytest.mark.thorough

TRAIN = clustered(900, 24, seed=2)
OPTIONS = "SELECT reloptions FROM pg_class WHERE oid = to_regclass(%s)"
METHOD = {"M": 8, "efConstruction": 32}


@contextmanager
def opened(loaded=300, **how):
    algorithm = PGVectorHNSW("euclidean", METHOD)
    try:
        with closing(algorithm.open_writable(TRAIN[:loaded], len(TRAIN), **how)) as table:
            yield algorithm, table
    finally:
        algorithm.done()


def changes(kinds, ids, rows, due=None, block=70):
    for start in range(0, len(ids), block):
        part = slice(start, start + block)
        yield Changes(None if due is None else due[part], kinds[part], ids[part], TRAIN[rows[part]])


def rows_of(server, table):
    with server.connect() as connection:
        found = connection.execute(f"SELECT id, embedding::text FROM {table.name} ORDER BY id").fetchall()
    return {number: np.array(text.strip("[]").split(","), dtype=np.float32) for number, text in found}


def relations(server):
    with server.connect() as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'ann_benchmarks'::regnamespace"
            " UNION ALL SELECT name FROM ann_benchmarks.tables UNION ALL"
            " SELECT name FROM ann_benchmarks.indexes"
        ).fetchall()
    return sorted(name for (name,) in names)


def test_every_row_is_inserted_once_into_an_empty_index(plugin_server):
    numbers = np.arange(len(TRAIN))
    with opened(loaded=0) as (algorithm, table), closing(table.open_writers(3)) as crew:
        assert table.sizes()["table_size"] == 0
        crew.prepare_changes(changes(np.zeros(900, dtype=int), numbers, numbers), 900, 60.0, False)
        crew.run()
        assert crew.count() == 900
        written = crew.written()
        assert sorted(np.concatenate([given.numbers for given in written])) == numbers.tolist()
        for given in written:
            assert given.due is None and given.done.all() and len(given.sent)
            assert (given.sent < given.answered).all() and (np.diff(given.sent) > 0).all()
        there = rows_of(plugin_server, table)
        assert list(there) == numbers.tolist()
        assert all((there[number] == TRAIN[number]).all() for number in numbers)
        algorithm.set_query_arguments(100)  # fails where the plan does not use the index
        found = algorithm.time_queries(TRAIN[:50], 1)[1]
        assert np.mean([ids == [number] for number, ids in enumerate(found)]) > 0.9

        # They can be told again, with nothing left of the last time; the time may be over before the rows.
        more = changes(np.zeros(900, dtype=int), 10_000 + numbers, numbers, block=1)
        crew.prepare_changes(more, 900, 0.05, False)
        crew.run()
        made = sorted(10_000 + np.concatenate([given.numbers for given in crew.written()]))
        assert len(made) < 900
        assert [number for number in rows_of(plugin_server, table) if number >= 10_000] == made

        def broken():
            yield Changes(None, np.zeros(5, dtype=int), np.arange(5), TRAIN[:5])
            raise OSError("the disk is gone")

        crew.prepare_changes(broken(), 900, 60.0, False)
        with pytest.raises(OSError, match="the disk is gone"):
            crew.run()


def test_changes_are_made_when_they_are_due(plugin_server):
    draw = np.random.default_rng(4)
    kinds = np.repeat([INSERT, UPDATE, DELETE], 40)
    ids = np.concatenate([np.arange(900, 940), np.arange(40), np.arange(100, 140)])
    rows = np.concatenate([np.arange(300, 380), np.zeros(40, dtype=int)])
    ids[-1] = 5000  # is not there
    mixed = draw.permutation(120)
    due = np.sort(draw.uniform(0, 0.6, 120))
    with opened(has_key=True) as (_, table), closing(table.open_writers(4, beside_queries=True)) as crew:
        crew.prepare_changes(changes(kinds[mixed], ids[mixed], rows[mixed], due), 120, 30.0, True)
        crew.run()
        written = crew.written()
        numbers = np.concatenate([given.numbers for given in written])
        assert sorted(numbers) == list(range(120))
        start = min(float((given.due - due[given.numbers]).min()) for given in written)
        for given in written:
            assert given.due == pytest.approx(due[given.numbers] + start)
            assert (given.sent >= given.due).all()
        done = np.concatenate([given.done for given in written])
        assert ids[mixed][numbers[~done]].tolist() == [5000]
        there = rows_of(plugin_server, table)
        assert set(there) == set(range(300)) - set(range(100, 139)) | set(range(900, 940))
        assert all((there[900 + i] == TRAIN[300 + i]).all() for i in range(40))
        assert all((there[i] == TRAIN[340 + i]).all() for i in range(40))
        assert table.statistics()["dead_rows"] == 79
        assert table.vacuum() > 0 and table.statistics()["dead_rows"] == 0
        before = table.sizes()["index_size"]
        assert table.reindex() > 0 and 0 < table.sizes()["index_size"] <= before

        # One that is killed ends all.
        endless = changes(np.zeros(10**6, dtype=int), np.arange(10_000, 1_010_000), np.arange(10**6) % 900)
        crew.prepare_changes(endless, 10**6, 60.0, False)
        processes = [member.process for member in crew.members]
        threading.Timer(0.2, os.kill, (processes[1], signal.SIGKILL)).start()
        with pytest.raises(PostgresError, match="writer 2 of 4 ended"):
            crew.run()
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)


def test_what_ordinary_points_use_is_not_touched(plugin_server):
    with fitted(PGVectorHNSW("euclidean", METHOD), TRAIN):
        pass
    before = relations(plugin_server)
    with opened(has_key=True) as (algorithm, table):
        assert [name for name in relations(plugin_server) if "writing_" in name]
        with closing(table.open_writers(1)) as crew:
            crew.prepare_changes(
                changes(np.full(300, DELETE), np.arange(300), np.arange(300)), 300, 60.0, False
            )
            crew.run()
            crew.written()
        algorithm.set_query_arguments(50)
        assert algorithm.time_queries(TRAIN[:1], 10)[1] == [[]]
    assert relations(plugin_server) == before
    with fitted(PGVectorHNSW("euclidean", METHOD), TRAIN) as facts:
        assert facts["index_reused"]


def test_what_a_killed_run_has_left_is_dropped_at_the_next_start(plugin_server, capsys):
    with opened() as (killed, _):
        left = [name for name in relations(plugin_server) if "writing_" in name]
        with opened():  # while the first is at work, nobody takes it away
            assert set(left) < set(relations(plugin_server))
        killed.done()  # its connections end with it
        algorithm = PGVectorIVFFlat("euclidean", {"lists": 5})
        with fitted(algorithm, TRAIN):
            assert not [name for name in relations(plugin_server) if "writing_" in name]
    assert "left by a run that was killed" in capsys.readouterr().out


def test_a_build_that_fails_leaves_nothing(plugin_server, monkeypatch):
    monkeypatch.setattr(PGVectorHNSW, "prewarm", lambda self, index: 1 / 0)
    with pytest.raises(ZeroDivisionError), opened():
        pass
    assert not [name for name in relations(plugin_server) if "writing_" in name]


def test_a_table_is_dropped_although_somebody_uses_it(plugin_server):
    with opened() as (_, table), plugin_server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"SELECT count(*) FROM {table.name}")
        table.close()
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")
        other.close()
    assert not [name for name in relations(plugin_server) if "writing_" in name]


def test_nothing_but_the_workload_vacuums(plugin_server):
    with opened() as (_, table), plugin_server.connect() as connection:
        assert connection.execute(OPTIONS, [table.name]).fetchone() == (["autovacuum_enabled=off"],)


def test_which_indexes_need_rows():
    assert not PGVectorHNSW("euclidean", METHOD).learns_from_rows(10**6)
    assert PGVectorIVFFlat("euclidean", {"lists": 5}).learns_from_rows(10**6)
    assert not VectorChord("euclidean").learns_from_rows(10_000)  # so few have no lists
    assert VectorChord("euclidean").learns_from_rows(10**6)
    assert VectorChord("euclidean", {"lists": 30}).learns_from_rows(10_000)


# Whole workloads on a real server, from the job to the record.


HNSW = Definition(
    "hnsw",
    "PGVectorHNSW",
    "ann_benchmarks.algorithms.pgvector_hnsw",
    "none",
    ["euclidean", {"M": 8, "efConstruction": 32}],
    [[20], [60], [100]],
    False,
)
INSERTS = Workload("inserts", 2, 30.0)
WRITES = Workload("writes", 2, 1.2, load=Load(2), rate=100.0)


def job_of(workload, definition=HNSW, **more):
    procedure = Procedure(5, workload=workload, **more)
    return Job(definition, [[60]], "tiny", 10, procedure, Execution(show_progress=False))


@pytest.fixture(autouse=True)
def data(workspace, plugin_server, monkeypatch):
    make_dataset(rows=1500)
    monkeypatch.setattr(querying, "LEAST_QUIET_SECONDS", 0.3)
    monkeypatch.setattr(querying, "warm_up", lambda warmup, ask_for, *more: {"warmup_queries": ask_for(0.05)})


def test_inserts(plugin_server, capsys):
    make_dataset(rows=700)
    events = events_of(job_of(INSERTS))
    assert [type(event) for event in events if not isinstance(event, Note)] == [
        Built,
        PhaseDone,
        WorkloadDone,
    ]
    [path] = iter_record_paths("tiny", 10)
    assert path == events[-1].path and path.parent.name == "hnsw-inserts-w2"
    record = read_record(path)
    assert (record.workload, record.writers, record.clients, record.rate) == ("inserts", 2, 0, None)
    assert record.query_arguments == [60] and record.attrs["rows_loaded"] == 0
    [phase] = record.phases
    rate = phase.writes["insert"]
    assert rate.count == phase.rows == 700 and phase.queries is None
    assert rate.low <= rate.per_second <= rate.high and 0 < rate.p50 <= rate.p99
    # The rate is that of the time in which all were at work, which is nearly all of it.
    assert 0.5 < rate.per_second / (700 / phase.seconds) < 3
    assert phase.recall_low <= phase.recall <= phase.recall_high and phase.recall > 0.9
    assert phase.index_size > 0 and phase.facts["writes_asked"] == 700
    assert sum(record.windows["writes"]) == 700
    assert record.windows["recall"][-1] == phase.recall
    Console().event(job_of(INSERTS), next(event for event in events if isinstance(event, PhaseDone)))
    assert "inserting: inserts " in capsys.readouterr().out
    assert not [name for name in relations(plugin_server) if "writing_" in name]


def test_writes_beside_queries(plugin_server):
    events_of(job_of(WRITES, target_recall=0.8))
    [path] = iter_record_paths()
    record = read_record(path)
    json.loads(path.read_text(), parse_constant=pytest.fail)  # such as NaN, which only Python reads
    names = ["before", "writing", "after", "vacuumed", "reindexed"]
    assert [phase.name for phase in record.phases] == names
    assert record.attrs["target_recall"] == 0.8 and record.attrs["rows_loaded"] == 1200
    before, writing, after, vacuumed, reindexed = record.phases
    assert before.rows == 1200 and before.recall >= 0.8 and not before.writes
    made = {kind: rate.count for kind, rate in writing.writes.items()}
    assert set(made) == {"insert", "update", "delete"} and 60 < sum(made.values()) < 180
    assert not any(rate.failed for rate in writing.writes.values())
    for phase in (writing, after, vacuumed, reindexed):
        assert phase.rows == 1200 + made["insert"] - made["delete"]
        assert phase.queries.count > 0 and phase.recall > 0.7
    assert after.facts["dead_rows"] == made["update"] + made["delete"]
    assert vacuumed.facts["dead_rows"] == 0
    assert vacuumed.seconds_to_reach > 0 and reindexed.seconds_to_reach > 0
    windows = record.windows
    assert len({len(column) for column in windows.values()}) == 1
    assert sum(windows["writes"]) == sum(made.values())
    assert np.count_nonzero([recall is not None for recall in windows["recall"]]) >= 6
    sampled = monitored_from(record.monitoring)
    seen = [phase for phase, _ in sampled.stretches() if phase in names]
    assert seen == names
    inside = dict(sampled.stretches())["writing"]
    assert np.nanmean(sampled.columns["postgresql.wal_bytes"][inside]) > 0
    draw_monitoring(path, path.with_name("picture.png"))
    assert path.with_name("picture.png").read_bytes().startswith(b"\x89PNG")
    # One phase begins where the other ends: the pauses do not count.
    assert [phase.start for phase in record.phases] == pytest.approx([0, 0.3, 1.5, 1.8, 2.1])
    assert not [name for name in relations(plugin_server) if "writing_" in name]


def test_a_rate_that_is_not_kept_is_told(plugin_server):
    dataset, _ = get_dataset("tiny")
    job = job_of(replace(WRITES, writers=1, rate=6000.0, seconds=0.25, loaded=0.5))
    plugin, events = construct(HNSW), []
    try:
        with dataset:
            work = Work(JobRequest(job), plugin, dataset, events.append)
            check_room(work)
            with closing(work.open_table()) as table:
                work.set_query_arguments()
                with closing(querying.QueryClients(work)) as clients:
                    writing(work, clients, table)
    finally:
        plugin.done()
    assert "the rate was not kept" in " ".join(event.text for event in events if isinstance(event, Note))
    [phase] = work.phases
    assert sum(rate.late for rate in phase.writes.values()) > 0
    # What is late has waited, which the percentiles tell.
    assert phase.writes["insert"].p99 > 0.05
    assert not [name for name in relations(plugin_server) if "writing_" in name]


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (replace(WRITES, rate=5000.0), "tiny has too few rows for 1.2 s of 5000 writes a second"),
        (replace(WRITES, loaded=0.01), "too few rows"),
    ],
)
def test_what_cannot_be_measured_is_told(plugin_server, workload, reason):
    with pytest.raises(UserError, match=reason):
        events_of(job_of(workload))
    assert not list(iter_record_paths())
    assert not [name for name in relations(plugin_server) if "writing_" in name]


def test_an_algorithm_that_cannot_be_written_to():
    other = replace(HNSW, constructor="ExactScan", module="ann_benchmarks.algorithms.bruteforce")
    other = replace(other, arguments=["euclidean"], query_argument_groups=[])
    with pytest.raises(UserError, match="cannot be written to: leave --workload out"):
        events_of(replace(job_of(INSERTS, other), points=[[]]))


def test_a_server_that_crashes_leaves_nothing(plugin_server):
    def crash(event):
        if isinstance(event, Built):
            threading.Timer(0.6, os.kill, (plugin_server._process.pid, signal.SIGKILL)).start()

    make_dataset(rows=30_000, dimension=32, queries=5)
    with pytest.raises(PostgresError, match="writer . of 2|broke off|cannot connect"):
        carry_out(JobRequest(job_of(INSERTS)), crash)
    assert not list(iter_record_paths())
    assert not [name for name in relations(plugin_server) if "writing_" in name]
