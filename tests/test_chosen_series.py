"""A picture shows one load on one server, or what was requested by name; what is left out is said."""

from dataclasses import replace

from ann_benchmarks.views.chosen import chosen

from .report_data import make_run

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
