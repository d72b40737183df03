"""Shards, replicas and poolers as they are named, counted and observed together; nothing is started."""

import json
from dataclasses import replace

import pytest

from ann_benchmarks.algorithms.postgres.topology import SeveralWatch
from ann_benchmarks.algorithms.postgres.topology.sharded import ENGINES as PLUGIN_ENGINES
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition, apply_servers
from ann_benchmarks.definitions.servers import (
    ENGINES,
    ONE_SERVER,
    POOLERS,
    Pooled,
    Replicas,
    Shards,
    every_pooled,
    every_replicas,
    every_shards,
    largest,
)
from ann_benchmarks.fields.series import Series, series_from
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.comparable import comparable

from .report_data import make_run

(POOLER,) = POOLERS
HNSW = Definition("hnsw", "PGVectorHNSW", "m", "t", ["euclidean", {"M": 8}], [[50]], False)


def test_the_plugin_has_what_the_options_name():
    assert tuple(PLUGIN_ENGINES) == ENGINES


def test_servers_are_counted_by_what_they_do():
    assert largest(every_replicas([0, 1, 2])) == Replicas(2) and largest([]) == ONE_SERVER
    for these, counted in (
        (Replicas(2), (3, range(3), 2)),
        (Shards(2, "citus"), (3, range(1, 3), 2)),
        (Replicas(0, most=2), (1, range(1), 1)),
        (Pooled(POOLER), (1, range(1), 1)),
        (ONE_SERVER, (1, range(1), 1)),
    ):
        assert (len(these.numbers), these.row_holders, these.queried) == counted


@pytest.mark.parametrize(
    ("every", "names", "most"),
    [
        (every_shards([0], ["citus"]), [""], set()),
        (
            every_shards([0, 2, 4], ["client", "citus"]),
            ["", *(f"-shards{one}" for one in ("2-client", "2-citus", "4-client", "4-citus"))],
            {4},  # of all, a server has the same memory
        ),
        (every_replicas([0]), [""], set()),
        (every_replicas([0, 1, 2]), ["", "-replicas1", "-replicas2"], {2}),
        (every_pooled([None]), [""], set()),
        (
            every_pooled([None, POOLER], [4, 8]),
            ["", "-pgbouncer-transaction-pool4", "-pgbouncer-transaction-pool8"],
            set(),
        ),
    ],
)  # fmt: skip
def test_all_are_contenders_with_names_of_their_own(every, names, most):
    found = apply_servers([HNSW], every)
    assert [one.family.removeprefix("hnsw") for one in found] == names
    assert {vars(one.servers).get("most") for one in found} - {None} == most
    assert Job(found[0], [[50]], "tiny", 10).series == Series("hnsw")
    series = Job(found[-1], [[50]], "tiny", 10).series
    assert found[-1].plain == HNSW and series.label == f"hnsw{names[-1]}" and not series.conditions
    assert series_from(json.loads(series.dump_json())) == series and series.drop("servers") == Series("hnsw")
    whole = make_run("hnsw")
    other = replace(whole, series=whole.series.replaced(**found[-1].servers.fields))
    assert comparable([whole, other]) == [whole, other]
    assert (whole.series.family != other.series.family) == bool(names[-1])


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"shards": 2, "shard_engine": "citus"}, "shards2-citus"),
        ({"replicas": 2}, "replicas2"),
        ({"pooler": POOLER}, "pgbouncer-transaction"),
    ],
)
def test_their_names_have_a_place_among_others(fields, name):
    series = Series("hnsw", "0.8", clients=16, settings="jit=on", **fields)
    assert series.label == f"hnsw-0.8-{name}-jit=on-c16"


def test_the_work_of_another_server_is_in_the_sum_and_by_itself():
    class Watch:
        def __init__(self, cpu):
            self.cpu = cpu

        def facts(self, queries):
            per_query = {"server_cpu_seconds_per_query": self.cpu, "table_blocks_hit_per_query": self.cpu}
            return {**per_query, "shared_buffers": self.cpu, "wait_events": str(self.cpu)}

    for is_asked, waits in ((False, "2.0"), (True, "1.0")):
        assert SeveralWatch([Watch(2.0), Watch(4.0)], ("primary", Watch(1.0)), is_asked).facts(1) == {
            "server_cpu_seconds_per_query": 7.0, "primary_cpu_seconds_per_query": 1.0,
            "table_blocks_hit_per_query": 6.0, "shared_buffers": 6.0, "wait_events": waits,
        }  # fmt: skip


@pytest.mark.parametrize("servers", [Shards(2, "citus"), Replicas(2), Pooled(POOLER)])
def test_a_plugin_without_servers_is_refused(servers):
    with pytest.raises(UserError, match=f"^object has one server, or none: leave --{servers.kind} out$"):
        Plugin(object()).set_servers(servers.kind, servers.arguments)
