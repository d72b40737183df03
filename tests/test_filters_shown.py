"""What filtered results say in pictures, tables and answers, by results that are made up."""

import json
import math
import runpy
import sys
from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import Filter, Predicate, passing
from ann_benchmarks.plotting.chart import draw_chart
from ann_benchmarks.reporting.answer import statements
from ann_benchmarks.reporting.content import Shown
from ann_benchmarks.reporting.kinds import worth_showing
from ann_benchmarks.reporting.pictures import decile_picture, decile_table, filter_picture, filter_table
from ann_benchmarks.results.comparable import Comparison, least_memory
from ann_benchmarks.results.filtered import filtered_speed, group_by_filter, read_deciles
from ann_benchmarks.results.measurement import Measurement
from ann_benchmarks.results.metrics import compute_all
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.views.figures import assign_styles
from ann_benchmarks.views.filter_chart import filter_chart
from ann_benchmarks.views.filters import NO_DEFAULTS, fastest_table, filter_tables, view_filters
from ann_benchmarks.views.memory import needs
from ann_benchmarks.website.columns import filter_columns

from .filtered_data import EVERY_ROUND, make_filtered, sweep, with_deciles
from .filtered_rows import TEXTS, attributes, passes
from .report_data import make_run

HALF, TENTH = "uniform:0.5", "uniform:0.1"


def said(runs):
    return {each.about: each.text for each in statements(runs, False, 0.95)}


@pytest.mark.parametrize(
    ("recall", "complete", "stands", "high"),
    [
        (0.97, 1.0, 0.97, 0.98),
        (0.97, 0.98, 0.9, 0.92),  # a hundredth of the rows is lacking where a twentieth may be missed
        (0.97, 0.99, 0.95, 0.97),
        (0.9, 0.9899, 0.9, None),  # complete enough, and of too low a recall
    ],
)
def test_a_result_stands_at_the_recall_that_its_completeness_allows(recall, complete, stands, high):
    speed = filtered_speed(make_filtered("a", TENTH, 100, recall, complete), 0.95)
    assert speed.recall == pytest.approx(stands)
    assert high is None or speed.interval.high == pytest.approx(high)
    assert speed.may_reach(0.95) == (stands >= 0.95)


def test_throughput_lies_between_the_points_around_the_required_completeness():
    runs = [make_filtered("a", TENTH, 400, 0.97, 0.98), make_filtered("a", TENTH, 100, 0.98, 0.995)]
    at = group_by_filter(runs, 0.95)[0].standings["a"]
    assert len(at.runs) == 2 and at.qps == pytest.approx(200, rel=0.02)  # half of the rows is lacking between


def test_one_wording_of_the_fastest_in_sentences_tables_cells_and_the_picture():
    def sure(name, qps, recall=0.95):
        return make_filtered(name, TENTH, qps, recall, **EVERY_ROUND)

    def once(name, qps, recall=0.95, complete=1.0):
        return make_filtered(name, TENTH, qps, recall, complete)

    a, b, above = sure("a", 300), sure("b", 100), sure("c", 10, 0.99)
    behind, slower = ", 3 times as fast as the next", " (slower, but measured at higher recalls only: c)"
    ahead, alike, only = "ahead, but not surely", "cannot be told apart", "the only one that reaches it"
    for runs, names, says, sentence in (
        ([a, b], ["a"], "the fastest", f"a is the fastest{behind}"),
        ([a, b, above], ["a"], "the fastest as measured", f"a is the fastest as measured{behind}{slower}"),
        ([once("a", 300), once("b", 100)], ["a"], ahead, f"a is {ahead}{behind}"),
        ([a, sure("b", 299)], ["a", "b"], alike, f"a and b {alike}"),
        ([a, sure("b", 299), sure("d", 9)], ["a", "b"], alike, f"a and b {alike}."),
        ([a], ["a"], "the only one that was measured", "a is the only one that was measured"),
        ([a, once("b", 900, 0.96, 0.97)], ["a"], only, f"a is {only}"),
        ([once("a", 300, 0.5)], [], "no strategy reaches it", "at 10% of the rows no strategy reaches it."),
    ):  # fmt: skip
        view = view_filters(runs, 0.95)
        (known,) = view.fastest.values()
        assert (known.state, sorted(known.names)) == (says, names)
        assert fastest_table(view).rows[0][3].startswith(says)
        rows = filter_tables(view)[0].rows
        assert (says in rows[0]) == bool(names) and ("slower, at a higher recall" in rows[-1]) == (
            above in runs
        )
        assert sentence in said(runs)["Which strategy under filters"].replace("b and a", "a and b")


def test_filter_sets_are_in_order_and_rates_and_unfiltered_results_left_out():
    runs = [*sweep(2, ("cheap", "near", "uniform"), (0.01, 0.5)), make_run("plain")]
    runs.append(make_filtered("a", "far:0.1", 100, rate=50.0))
    assert [found.name for found in group_by_filter(runs, 0.95)] == [
        "uniform:0.5", "uniform:0.01", "near:0.5", "near:0.01", "cheap:0.5", "cheap:0.01"
    ]  # fmt: skip


@pytest.mark.parametrize("share", [2, -1, math.nan, 0, "0.1"])
def test_an_impossible_share_of_rows_is_left_out(share):
    good = make_filtered("b", TENTH, 50)
    bad = make_filtered("a", TENTH, 100, selectivity=share)
    assert group_by_filter([good, bad], 0.95)[0].strategies == ["b"]
    unknown = replace(good, metrics=good.metrics | {"completeness": math.nan})
    assert group_by_filter([unknown], 0.95) == []


def chart_of(view):
    return filter_chart(view, "t", assign_styles(view.strategies))


def test_a_line_is_broken_where_a_strategy_does_not_reach_the_recall():
    runs = [make_filtered("a", f"uniform:{s:g}", 100, r) for s, r in ((0.5, 0.96), (0.1, 0.5), (0.01, 0.96))]
    (panel,) = chart_of(view_filters(runs, 0.95)).panels
    (curve,) = panel.curves
    assert [point.x for point in curve.points] == pytest.approx([0.01, 0.1, 0.5])
    assert [math.isnan(point.y) for point in curve.points] == [False, True, False]


def test_kinds_of_one_set_share_a_column_with_names():
    sets = [("uniform:0.01", 0.01), ("cheap", 0.2), ("tenants:50", 0.07)]
    runs = [make_filtered("a", name, 100, selectivity=share) for name, share in sets]
    runs += [make_filtered(name, "near:0.5", 100, has_default_settings=True) for name in "ab"]
    runs.append(make_filtered("b", "near:0.1", 100, 0.2, has_default_settings=True))
    near, named, at_defaults, nothing = chart_of(view_filters(runs, 0.95)).panels
    assert [*near.x.ticks.values()] == ["10%", "50%"]
    assert [*named.x.ticks.values()] == ["uniform:0.01", "tenants:50\n7%", "cheap\n20%"]
    roles = [[(one.name, one.role) for one in panel.curves] for panel in (near, named, at_defaults)]
    assert roles[:2] == [[("a", "line"), ("b", "line")], [("", "mark")]]
    assert roles[2] == [("", "line"), ("", "line"), ("", "hollow"), ("", "hollow")]
    assert nothing.absent == "no result at default settings" and not nothing.curves


def test_columns_without_any_figure_are_left_out():
    runs = [replace(run, attrs=run.attrs | {"has_default_settings": False}) for run in sweep(2, ("uniform",))]
    table, *notes = filter_tables(view_filters(runs, 0.95))
    assert not {"Plan", "Recall at defaults"} & {*table.columns} and notes[-1] == NO_DEFAULTS


@pytest.mark.thorough
def test_many_strategies_and_kinds_are_drawn_whole(tmp_path):
    view = view_filters(sweep(12, ("uniform", "near", "far", "labels", "labels2")), 0.95)
    draw_chart(chart_of(view), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 100_000
    text = (tmp_path / "a.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in (*view.strategies, "labels2", "0.1%"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--tiers"], "a picture each"),
        (["-x", "build"], "--filters has axes of its own: leave out --x-axis"),
        (["--facet", "filter"], "leave out --facet"),
        (["--published", "5m"], "leave out --published"),
        (["--target-recall", "2"], "must be above 0"),
    ],
)
def test_options_that_filters_do_not_take(words, reason, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["plot.py", "--filters", "--dataset", "x", *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path("plot.py", run_name="__main__")
    assert stopped.value.code and reason in capfd.readouterr().err


def test_the_answer_says_what_the_defaults_lose():
    is_default = {"has_default_settings": True}
    few = make_filtered("hnsw", "uniform:0.01", 100, 0.04, 0.4, **is_default)
    enough = make_filtered("hnsw", TENTH, 100, 0.96, 1.0, **is_default)
    text = "Under uniform, hnsw at its defaults returns 4.0 of 10 rows at 1% of the rows (recall 0.040)."
    assert said([few, enough])["Default settings"] == text
    assert said([enough])["Default settings"] == "hnsw at the defaults lose nothing beyond noise."
    rare = replace(few, metrics=few.metrics | {"candidates": 1.0})  # not every query has ten matches
    assert "returns 40% of the rows that there are to return at 1%" in said([rare])["Default settings"]


def test_results_of_another_load_are_not_compared_and_this_is_said():
    runs = [*sweep(2, ("uniform",)), make_filtered("z", HALF, 1e6, clients=16)]
    text = said(runs)["Which strategy under filters"]
    assert "with 1 client" in text and "Left out: c16 (1 point)." in text and " z " not in text
    assert view_filters(runs, 0.95).choice.left_out == ["left out: c16 (1 point)"]
    kind, share, _ = filter_columns(runs)
    assert kind.value(runs[0]) == "uniform" and share.value(runs[0]) == 0.5 and kind.value(runs[-1]) is None


def test_deciles_are_read_and_damaged_ones_left_out(tmp_path):
    run = with_deciles(make_filtered("a", "tenants:1000", 100, selectivity=0.1))
    first = read_deciles(run)[0]
    assert (first.least, first.most, first.queries) == (10, 15, 50) and math.isnan(first.p99)
    known = json.loads(run.attrs["deciles"])
    impossible = ({"least": 16}, {"least": -1}, {"queries": 0}, {"recall": 7}, {"completeness": -0.1})
    damaged = [json.dumps([{**known[0], **one}, *known[1:]]) for one in impossible]
    for text in ("[{}]", "no JSON", '[{"least": "x"}]', "[1]", 7, *damaged):
        assert read_deciles(replace(run, attrs={"deciles": text})) == []
    late = json.dumps([{**known[0], "p50": -1.0}])
    assert math.isnan(read_deciles(replace(run, attrs={"deciles": late}))[0].p50)
    shown = Shown([run], [], 0.95, "t", tmp_path, "1-", {})
    (table,) = decile_table(shown)
    assert table.rows[0] == ["a", "10 to 15", "50", "0.8200", "1.0000", "1.000", "-"]
    for picture in (*decile_picture(shown), *filter_picture(shown)):
        assert (tmp_path / picture.file).stat().st_size > 1000
    for what in ("picture", "table"):
        assert {"filters", "deciles"} <= {request["kind"] for request in worth_showing(what, [run], [])}
    for show, runs, why in (
        (filter_table, [make_run()], "no result in a closed loop has a filter"),
        (decile_table, [make_filtered("a", TENTH, 1)], "no result has figures by decile of matches"),
    ):
        with pytest.raises(UserError, match=why):
            show(replace(shown, runs=runs))


# Figures of filtered queries by hand, and which rows pass: against Python's own comparison of each row.


INF = math.inf
ATTRS = {"count": 3, "best_search_time": 0.001, "run_count": 1, "distance": "euclidean"}
# Of 3 requested rows, the queries have 3 or more, 2, 1 and no matches.
TRUE = np.array([[1, 2, 3, 4], [1, 2, INF, INF], [5, INF, INF, INF], [INF] * 4])


def figures(found, distance="euclidean", true=TRUE):
    m = Measurement(Truth(true, True), np.array(found), np.full(4, 1e-3), {**ATTRS, "distance": distance})
    return compute_all(m)


def test_recall_and_completeness_count_the_rows_that_there_are():
    every = [[1, 2, 3], [1, 2, INF], [5, INF, INF], [INF] * 3]
    exact = figures(every)
    assert [exact[name] for name in ("recall", "epsilon", "largeepsilon", "completeness")] == [1, 1, 1, 1]
    assert exact["short"] == 0 and exact["rel"] == pytest.approx((6 + 3 + 5) / (10 + 3 + 5))
    # 3 rows of which 2 are right; 1 of 2; none of 1; none of none.
    some = figures([[1, 2, 9], [1, INF, INF], [INF] * 3, [INF] * 3])
    assert some["recall"] == pytest.approx((2 / 3 + 1 / 2 + 0 + 1) / 4)
    assert some["completeness"] == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert some["short"] == 2 / 4 and some["rel"] == INF


@pytest.mark.filterwarnings("error")
def test_inner_products_under_filters():
    true = np.sort(np.where(np.isfinite(TRUE), -TRUE, INF), axis=1)
    values = figures(np.where(np.isfinite(true[:, :3]), true[:, :3], INF), "ip", true)
    assert [values[name] for name in ("recall", "epsilon", "largeepsilon", "completeness")] == [1, 1, 1, 1]


def test_without_a_filter_an_infinite_distance_means_what_it_did():
    of = Measurement(Truth(TRUE[:1]), np.array([[1, 2, INF]]), np.array([1e-3]), ATTRS)
    values = compute_all(of)
    assert values["recall"] == 2 / 3 and math.isnan(values["completeness"]) and math.isnan(values["short"])


@pytest.mark.parametrize(
    ("field", "words"), [("filter", "under the filter"), ("payload", "with the payload")]
)
def test_memory_is_compared_under_one_filter_and_with_one_payload(field, words):
    def under(run, value):
        return replace(run, series=run.series.replaced(**{field: value}))

    few = [make_run(rates=(900.0, 901.0, 899.0)), make_run(rates=(100.0, 101.0, 99.0), ram=4)]
    many = [make_run(rates=(102.0, 101.0, 103.0)), make_run(rates=(100.0, 101.0, 99.0), ram=2)]
    runs = [*(under(run, "few") for run in few), *(under(run, "many") for run in many)]
    found = {need.algorithm: need for need in needs(runs, 0.9)}
    assert [*found] == [f"hnsw {words} few", f"hnsw {words} many"]
    assert found[f"hnsw {words} few"].perhaps is None  # a ninth of the speed is left
    assert found[f"hnsw {words} many"].perhaps == 2 << 30
    scarce = least_memory(runs, 0.9, Comparison(1, runs[:1], 0.9))
    assert scarce is not None and {getattr(run.series, field) for run in scarce.runs} == {"few"}


WORD = 'the "word"'
SHAPES = {
    "stretch": lambda i: [Predicate("uniform", ">=", 7 * i), Predicate("uniform", "<", 7 * i + 60)],
    "one of": lambda i: [Predicate("uniform", "in", tuple(range(i, 300, 9)))],
    "compared": lambda i: [Predicate("uniform", "<=", 7 * i), Predicate(WORD, ">", "it's")],
    "word": lambda i: [Predicate(WORD, "=", [*TEXTS, "blau"][i % 11])],
    "words": lambda i: [Predicate(WORD, "in", ("plain", ["", "it's"][i % 2]))],
    "labels": lambda i: [Predicate("labels", "contains", (i % 8,) if i % 2 else (i % 8, (i + 4) % 8))],
    "any label": lambda i: [Predicate("labels", "in", (i % 8, (i + 4) % 8, 20))],
    "both": lambda i: [Predicate("labels", "contains", (i % 8,)), Predicate("uniform", ">", 7 * i)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_pass_or_not(shape):
    columns = attributes(rows=300)
    filters = [Filter(tuple(SHAPES[shape](i))) for i in range(40)]
    rows = np.random.default_rng(2).integers(-1, 300, (40, 25))
    masks = np.array([passes(one, columns) for one in filters])
    expected = (rows < 0) | np.take_along_axis(masks, rows, axis=1)
    assert np.array_equal(passing(columns, filters, rows), expected)
    assert passing(columns, filters, rows[:, :0]).shape == (40, 0)
