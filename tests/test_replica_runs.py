"""Jobs on replicas: what is stored of points and of writes beside queries, names, options, lag."""

import os
import re
from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.algorithms.postgres.topology.replica import WrittenLog
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import Replicas
from ann_benchmarks.jobs.events import PhaseDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.measure.workloads import queries as querying
from ann_benchmarks.monitoring.stored import monitored_from
from ann_benchmarks.results.records import iter_record_paths, read_record
from ann_benchmarks.views.workloads import write_statements, write_table

from .conftest import make_dataset
from .report_data import make_writes
from .test_replicas import COUNT, GIVEN, K, all_servers, primary
from .test_shards import measured

pytestmark = pytest.mark.thorough

__all__ = ["all_servers", "primary"]
EXACT = Definition(
    *("exact", "PGVectorExact", "ann_benchmarks.algorithms.pgvector_exact", "t", ["euclidean"]),
    *([[0]], False),
)
REPLICATED = replace(EXACT, servers=Replicas(COUNT))


def done_by(job, kind):
    events = []
    carry_out(JobRequest(job), events.append)
    return [event for event in events if isinstance(event, kind)]


def test_a_point_says_by_how_many_replicas_it_was_answered(primary, workspace):
    path, run = measured(REPLICATED, 0, 3)
    assert path.parent.name == "exact-replicas2-c3" and run.series.replicas == COUNT
    assert run.metrics["recall"] == 1 and min(run.attrs["replica_queries"]) > 0
    assert sum(run.attrs["replica_queries"]) == run.attrs["queries_asked"]
    assert run.attrs["server_cpu_seconds_per_query"] > run.attrs["primary_cpu_seconds_per_query"] >= 0
    assert run.attrs["table_blocks_hit_per_query"] > 0  # of the standbys' own sessions
    assert run.attrs["shared_buffers"] == COUNT * 64 * 2**20
    assert 0 <= run.attrs["replication_lag_seconds"] <= run.attrs["replication_lag_seconds_max"]


def test_rows_that_are_not_replayed_are_missed_and_the_lag_is_beside_the_recall(
    primary, workspace, monkeypatch
):
    make_dataset(rows=3000)
    monkeypatch.setattr(querying, "LEAST_QUIET_SECONDS", 0.3)
    monkeypatch.setattr(querying, "warm_up", lambda warmup, ask_for, *more: {"warmup_queries": ask_for(0.05)})
    monkeypatch.setenv(GIVEN, f"{os.environ[GIVEN]} recovery_min_apply_delay=700ms")
    workload = Workload("writes", 2, 4.0, load=Load(2), rate=200.0)
    procedure = Procedure(1, workload=workload)
    said = done_by(Job(REPLICATED, [[0]], "tiny", K, procedure, Execution(show_progress=False)), PhaseDone)
    [path] = iter_record_paths("tiny", K)
    assert path.parent.name == "exact-replicas2-writes-c2-w2-r200-mix50-25-25"
    record = read_record(path)
    before, writing, after, vacuumed = record.phases
    # What is behind is waited for where nobody writes.
    assert before.recall == after.recall == vacuumed.recall == 1
    assert 0.5 < writing.recall < 0.99
    assert 0.5 < writing.facts["recall_lag_seconds"] < 4 and writing.facts["recall_lag_bytes"] > 0
    mean, most = (writing.facts[f"replication_lag_seconds{end}"] for end in ("", "_max"))
    assert 0.2 < mean < most < 4 and writing.facts["replication_lag_bytes_max"] > 0
    assert "recall_lag_seconds" not in after.facts
    assert len(writing.facts["replica_queries"]) == COUNT
    [told] = [str(event) for event in said if "writing: " in str(event)]
    assert re.search(r" of replicas [0-3]\..* s behind", told)
    assert {"Recall's lag (s)", "Lag (s)", "Largest lag (s)"} <= {*write_table(record).columns}
    sampled = monitored_from(record.monitoring)
    inside = dict(sampled.stretches())["writing"]
    assert np.nanmax(sampled.columns["postgresql.replication_lag_bytes"][inside]) > 0


def test_the_lag_is_the_time_since_the_log_was_no_longer():
    log = WrittenLog()
    for moment, position in ((10.0, 100), (11.0, 100), (12.0, 300), (12.5, 300), (12.2, 200)):
        log.note(moment, position)
    assert log.last_growth == 12.0
    assert log.seconds_behind(300, 13.0) == log.seconds_behind(999, 13.0) == 0
    assert log.seconds_behind(100, 13.0) == 2.0  # it grew after 11
    assert log.seconds_behind(200, 13.0) == pytest.approx(1.5)
    assert log.seconds_behind(50, 13.0) == 3.0  # at least
    assert log.seconds_behind(200, 11.0) == 0


def test_segments_are_joined_by_what_their_facts_are():
    joined = querying.joined([
        {"a": 1.0, "a_max": 1.0, "replica_queries": [1, 2]},
        {"a": 2.0, "a_max": 5.0, "replica_queries": [3, 4]},
    ])  # fmt: skip
    assert joined == {"a": 1.5, "a_max": 5.0, "replica_queries": [4, 6]}


def test_time_in_which_a_run_is_held_is_no_lag():
    log = WrittenLog()
    for moment, position in ((10.0, 100), (11.0, 200), (12.0, 300)):
        log.note(moment, position)
    log.hold(12.0)
    assert log.is_held and log.seconds_behind(200, 12.0) == 1.0
    log.go_on(20.0)
    log.note(20.5, 300)
    assert not log.is_held and log.seconds_behind(200, 20.5) == 1.5
    assert log.seconds_behind(100, 20.5) == 2.5  # also of what was written before the run was held


def test_what_was_written_to_says_on_how_many_replicas():
    one, other = make_writes(), make_writes()
    series = other.series.replaced(replicas=2, settings="jit=off")
    other = replace(other, attrs={**other.attrs, "series": series.dump_json()})
    assert one.title == "hnsw(M=16)" and other.title == "hnsw(M=16) (2 replicas, jit=off)"
    texts = [statement.about for statement in write_statements([one, other])]
    assert texts[0] == "Writes" and texts[1:] == [f"Writes, {one.title}", f"Writes, {other.title}"]
