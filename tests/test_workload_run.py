"""Whole workloads on a real server, from the job to the record."""

import json
import os
import signal
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
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
from ann_benchmarks.plotting.dashboard import draw_monitoring
from ann_benchmarks.results.records import iter_record_paths, read_record
from ann_benchmarks.run.console import Console

from .conftest import make_dataset
from .test_workload_writing import relations

pytestmark = pytest.mark.thorough

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


def events_of(job):
    events = []
    carry_out(JobRequest(job), events.append)
    return events


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
