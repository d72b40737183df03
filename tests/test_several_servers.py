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
from ann_benchmarks.experiments.findings import StepPoint, selected
from ann_benchmarks.fields.series import Series, series_from
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.reporting.content import Shown
from ann_benchmarks.reporting.document import Paragraph
from ann_benchmarks.reporting.kinds import make
from ann_benchmarks.results.comparable import comparable
from ann_benchmarks.views.parts import Table
from ann_benchmarks.views.servers import server_lines

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


# Reports of several servers beside one: pictures over the number of shards, a table, and findings.


ROUNDS = 8


def result(rate, shards=0, engine="", clients=1, probes=None, **attrs):
    """A result of rounds that all results have shared, on so many shards."""
    rounds = {"rounds": "r", "run_rounds": list(range(ROUNDS))}
    parts = {"recall_parts": [0.9, 1.0] * 25}
    rates = [rate * (1 + 0.01 * (-1) ** (i // (shards + 1))) for i in range(ROUNDS)]
    run = make_run("hnsw", rates, clients=clients, **rounds, **parts, **attrs)
    series = run.series.replaced(shards=shards or None, shard_engine=engine, shard_probes=probes)
    return replace(run, series=series)


def on_servers(rate, attrs=(), **fields):
    run = result(rate, **dict(attrs))
    return replace(run, series=run.series.replaced(**fields))


def every(clients=1):
    """Results of one server and of 2 and 4 shards, twice as slow with each doubling."""
    cpu = {"server_cpu_seconds_per_query": 0.004}
    of_fdw = cpu | {"coordinator_cpu_seconds_per_query": 0.001}
    return [
        result(1000.0, clients=clients, **cpu),
        *(result(800.0 / n, n, "client", clients, **cpu) for n in (2, 4)),
        *(result(400.0 / n, n, "fdw", clients, **of_fdw) for n in (2, 4)),
    ]


def blocks(what, runs, folder=None):
    shown = Shown(runs, [], 0.95, **({"folder": folder} if folder else {}))
    return make(what, {"kind": "shards"}, shown)


def routed(rate, shards, probes, **attrs):
    return result(rate, shards, "routed", probes=probes, **attrs)


def test_each_number_of_probes_has_a_row_and_says_where_it_does_not_reach_the_recall(tmp_path):
    short = routed(900.0, 4, 1)
    short.metrics["recall"], short.attrs["recall_parts"] = 0.6, [0.5, 0.7] * 25
    runs = [*every(), routed(700.0, 4, 2), short, routed(500.0, 2, 1)]
    table, *_ = blocks("table", runs)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    of_routed = [row for row in rows if "routed" in row["Servers"]]
    assert [row["Servers"] for row in of_routed] == [
        f"{shards} shards, asked by routed, {probes} of them" for shards, probes in ((2, 1), (4, 1), (4, 2))
    ]
    ratios = [row["QPS / one server"].partition(" ")[0] for row in of_routed]
    assert float(ratios[0]) == pytest.approx(0.5, rel=0.01) and ratios[1] == "-"
    assert [row["Recall"] for row in of_routed] == ["0.9500", "0.6000", "0.9500"]
    assert "not reached" in of_routed[1].values() and "not reached" not in of_routed[2].values()
    blocks("picture", runs, tmp_path)
    assert (tmp_path / "shards.png").exists()
    _, kinds = server_lines(runs, 0.95, "qps")
    ways = ("client", "fdw", "routed, 1 of them", "routed, 2 of them")
    assert {*kinds.values()} == {"one server", *(f"asked by {way}" for way in ways)}


def on_tier(run, megabytes):
    memory = {"tier": f"all:{megabytes}MB", "tier_ram": megabytes << 20}
    return replace(
        run,
        series=run.series.replaced(tier_method="cgroup", tier_memory=f"ram{megabytes}MB"),
        attrs={**run.attrs, **memory},
    )


def test_small_servers_stand_beside_a_large_one():
    runs = [
        *(on_tier(result(rate), megabytes) for rate, megabytes in ((1000.0, 400), (100.0, 100))),
        on_tier(result(600.0, 4, "client"), 100),
    ]
    table, *notes = blocks("table", runs)
    assert isinstance(table, Table)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["Servers"], row["RAM of each"]) for row in rows] == [
        *(("one server", "100 MB"), ("one server", "400 MB"), ("4 shards, asked by client", "100 MB"))
    ]
    ratios = [row["QPS / one server"].partition(" ")[0] for row in rows]
    assert float(ratios[0]) == pytest.approx(0.1, rel=0.02) and ratios[1] == "-"
    assert float(ratios[2]) == pytest.approx(0.6, rel=0.02)
    assert "one server with the most RAM" in " ".join(note.text for note in notes)


def test_each_load_has_a_table_of_its_own():
    tables = [block for block in blocks("table", [*every(), *every(16)]) if isinstance(block, Table)]
    assert [table.caption.partition(" on ")[0] for table in tables] == ["hnsw-c1", "hnsw-c16"]


def test_without_one_server_there_is_no_ratio():
    table, *_ = blocks("table", every()[1:])
    assert "QPS / one server" not in table.columns and "Recall" in table.columns


@pytest.mark.parametrize("what", ["picture", "table"])
def test_without_shards_a_sentence_says_so(what):
    (note,) = blocks(what, every()[:1])
    assert "no result is on shards, on replicas or through a pooler" in note.text


def test_replicas_and_poolers_stand_in_the_same_table_and_picture(tmp_path):
    copies = [(800.0, {"replicas": 1}), (1900.0, {"replicas": 2})]
    through = {"pooler": "pgbouncer:transaction", "pool_size": 8}
    runs = [result(1000.0), result(400.0, 2, "fdw"), *(on_servers(rate, **fields) for rate, fields in copies)]
    runs.append(on_servers(500.0, {"pooler_cpu_seconds_per_query": 0.0001}, **through))
    table, *_ = blocks("table", runs)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    pooled = "through pgbouncer:transaction, with 8 connections"
    assert list(rows) == ["one server", pooled, "1 replica", "2 replicas", "2 shards, asked by fdw"]
    assert rows[pooled]["Pooler CPU (ms/query)"] == "0.1000"
    assert float(rows["2 replicas"]["QPS / one server"].partition(" ")[0]) == pytest.approx(1.9, rel=0.02)
    lines, _ = server_lines(runs, 0.95, "qps")
    assert {name.removeprefix("hnsw-c1, "): [point.x for point in line] for name, line in lines.items()} == {
        "one server": [1, 2], pooled: [1, 2], "replicas": [1, 2], "asked by fdw": [2],
    }  # fmt: skip


def test_a_finding_of_one_server_is_not_looked_for_on_several():
    hnsw = Definition("hnsw", "C", "m", "t", [{"M": 16}], [[50]], False)
    points = [
        StepPoint("shards", Job(one, [[50]], "tiny", 10), [50], make_run("hnsw"))
        for one in apply_servers([hnsw], every_shards([0, 2, 4], ["citus", "client"]))
    ]
    assert [point.job.definition.servers for point in selected({"algorithm": "hnsw"}, points)] == [ONE_SERVER]
    on_four = selected({"algorithm": "hnsw", "shards": 4, "engine": "client"}, points)
    assert [str(point.job.definition.servers) for point in on_four] == ["shards4-client"]
    assert len(selected({"shards": [0, 2, 4], "engine": ["", "citus", "client"]}, points)) == 5


def test_shards_that_miss_the_recall_have_no_picture(tmp_path):
    runs = [every()[0], routed(900.0, 4, 1)]
    runs[1].metrics["recall"], runs[1].attrs["recall_parts"] = 0.6, [0.5, 0.7] * 25
    (note,) = blocks("picture", runs, tmp_path)
    assert isinstance(note, Paragraph)
    assert "no result on several servers reaches a recall of 0.95" in note.text
