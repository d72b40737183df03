"""A panel for each number of clients, load, tier or server: which they are, and how they are drawn."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib.image
import matplotlib.text
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.views.chosen import chosen
from ann_benchmarks.views.curves import View, facet_chart
from ann_benchmarks.views.facets import FACETS, panels
from ann_benchmarks.views.figures import assign_styles, short_names
from ann_benchmarks.views.points import Point

from .plotting_data import figure_of, make_result, make_truth, request_of
from .report_data import make_run

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


def test_what_is_left_out_can_be_seen_in_two_ways():
    one_server = chosen([make_run(clients=c) for c in (1, 4, 4)], ()).notes[-1]
    assert "--facet clients draws a panel for each number of clients, --series all everything" in one_server
    one_load = chosen([make_run(**PG17), make_run("b", **PG18), make_run(**PG18)], ()).notes[-1]
    assert "--facet server draws a panel for each server" in one_load


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    for family in ("pgvector_hnsw", "vchord"):
        for clients in (1, 4, 16):
            series = Series(family, clients=clients)
            for recall in (0.9, 0.95, 0.99):
                seconds = 1e-3 / clients / (1.1 - recall)
                more = {"series": series.dump_json(), "qps_low": 0.9 / seconds, "qps_high": 1.1 / seconds}
                make_result("d", series.label, f"{recall}", truth, recall, seconds, **more)


@pytest.mark.parametrize("options", [{"x": "build", "y": "qpsatrecall"}, {"raw": True}])
def test_panels_of_other_metrics(results, options, capsys):
    draw_picture(request_of("d", output="x.svg", facet="clients", **options))
    assert "panels: 3" in capsys.readouterr().out
    written = re.findall(r"<!-- (.*?) -->", Path("x.svg").read_text(), re.DOTALL)
    assert {"1 client", "4 clients", "16 clients"} <= set(written)
    assert written.count("HNSW") == written.count("VectorChord") == 1  # in the only legend


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"published": "100m"}, "leave out --facet or --published"),
        ({"series": ["c-1"]}, "--series: unknown series 'c-1'"),
    ],
)
def test_mistakes_have_a_line(results, options, message):
    with pytest.raises(UserError, match=message):
        draw_picture(request_of("d", facet="clients", **options))


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
