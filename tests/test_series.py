"""What a series is, and how files that others and earlier releases wrote are assigned to one.

tests/files/old_results/ was written by this project's version 0.1.0, the attributes in known.json as well.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.fields.series import ATTRIBUTE, Series, series_of
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.records import iter_record_paths, read_record
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.views.chosen import chosen

from .plotting_data import dump_json, make_result, make_truth
from .report_data import make_run

OLD = Path(__file__).parent / "files" / "old_results"
KNOWN = json.loads((OLD / "known.json").read_text())
HOT, MY = "hot-cold-index", "my-container-db"
GP3 = {"tier_cpus": 4, "tier_disk": "gp3", "tier_memory": "sb1GB-ramall"}
OLD_SERIES = {
    HOT: Series(HOT),
    f"{HOT}-batch": Series(HOT, batch=True),
    f"{HOT}-cold": Series(HOT, is_cold=True),
    f"{HOT}-c2": Series(HOT, clients=2),
    f"{HOT}-c2-cold": Series(HOT, clients=2, is_cold=True),
    f"{HOT}-c2-pgbench": Series(HOT, clients=2, driver="pgbench"),
    f"{HOT}-c2-r200.5": Series(HOT, clients=2, rate=200.5),
    f"{HOT}-c2-same-q4": Series(HOT, clients=2, query_order="same", distinct_queries=4),
    f"{HOT}-c2-slo-p99-50ms": Series(HOT, clients=2, objective="p99:50ms"),
    f"{HOT}-c2-zipf1.1": Series(HOT, clients=2, query_order="zipf:1.1"),
    **{
        f"{MY}-c8-{method}-{label}": Series(MY, clients=8, tier_method=method, **tier)
        for method in ("hugepages", "cgroup", "container")
        for label, tier in (
            ("sb1GB-ram4GB", {"tier_memory": "sb1GB-ram4GB"}),
            ("4cpus-gp3-sb1GB-ramall", GP3),
            ("2cpus", {"tier_cpus": 2}),
        )
    },
    f"{MY}-cold-cgroup-2cpus-sb512MB-ram768MB": Series(
        MY, is_cold=True, tier_method="cgroup", tier_cpus=2, tier_memory="sb512MB-ram768MB"
    ),
    f"{MY}-c4-zipf1.25-q64-r1000000-pgbench-cold-cgroup-sb1GB-ram2GB": Series(
        MY, clients=4, query_order="zipf:1.25", distinct_queries=64, rate=1e6, driver="pgbench", is_cold=True,
        tier_method="cgroup", tier_memory="sb1GB-ram2GB",
    ),
    f"{MY}-v0.8.0-pg17": Series(MY, "v0.8.0-pg17"),
    f"{MY}-v0.8.0-pg17-c2-container-sb1GB-ram2GB": Series(
        MY, "v0.8.0-pg17", clients=2, tier_method="container", tier_memory="sb1GB-ram2GB"
    ),
    "pgvector_hnsw-0.7.4-c1": Series("pgvector_hnsw", "0.7.4", clients=1),
    "vchord-0.5.0-c1": Series("vchord", "0.5.0", clients=1),
}  # fmt: skip
OLD_WORKLOADS = [
    Series(HOT, workload="inserts", writers=2),
    Series(
        HOT, clients=1, workload="writes", writers=1, write_rate=20.0, write_mix="33.33-33.33-33.33",
        loaded=0.7, autovacuum=True,
    ),
    Series(
        HOT, clients=1, query_order="zipf:1.1", distinct_queries=5, workload="writes", writers=2,
        write_rate=20.0, write_mix="50-25-25",
    ),
]  # fmt: skip


@pytest.fixture
def old_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OLD / "results", "results")


@pytest.mark.parametrize("folder", KNOWN["attributes"])
def test_old_labels_are_explained_by_what_was_stored_next_to_them(folder):
    series = series_of(KNOWN["attributes"][folder], folder)
    assert series == OLD_SERIES[folder] and series.folder == folder


def test_old_files_have_their_metrics(old_results):
    make_truth("small", distances=np.array(KNOWN["truth"]))
    runs = {run.series.folder: run for run in load_runs(iter_result_paths())}
    assert {name: run.series for name, run in runs.items()} == {name: OLD_SERIES[name] for name in runs}
    for known in KNOWN["points"]:
        run = runs[known["algorithm"] + "-batch" * known["batch"]]
        # Their throughput was that of the best run, and their latencies those of its twelve queries.
        metrics = {name: value for name, value in known["metrics"].items() if value is not None}
        metrics["qps-best"] = metrics.pop("qps")
        metrics = {name: metrics[name] for name in metrics if name[0] != "p" and name != "queriessize"}
        assert (run.algorithm, run.parameters) == (known["algorithm"], known["parameters"])
        assert {name: run.metrics[name] for name in metrics} == pytest.approx(metrics)


def test_old_workloads_have_their_series(old_results):
    records = [read_record(path) for path in iter_record_paths()]
    assert [record.series for record in records] == OLD_WORKLOADS
    assert [record.series.label for record in records] == [record.algo for record in records]
    assert {record.series.family for record in records} == {HOT}


@pytest.mark.parametrize(
    "algo",
    ["annoy", "hnsw(faiss)", "hot-cold-index", "my-container-db", "a-c8", "x-cold", "b-r5-batch", "-c1"],
)
def test_all_of_the_name_of_a_foreign_result_is_its_algorithm(algo):
    attrs = {"algo": algo, "batch_mode": False, "count": 10, "distance": "angular"}
    assert series_of(attrs, "some folder") == Series(algo)
    assert series_of(attrs | {"batch_mode": True}, "x") == Series(algo, batch=True)


def test_a_file_without_a_name_is_named_by_its_folder():
    assert series_of({}, "a-batch") == Series("a-batch")
    assert series_of({"batch_mode": True}, "a-batch") == Series("a", batch=True)


@pytest.mark.parametrize("algorithm", ["hnsw", "a-c2", "x-cold", "writes-w2", "ram-sb1GB"])
def test_stored_fields_are_read_whatever_the_label(algorithm):
    for known in (*OLD_SERIES.values(), *OLD_WORKLOADS):
        series = known.replaced(algorithm=algorithm)
        assert series_of({ATTRIBUTE: series.dump_json(), "algo": "wrong", "clients": 99}, "wrong") == series


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "{",
        "[]",
        "5",
        "{}",
        '{"algorithm": 5}',
        '{"algorithm": "a", "rate": "fast"}',
        '{"algorithm": "a", "clients": "2"}',
        None,
        b"\xff",
    ],
)
def test_damaged_fields_are_no_error(stored):
    assert series_of({ATTRIBUTE: stored, "algo": "a-c2", "clients": 2}, "f") == Series("a", clients=2)


def test_fields_of_newer_releases_are_ignored():
    assert series_of({ATTRIBUTE: '{"algorithm": "a", "planets": 4}'}, "f") == Series("a")
    assert series_of({ATTRIBUTE: '{"algorithm": "a\\u0000\\u001b[1mb"}'}, "f").label == "a  [1mb"


@pytest.mark.parametrize(
    "attrs", [{"clients": "many"}, {"clients": [1, 2]}, {"rate": float("inf")}, {"tier": 3}]
)
def test_odd_attributes_are_no_error(attrs):
    assert series_of({"algo": "a-c2", **attrs}, "f") == Series("a-c2")


def test_labels_are_folders_and_differ_where_a_field_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    every = [*OLD_SERIES.values(), *OLD_WORKLOADS]
    assert len({series.folder for series in every}) == len(every)
    attrs = {ATTRIBUTE: Series("hot-cold-index", clients=3, is_cold=True).dump_json()}
    make_result("d", "any", "x", make_truth("d"), 0.9, 0.01, **attrs)
    (run,) = load_runs(iter_result_paths())
    (again,) = load_runs(iter_result_paths())  # from the cache
    assert run.algorithm == "hot-cold-index-c3-cold" and run.series.family == "hot-cold-index"
    assert dump_json([again]) == dump_json([run]) and again.series == run.series


# A picture shows one load on one server, or what was requested by name; what is left out is said.


PG17 = {"postgres_version": "17.12", "vector_version": "0.8.0"}
PG18 = {"postgres_version": "18.4", "vector_version": "0.8.5"}


def names(runs, *patterns):
    return sorted({run.algorithm for run in chosen(runs, patterns).runs})


def test_after_an_experiment_of_many_loads_one_is_drawn():
    """As after tiers of memory with one client and with sixteen."""
    every = [make_run(name, clients=c, ram=ram) for name in "abc" for c in (1, 16) for ram in ("all", 2, 1)]
    choice = chosen(every, ())
    assert len(choice.runs) == 3 and choice.notes[-1] == (
        "drawn: 1 client, cgroup-sb1GB-ramall, with the most points; --facet tier draws a panel for each"
        " tier, --series all everything, --series '*-c1' a choice by name, --tiers those with less memory"
    )
    every += [make_run(name, clients=4) for name in "abc"] * 2
    choice = chosen(every, ())
    assert choice.notes[0].endswith(" 2 other loads") and choice.notes[-1].startswith("drawn: 4 clients,")
    assert len(names(every, "all")) == 21 and len(names(every, "c-c16*", "*-c4")) == 6


def test_the_server_with_the_most_points_is_drawn():
    runs = [make_run("a", **PG17), make_run("a", **PG18), make_run("b", **PG18), make_run("c")]
    runs[2].attrs["vchord_version"] = "1.0"  # contradicts nothing
    choice = chosen(runs, ())
    assert [run.attrs.get("postgres_version") for run in choice.runs] == ["18.4", "18.4", None]
    assert choice.notes[0] == "left out: 1 point of PostgreSQL 17.12"
    assert len(chosen(runs, ("all",)).runs) == 4


def test_releases_that_are_compared_on_purpose_are_drawn_together():
    runs = [make_run(**PG17), make_run(**PG18)]
    runs = [replace(run, series=run.series.replaced(version=run.attrs["vector_version"])) for run in runs]
    assert len(chosen(runs, ()).runs) == 2 and not chosen(runs, ()).notes


def test_results_of_others_are_drawn_beside_ours():
    theirs = make_run("theirs")
    for name in ("cpu", "cores", "memory_bytes"):
        del theirs.attrs[name]
    assert names([theirs, make_run("ours", **PG18)]) == ["ours-c1", "theirs-c1"]


def test_one_load_on_one_server_is_drawn_without_a_word():
    choice = chosen([make_run("a"), make_run("b")], ())
    assert (len(choice.runs), choice.load, list(choice.notes)) == (2, "", [])
