"""A picture shows one load on one server, or what was requested by name; what is left out is said."""

from dataclasses import replace

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.views.chosen import chosen

from .plotting_data import make_result, make_truth, request_of
from .report_data import make_run

PG17 = {"postgres_version": "17.12", "vector_version": "0.8.0"}
PG18 = {"postgres_version": "18.4", "vector_version": "0.8.5"}


def names(runs, *patterns):
    return sorted({run.algorithm for run in chosen(runs, patterns).runs})


def test_after_an_experiment_of_many_loads_one_is_drawn(tmp_path, monkeypatch, capsys):
    """39 curves, 36 of them of one point, as after tiers of memory with one client and with sixteen."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("mine")
    families = ("pgvector_hnsw", "pgvector_hnsw_halfvec", "vchord")
    memories = ("all", "1GB", "512MB", "256MB", "128MB", "64MB")
    every = [
        Series(family, clients=clients, tier_method="cgroup", tier_memory=f"sb64MB-ram{ram}")
        for family in families
        for clients in (1, 16)
        for ram in memories
    ]
    for series in every:
        memory = {} if series.tier_memory.endswith("all") else {"tier_ram": 1 << 20}
        make_result(
            "mine", series.label, "x", truth, 0.9, 1e-3, series=series.dump_json(), tier="t", **memory
        )
    draw_picture(request_of("mine"))
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "drawn: 1 client, cgroup-sb64MB-ramall, with the most points; --facet tier draws a panel for each"
        " tier, --series all everything, --series '*-c1' a choice by name, --tiers those with less memory",
        "wrote results/mine.png (points: 3, algorithms: 3)",
    ]
    for family in families:
        series = Series(family, clients=4)
        for argument in ("a", "b"):
            make_result("mine", series.label, argument, truth, 0.9, 1e-3, series=series.dump_json())
    draw_picture(request_of("mine"))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("left out: c1-cgroup-sb64MB-ramall (3 points), ") and said[0].endswith(
        "8 other loads"
    )
    assert said[1].startswith("drawn: 4 clients, with the most points;")
    assert said[2].endswith("algorithms: 3)")
    draw_picture(request_of("mine", series=["all"]))
    assert capsys.readouterr().out.endswith("algorithms: 39)\n")
    draw_picture(request_of("mine", series=["vchord-c16*", "*-c4"]))
    assert capsys.readouterr().out.endswith("algorithms: 9)\n")
    with pytest.raises(UserError, match=r"--series: unknown series 'vchrod-c4'; did you mean"):
        draw_picture(request_of("mine", series=["vchrod-c4"]))


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
