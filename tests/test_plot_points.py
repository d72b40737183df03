"""What plots show besides the frontier: intervals, points found for a recall, throughput at a recall."""

import json
import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib.image
import matplotlib.text
import numpy as np
import pytest
from matplotlib.figure import Figure

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series
from ann_benchmarks.plotting.canvas import add_labels
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.runs import Run, load_runs
from ann_benchmarks.statistics.intervals import Interval, mean_interval
from ann_benchmarks.statistics.percentiles import stored_percentiles
from ann_benchmarks.views.chosen import FACETS, chosen, panels
from ann_benchmarks.views.curves import View, facet_chart, metric_chart
from ann_benchmarks.views.figures import assign_styles, short_names
from ann_benchmarks.views.points import Point, points_by_algorithm

from .plotting_data import age, draw_metrics, figure_of, make_result, make_truth, request_of
from .programs import one_line
from .report_data import make_run

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

ALL_SCALES = [
    *((x, y) for x in ("linear", "log", "symlog", "logit", "a3") for y in ("linear", "log")),
    ("a3", "symlog"),
]


def run(recall=0.9, qps=100.0, algorithm="algo", build=1.0, **attrs):
    metrics = {"recall": recall, "qps": qps, "p99": 5.0, "build": build, "indexsize": 10 * build, "rel": 1.0}
    return Run("d", 10, "euclidean", Series(algorithm), "p", metrics, {"run_count": 5, **attrs})


def point(x, y, run):
    ((point,),) = points_by_algorithm([run], x, y).values()
    return point


def texts(path):
    return re.findall(r"<!-- (.*?) -->", path.read_text(), re.DOTALL)


def bars(path):
    groups = re.findall(r'<g id="LineCollection_\d+">(.*?)</g>', path.read_text(), re.DOTALL)
    return sum(group.count("<path") for group in groups)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two indexes with three points each, that know their intervals; one point was found for a recall."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    for m, speed in ((8, 1000.0), (32, 1500.0)):
        for ef, recall in ((10, 0.8), (40, 0.95), (160, 0.99)):
            qps = speed / ef
            make_result(
                "d",
                "hnsw",
                f"{m} {ef}",
                truth,
                recall,
                1 / qps,
                build_time=float(m),
                index_size=100.0 * m,
                recall_low=recall - 0.01,
                recall_high=recall + 0.005,
                qps_low=qps * 0.9,
                qps_high=qps * 1.02,
                build_arguments=json.dumps(["euclidean", {"M": m, "efConstruction": 64}]),
                **({"target_recall": 0.95, "target_parameter": "ef_search"} if (m, ef) == (8, 40) else {}),
            )


def draw(x="recall", y="qps", output="picture.svg", **options):
    draw_picture(request_of(output=output, x=x, y=y, **{"y_scale": "log", **options}))
    return Path(output)


# --- intervals ---


def test_intervals_are_read_in_the_units_of_the_metric_and_within_what_it_can_be():
    attrs = {"recall_low": 0.89, "recall_high": 1.01, "qps_low": -20.0, "qps_high": 150.0}
    sure = run(**attrs, latency_queries=1000, latency_p99_low=0.004, latency_p99_high=0.0065)
    assert point("recall", "qps", sure).x_interval == Interval(0.89, 1.0)
    assert point("recall", "qps", sure).y_interval == Interval(0.0, 150.0)
    assert point("recall", "p99", sure).y_interval == pytest.approx((4.0, 6.5))
    assert point("build", "rel", sure) == Point(1.0, 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, "soon", [1, 2], None])
def test_an_interval_that_is_none_is_left_out(value):
    assert point("recall", "qps", run(recall_low=value, recall_high=0.95)).x_interval is None
    assert point("recall", "qps", run(recall_low=0.5, recall_high=0.4)).x_interval is None
    assert point("recall", "qps", run()) == Point(0.9, 100.0)


def test_two_runs_tell_no_interval_of_throughput_and_latency():
    attrs = {"recall_low": 0.89, "recall_high": 0.91, "qps_low": 1.0, "qps_high": 200.0}
    of_two = point("recall", "qps", run(**{**attrs, "run_count": 2}))
    assert of_two.y_interval is None and of_two.x_interval is not None
    slow = run(run_count=2, latency_queries=1000, latency_p99_low=0.004, latency_p99_high=0.006)
    assert point("recall", "p99", slow).y_interval is None
    assert point("recall", "qps", run(**{**attrs, "run_count": 3})).y_interval == Interval(1.0, 200.0)


def test_no_point_lies_outside_its_own_bars(tmp_path, monkeypatch):
    """The throughput of a noisy machine's runs, and latencies of which one run in five stalls."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = make_truth("d")
    for number in range(30):
        latencies = [1e-3 * np.exp(rng.normal(0, 0.2)) * rng.lognormal(0, 0.5, 2000) for _ in range(5)]
        latencies[number % 5][:50] += 0.3
        seconds = [float(run.mean()) for run in latencies]
        low, high = mean_interval([1 / one for one in seconds])
        facts = {"run_seconds": seconds, "qps_low": low, "qps_high": high, **stored_percentiles(latencies)}
        make_result("d", "a", f"a{number}", truth, 0.5 + number / 100, min(seconds), **facts)
    runs = list(load_runs(iter_result_paths()))
    assert len(runs) == 30
    for metric in ("qps", "p50", "p95", "p99", "p999"):
        drawn = points_by_algorithm(runs, "recall", metric)["a"]
        with_bars = [point for point in drawn if point.y_interval is not None]
        # Of the rarest queries, runs that are 20% apart say too little.
        assert len(with_bars) == 30 or (metric == "p99" and len(with_bars) > 15) or metric == "p999"
        assert all(point.y_interval.low <= point.y <= point.y_interval.high for point in with_bars)
    assert sum(run.metrics["qps-best"] > run.attrs["qps_high"] for run in runs) > 5  # the best run's


def fitted_axes(points, x_scale, y_scale):
    (axes,) = figure_of(metric_chart({"a": points}, View("recall", "qps", x_scale, y_scale))).axes
    axes.autoscale_view()  # as drawing does
    return axes


@pytest.mark.parametrize(("x_scale", "y_scale"), ALL_SCALES)
def test_wide_bars_do_not_press_the_points_together(x_scale, y_scale):
    def shares_of_axes(points):
        axes = fitted_axes(points, x_scale, y_scale)
        places = axes.transAxes.inverted().transform(
            axes.transData.transform([(point.x, point.y) for point in points])
        )
        assert (places >= 0).all() and (places <= 1).all()
        return np.ptp(places, axis=0)

    points = [
        Point(0.5, 100.0, Interval(0.0, 1.0), Interval(0.0, 1e6)),
        Point(0.99, 10.0, Interval(0.9, 1.0), Interval(1.0, 20.0)),
    ]
    without = shares_of_axes([Point(point.x, point.y) for point in points])
    assert (shares_of_axes(points) > 0.7 * without).all()


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_bar_close_by_ends_within_the_picture(scale):
    points = [Point(0.5, 100.0, y_interval=Interval(96.0, 106.0)), Point(0.9, 10.0)]
    assert 106 < fitted_axes(points, "linear", scale).get_ylim()[1] < 130


def test_points_found_for_several_recalls_share_one_mark(tmp_path):
    points = [Point(0.99, 5.0, found_for=0.99), Point(0.9, 9.0, found_for=0.9), Point(0.8, 20.0)]
    draw_metrics({"a": points}, View(), tmp_path / "a.svg")
    assert "found for recall 0.9, 0.99" in texts(tmp_path / "a.svg")


# --- throughput at a recall ---


def test_each_built_index_has_one_point_at_the_recall(results):
    runs = list(load_runs(iter_result_paths("d")))

    def shown(target):
        points = points_by_algorithm(runs, "indexsize", "qpsatrecall", target).get("hnsw", [])
        return {p.label: (p.x, pytest.approx(p.y, rel=1e-3)) for p in points}

    assert shown(0.95) == {"M=8": (800, 25.0), "M=32": (3200, 37.5)}
    assert shown(0.96) == {"M=8": (800, 20.63), "M=32": (3200, 30.95)}  # between two points
    assert shown(0.999) == {}


def test_beaten_indexes_are_drawn_as_well(results, capsys):
    make_result(
        "d",
        "hnsw",
        "slow",
        make_truth("d"),
        0.97,
        1.0,
        index_size=9999.0,
        build_arguments=json.dumps(["euclidean", {"M": 64, "efConstruction": 64}]),
    )
    names = texts(draw("indexsize", "qpsatrecall", target_recall=0.9))
    assert {"d (k = 10, target recall 0.9)", "M=8", "M=32", "M=64"} <= set(names)
    assert "points: 3" in capsys.readouterr().out


def test_a_new_target_is_used_although_the_metrics_are_cached(results):
    for path in [*iter_result_paths("d"), Path("data/d.hdf5")]:
        age(path)
    for target, fastest in ((0.95, 37.5), (0.99, 9.375), (0.8, 150.0)):
        series = points_by_algorithm(load_runs(iter_result_paths("d")), "build", "qpsatrecall", target)
        assert max(point.y for point in series["hnsw"]) == pytest.approx(fastest)
        assert "qpsatrecall" not in Path("results/d/.metrics-cache.json").read_text()


def test_indexes_of_ann_benchmarks_are_told_apart_by_what_their_building_took():
    runs = [run(0.95, 50.0), run(0.99, 20.0), run(0.95, 70.0, build=2.0), run(0.9, 90.0, build=3.0)]
    series = points_by_algorithm(runs, "build", "qpsatrecall")
    assert [(p.x, round(p.y, 6), p.label) for p in series["algo"]] == [(1.0, 50.0, ""), (2.0, 70.0, "")]


def test_an_index_is_named_by_the_arguments_in_which_it_differs_only():
    one, two = ["l2", {"M": 8, "form": "x"}, 1], ["l2", {"M": 8, "form": "y"}, 2]
    runs = [run(0.96, qps, build_arguments=json.dumps(a)) for qps, a in ((50.0, one), (60.0, two))]
    series = points_by_algorithm(runs, "build", "qpsatrecall")
    assert [p.label for p in series["algo"]] == ["form=x, 1", "form=y, 2"]
    runs = [run(0.96, 50.0, build_arguments=[16, m]) for m in (4, 8)]  # numbers only are no text in a file
    assert [p.label for p in points_by_algorithm(runs, "build", "qpsatrecall")["algo"]] == ["4", "8"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_recall": 0.9}, "--target-recall is for the metric qpsatrecall"),
        ({"target_recall": 0.999, "y": "qpsatrecall"}, r"no result reaches a recall of 0\.999; .*0\.9900"),
        ({"target_recall": 95.0, "y": "qpsatrecall"}, "--target-recall must be above 0"),
        ({"target_recall": math.nan, "y": "qpsatrecall"}, "--target-recall must be above 0"),
    ],
)
def test_mistakes_about_the_target_are_one_line(results, options, message):
    with one_line(message):
        draw(**options)


def test_labels_cover_no_points_and_no_other_labels():
    spots = np.random.default_rng(4).random((60, 2))
    points = [Point(x, y, label=f"M={i}, lists={i}00") for i, (x, y) in enumerate(spots.tolist())]
    figure = Figure()
    axes = figure.subplots()
    axes.plot(*spots.T, "o")
    add_labels(axes, points, "black")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 10 < len(boxes) < 60
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert not any(box.contains(*place) for box in boxes for place in axes.transData.transform(spots))
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)


# A panel for each number of clients, load, tier or server: which they are, and how they are drawn.


PG17, PG18 = {"postgres_version": "17.12"}, {"postgres_version": "18.4"}


def of(series, **attrs):
    return replace(make_run(**attrs), series=series)


def headings(runs, name, patterns=()):
    facet = FACETS[name]
    return {heading: len(part) for heading, part in panels(chosen(runs, patterns, facet).runs, facet).items()}


def test_other_loads_than_the_one_with_the_most_panels_are_left_out():
    runs = [make_run(clients=c, ram=ram) for c in (1, 4) for ram in (1, 2, "all")]
    runs.append(make_run(clients=8, ram="all"))
    assert headings(runs, "clients") == {"1 client": 1, "4 clients": 1, "8 clients": 1}
    choice = chosen(runs, (), FACETS["clients"])
    assert choice.load == "cgroup-sb1GB-ramall"
    assert choice.notes[-1].startswith("drawn: cgroup-sb1GB-ramall, with the most points; --facet tier draws")
    assert list(headings(runs, "tier")) == [f"cgroup-sb1GB-ram{ram}" for ram in ("1GB", "2GB", "all")]
    assert set(headings(runs, "clients", ["all"]).values()) == {3, 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"published": "100m"}, "leave out --facet or --published"),
        ({"series": ["c-1"]}, "--series: unknown series 'c-1'"),
    ],
)
def test_panels_refuse_what_they_cannot_show(results, options, message):
    with one_line(message):
        draw(facet="clients", **options)


def test_more_panels_than_can_be_read_are_refused():
    many = {str(number): {"a": [Point(0.9, 1.0)]} for number in range(26)}
    with pytest.raises(UserError, match="26 panels are more than 25: choose some by --series"):
        facet_chart(many, View(), "t", assign_styles("a"))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [2, 9])
def test_nothing_is_written_over_anything_else(number):
    """At any number of panels, with long names."""
    rng = np.random.default_rng(number)
    names = ["pgvector_hnsw", "pgvector_hnsw_halfvec", "vchord", "$x_1$"]

    def curve():
        recalls = np.sort(rng.uniform(0.8, 0.999, 6))
        rates = 3000 * (1.01 - recalls) ** 0.7 * rng.lognormal(0, 0.3)
        return [Point(x, y, None, Interval(0.8 * y, 1.2 * y)) for x, y in zip(recalls, rates, strict=True)]

    drawn = {f"16 clients, zipf1.1-q{i}-r100-cold": {name: curve() for name in names} for i in range(number)}
    view, title = View("recall", "qps", "a3", "log"), "sift-128-euclidean (k = 10)"
    figure = figure_of(facet_chart(drawn, view, title, assign_styles(names)))
    figure.draw_without_rendering()
    texts = [
        text for text in figure.findobj(match=matplotlib.text.Text) if text.get_visible() and text.get_text()
    ]
    hidden = hidden_labels(figure)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text not in hidden]
    over = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]
    assert not over
    assert (
        len({axes.get_xlim() for axes in figure.axes}) == len({axes.get_ylim() for axes in figure.axes}) == 1
    )
    assert len([text for text in texts if text.get_text() in names]) == len(names)


def hidden_labels(figure):
    """Labels of ticks that are not drawn, since they are beyond their axis."""
    hidden = set()
    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                hidden |= {tick.label1, tick.label2}
    return hidden


def test_a_legend_says_how_much_memory_a_tier_has():
    plain = Series("pgvector_hnsw", clients=16)
    small = plain.replaced(tier_method="cgroup", tier_memory="sb64MB-ram192MB")
    assert [*short_names([plain, small]).values()] == ["HNSW", "HNSW, 192 MB of RAM"]
    other = [*short_names([plain, small, small.replaced(tier_method="hugepages")]).values()]
    assert other[1:] == ["HNSW, cgroup, 192 MB of RAM", "HNSW, hugepages, 192 MB of RAM"]
