"""Jobs on replicas: what is stored of points, and names."""

from dataclasses import replace

import pytest

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import Replicas
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.measure.workloads import queries as querying
from ann_benchmarks.views.workloads import write_statements

from .report_data import make_writes
from .test_replicas import COUNT, all_servers, primary
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


def test_segments_are_joined_by_what_their_facts_are():
    joined = querying.joined([
        {"a": 1.0, "b": False, "c": "x"},
        {"a": 2.0, "b": True, "c": "y"},
    ])  # fmt: skip
    assert joined == {"a": 1.5, "b": True, "c": "y"}


def test_what_was_written_to_says_on_how_many_replicas():
    one, other = make_writes(), make_writes()
    series = other.series.replaced(replicas=2, settings="jit=off")
    other = replace(other, attrs={**other.attrs, "series": series.dump_json()})
    assert one.title == "hnsw(M=16)" and other.title == "hnsw(M=16) (2 replicas, jit=off)"
    texts = [statement.about for statement in write_statements([one, other])]
    assert texts[0] == "Writes" and texts[1:] == [f"Writes, {one.title}", f"Writes, {other.title}"]
