"""What filtered results say in pictures, tables and answers, by results that are made up."""

import json
import math
import re
import runpy
import sys
from dataclasses import replace

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.filter_figure import create_filter_figure
from ann_benchmarks.plotting.filter_map import cell_lines, filter_map
from ann_benchmarks.plotting.filter_panels import filter_panels, speed_lines
from ann_benchmarks.plotting.filter_table import filter_tables, markdown
from ann_benchmarks.plotting.styles import assign_styles
from ann_benchmarks.reporting.answer import statements
from ann_benchmarks.reporting.chapters import worth_drawing, worth_listing
from ann_benchmarks.reporting.content import Shown
from ann_benchmarks.reporting.filters import decile_picture, decile_table, filter_picture, filter_table
from ann_benchmarks.results.deciles import deciles_of_run
from ann_benchmarks.results.filtered import (
    AHEAD,
    ALIKE,
    ALONE,
    FASTEST,
    MEASURED,
    NONE,
    ONLY,
    filtered_speed,
    under_filters,
)
from ann_benchmarks.website.filtered import filter_columns, filter_section

from .filtered_data import EVERY_ROUND, make_filtered, sweep, with_deciles
from .report_data import make_run


def one(*runs, target=0.95):
    (found,) = under_filters(runs, target)
    return found


def fastest(*runs):
    return one(*runs).fastest(0.05)


def said(runs, about):
    return {each.about: each.text for each in statements(runs, False, 0.95)}[about]


# --- recall and completeness at once ---


def test_a_result_stands_at_the_recall_that_its_completeness_allows():
    speed = filtered_speed(make_filtered("a", "uniform:0.1", 100, 0.97, 1.0), 0.95)
    assert speed.recall == 0.97 and speed.interval.high == 0.98
    # A hundredth of the rows is lacking where a twentieth of the neighbours may be missed.
    short = filtered_speed(make_filtered("a", "uniform:0.1", 100, 0.97, 0.98), 0.95)
    assert short.recall == pytest.approx(0.9) and not short.may_reach(0.95)
    assert short.interval.high == pytest.approx(0.92) and short.parts == ()
    edge = filtered_speed(make_filtered("a", "uniform:0.1", 100, 0.97, 0.99), 0.95)
    assert edge.recall == pytest.approx(0.95) and edge.reaches(0.95)
    # A complete answer of too low a recall is none.
    assert not filtered_speed(make_filtered("a", "uniform:0.1", 100, 0.9, 0.9899), 0.95).may_reach(0.95)


def test_a_strategy_that_returns_too_few_rows_has_no_throughput():
    found = one(
        make_filtered("a", "uniform:0.1", 100, 0.96, 0.97), make_filtered("b", "uniform:0.1", 10, 0.96)
    )
    assert [*found.at_recall] == ["b"] and [*found.missed] == ["a"]
    assert found.fastest(0.05).state == ONLY


def test_throughput_lies_between_the_points_around_the_required_completeness():
    runs = [
        make_filtered("a", "uniform:0.1", 400, 0.97, 0.98),
        make_filtered("a", "uniform:0.1", 100, 0.98, 0.995),
    ]
    at = one(*runs).at_recall["a"]
    assert len(at.runs) == 2 and at.qps == pytest.approx(
        200, rel=0.02
    )  # half of the rows is lacking in between


def test_what_is_known_of_the_fastest():
    a, b = (make_filtered(name, "uniform:0.1", qps, **EVERY_ROUND) for name, qps in (("a", 300), ("b", 100)))
    known = fastest(a, b)
    assert (known.state, known.names) == (FASTEST, ["a"]) and known.next.value == pytest.approx(3, rel=0.01)
    once = [make_filtered(name, "uniform:0.1", qps) for name, qps in (("a", 300), ("b", 100))]
    assert fastest(*once).state == AHEAD
    alike = fastest(a, make_filtered("b", "uniform:0.1", 299, **EVERY_ROUND))
    assert (alike.state, {*alike.names}, alike.next) == (ALIKE, {"a", "b"}, None)
    assert fastest(a).state == ALONE
    above = make_filtered("c", "uniform:0.1", 10, 0.99, **EVERY_ROUND)
    known = fastest(a, b, above)
    assert (known.state, known.names, known.higher) == (MEASURED, ["a"], ["c"])
    assert known.next.value == pytest.approx(3, rel=0.01)  # b, at an equal recall
    once = fastest(a, make_filtered("c", "uniform:0.1", 10, 0.99))
    assert (once.state, once.names, once.higher) == (AHEAD, ["a"], ["c"])
    low = make_filtered("a", "uniform:0.1", 300, 0.5)
    assert (fastest(low).state, fastest(low).names) == (NONE, [])


def test_filter_sets_are_in_order_and_rates_and_unfiltered_results_left_out():
    runs = [*sweep(2, ("cheap", "near", "uniform"), (0.01, 0.5)), make_run("plain")]
    runs.append(make_filtered("a", "far:0.1", 100, rate=50.0))
    assert [found.name for found in under_filters(runs, 0.95)] == [
        "uniform:0.5", "uniform:0.01", "near:0.5", "near:0.01", "cheap:0.5", "cheap:0.01"
    ]  # fmt: skip


@pytest.mark.parametrize("share", [2, -1, math.nan, 0, "0.1"])
def test_a_share_of_rows_that_is_none_is_left_out(share):
    good = make_filtered("b", "uniform:0.1", 50)
    assert one(good, make_filtered("a", "uniform:0.1", 100, selectivity=share)).strategies == ["b"]
    unknown = replace(good, metrics=good.metrics | {"completeness": math.nan})
    assert under_filters([unknown], 0.95) == []


# --- the picture and the tables ---


def test_a_line_is_broken_where_a_strategy_does_not_reach_the_recall():
    runs = [make_filtered("a", f"uniform:{s:g}", 100, r) for s, r in ((0.5, 0.96), (0.1, 0.5), (0.01, 0.96))]
    (panel,) = filter_panels(under_filters(runs, 0.95))
    assert panel.texts == ["1%", "10%", "50%"]
    pieces = speed_lines(panel, ["a"], True)["a"]
    assert [[point.x for point in piece] for piece in pieces] == [[0.01], [0.5]]


def test_kinds_of_one_set_share_a_panel_and_cells_with_names():
    sets = [("uniform:0.01", 0.01), ("cheap", 0.2), ("tenants:50", 0.07)]
    found = under_filters([make_filtered("a", name, 100, selectivity=share) for name, share in sets], 0.95)
    (panel,) = filter_panels(found)
    assert panel.is_named and panel.texts == ["uniform:0.01", "tenants:50\n7%", "cheap\n20%"]
    shown = filter_map(found)
    ((row,), known) = (shown.rows, found[1].fastest(0.05))
    assert shown.columns == ["", "", ""] and [*row.cells] == [0, 1, 2]
    assert cell_lines(found[1], known, True, 30) == ("tenants:50 (7%)", ["a"], "nothing else measured")


def test_a_column_of_the_map_is_a_share_of_rows():
    runs = [make_filtered("a", "near:0.1", 9, selectivity=0.099), *sweep(1, ("uniform",), (0.5, 0.1))]
    shown = filter_map(under_filters([*runs, make_filtered("a", "near:0.5", 9)], 0.95))
    assert shown.columns == ["50%", "10%"]
    assert [[one.name for one in row.cells.values()] for row in shown.rows] == [
        ["uniform:0.5", "uniform:0.1"], ["near:0.5", "near:0.1"]
    ]  # fmt: skip


def test_tables_say_who_does_not_reach_the_recall_and_what_the_defaults_return():
    found = under_filters(sweep(3, ("uniform",), (0.5, 0.001)), 0.95)
    (table,) = filter_tables(found)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    last = rows[-1]
    assert last["Strategy"] == "pgvector_hnsw" and last["QPS"] == "-"
    assert last["Fastest"] == "not reached: recall 0.040, completeness 0.040"
    assert last["Completeness at defaults"].startswith("0.0040 (") and "Plan" not in table.columns
    assert "| uniform:0.001 | 0.1% | pgvector_exact |" in markdown("t", found, True)
    bare = [
        replace(run, attrs={**run.attrs, "has_default_settings": False}) for run in sweep(2, ("uniform",))
    ]
    text = markdown("t", under_filters(bare, 0.95), False)
    assert "what the defaults lose is not shown" in text and "at defaults" not in text


@pytest.mark.thorough
def test_many_strategies_and_kinds_are_drawn_whole(tmp_path):
    found = under_filters(sweep(12, ("uniform", "near", "far", "labels", "labels2")), 0.95)
    styles = assign_styles({name for each in found for name in each.strategies})
    assert create_filter_figure(found, tmp_path / "a.svg", "t", styles) > 150
    text = (tmp_path / "a.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in (*styles, "labels2", "not told apart", "0.1%"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--tiers"], "a picture each"),
        (["-x", "build"], "--filters has axes of its own: leave out --x-axis"),
        (["--facet", "filter"], "leave out --facet"),
        (["--normalise"], "leave out --normalise"),
        (["--target-recall", "2"], "is no share"),
    ],
)
def test_options_that_filters_do_not_take(words, reason, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["plot.py", "--filters", "--dataset", "x", *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path("plot.py", run_name="__main__")
    assert stopped.value.code and reason in capfd.readouterr().err


# --- the answer ---


def test_the_answer_says_which_strategy_for_which_share_of_rows():
    text = said(sweep(), "Which strategy under filters")
    assert text.startswith(
        "At a recall of 0.95 and a completeness of 0.99, with 1 client. Under uniform: at 50%"
    )
    assert re.search(r"0.1% of the rows [a-z_]+ is the fastest, [0-9.]+ to [0-9.]+ times as fast", text)
    lost = [make_filtered("a", "uniform:0.5", 10), make_filtered("a", "uniform:0.1", 10, 0.4)]
    assert "at 10% of the rows no strategy reaches a recall of 0.95 with all rows" in said(
        lost, "Which strategy under filters"
    )


def test_the_answer_says_what_the_defaults_lose():
    is_default = {"has_default_settings": True}
    runs = [
        make_filtered("hnsw", "uniform:0.01", 100, 0.04, 0.4, **is_default),
        make_filtered("hnsw", "uniform:0.1", 100, 0.96, 1.0, **is_default),
    ]
    text = said(runs, "Default settings")
    assert (
        text == "Under uniform, hnsw at its defaults returns 4.0 of 10 rows at 1% of the rows (recall 0.040)."
    )
    assert said(runs[1:], "Default settings") == "hnsw at the defaults lose nothing beyond noise."
    few = replace(runs[0], metrics=runs[0].metrics | {"candidates": 1.0})  # not every query has ten matches
    assert "returns 40% of the rows that there are to return at 1%" in said([few], "Default settings")


def test_the_answer_says_where_the_planner_is_wrong_in_every_result():
    bad = {"planner_regret": 4.2, "planner_best": "Sort over Bitmap Heap Scan"}
    runs = [
        make_filtered("a", "uniform:0.01", 100, 0.96, **bad),
        make_filtered("a", "uniform:0.01", 90, 0.99, **bad),
    ]
    text = said(runs, "The planner")
    assert "4.2 times as long with a under uniform:0.01 (Sort over Bitmap Heap Scan)" in text
    for damaged in ("x" * 10**6, ["y" * 999] * 999):
        text = said(
            [make_filtered("a", "uniform:0.01", 100, 0.96, **bad | {"planner_best": damaged})], "The planner"
        )
        assert len(text) < 500 and " ... " in text
    unsure = [runs[0], replace(runs[1], attrs=runs[1].attrs | {"planner_regret": 1.2})]
    assert "The planner" not in {each.about for each in statements(unsure, False, 0.95)}
    for low, is_said in ((1.0, False), (1.2, True)):
        bounds = {"planner_regret_low": low, "planner_regret_high": 9.0}
        chance = [make_filtered("a", "uniform:0.01", 100, 0.96, **bad, **bounds)]
        (table,) = filter_tables(under_filters(chance, 0.95))
        assert f"4.2 ({low:g} to 9)" in table.rows[0]
        assert ("The planner" in {each.about for each in statements(chance, False, 0.95)}) == is_said


def test_results_of_another_load_are_not_compared_and_this_is_said():
    runs = [*sweep(2, ("uniform",)), make_filtered("z", "uniform:0.5", 1e6, clients=16)]
    text = said(runs, "Which strategy under filters")
    assert "with 1 client" in text and "Left out: c16 (1 point)." in text and " z " not in text


def test_the_page_of_a_dataset_has_the_same_load_and_the_same_fastest():
    runs = [*sweep(3, ("uniform", "near"), (0.5, 0.001)), make_filtered("z", "far:0.5", 1e6, clients=16)]
    section = filter_section(runs)
    assert section.kinds == ["uniform", "near"] and section.with_defaults == {"uniform", "near"}
    assert section.rows[1][:3] == ["uniform:0.001", "0.1%", "pgvector_exact"]
    assert section.rows[1][3].startswith("the fastest; ") and section.notes == ["left out: c16 (1 point)"]
    kind, share, _ = filter_columns(runs)
    assert kind.value(runs[0]) == "uniform" and share.value(runs[0]) == 0.5 and kind.value(runs[-1]) is None
    assert filter_section([make_run()]) is None


# --- deciles ---


def test_deciles_are_read_and_damaged_ones_left_out(tmp_path):
    run = with_deciles(make_filtered("a", "tenants:1000", 100, selectivity=0.1))
    first = deciles_of_run(run)[0]
    assert (first.least, first.most, first.queries) == (10, 15, 50) and math.isnan(first.p99)
    for damaged in ("[{}]", "no JSON", '[{"least": "x"}]', "[1]", 7):
        assert deciles_of_run(replace(run, attrs={"deciles": damaged})) == []
    known = json.loads(run.attrs["deciles"])
    for impossible in ({"least": 16}, {"least": -1}, {"queries": 0}, {"recall": 7}, {"completeness": -0.1}):
        damaged = json.dumps([{**known[0], **impossible}, *known[1:]])
        assert deciles_of_run(replace(run, attrs={"deciles": damaged})) == []
    late = json.dumps([{**known[0], "p50": -1.0}])
    assert math.isnan(deciles_of_run(replace(run, attrs={"deciles": late}))[0].p50)
    shown = Shown([run], [], 0.95, "t", tmp_path, "1-", {})
    (table,) = decile_table(shown)
    assert table.rows[0] == ["a", "10 to 15", "50", "0.8200", "1.0000", "1.000", "-"]
    (picture,) = decile_picture(shown)
    assert (tmp_path / picture.file).stat().st_size > 1000
    assert {"filters", "deciles"} <= {*worth_drawing([run], [])} & {*worth_listing([run], [])}
    (picture,) = filter_picture(shown)
    assert (tmp_path / picture.file).exists() and filter_table(shown)
    with pytest.raises(UserError, match="no result in a closed loop has a filter"):
        filter_table(replace(shown, runs=[make_run()]))
