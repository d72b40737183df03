"""plot.py --tiers: which results are on the picture and in the table, and published figures laid over."""

import json
import re
import sys
from pathlib import Path

import h5py
import pytest

from ann_benchmarks.commands import plot
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.chart import draw_chart
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.views.points import Point
from ann_benchmarks.views.published import read_tiers
from ann_benchmarks.views.tier_lines import (
    TierLine,
    index_sizes,
    spread_out,
    tier_chart,
    tier_lines,
)
from ann_benchmarks.views.tiers import tier_runs, whole_machine

from .plotting_data import figure_of, make_result, make_truth, request_of
from .programs import one_line
from .report_data import GB, make_run

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

MB = 1 << 20
RUNGS = [(128, 544), (256, 2048), (4096, None)]  # MB
HNSW, VCHORD = (20.0, 100.0, 120.0), (90.0, 95.0, 94.0)


def lines_of(*runs, target=0.95):
    return {line.name: line for line in tier_lines(tier_runs(runs), target)}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two algorithms on three tiers by 1 and 32 clients, and a result on none."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    make_result("d", "pgvector_hnsw", "plain", truth, 0.97, 0.001)
    for algorithm, rates, argument in (("pgvector_hnsw", HNSW, "ef_search"), ("vchord", VCHORD, "probes")):
        for clients in (1, 32):
            for (buffers, ram), rate in zip(RUNGS, rates, strict=True):
                qps = rate * clients
                memory = f"-sb{buffers}MB-ram{f'{ram}MB' if ram else 'all'}"
                make_result(
                    "d",
                    f"{algorithm}-c{clients}-hugepages{memory}",
                    "x",
                    truth,
                    0.95,
                    1 / qps,
                    clients=clients,
                    index_size=float(1 << 20),
                    build_arguments=json.dumps(["euclidean", {"M": 16}]),
                    target_recall=0.95,
                    target_parameter=argument,
                    target_value=44,
                    qps_low=qps * 0.9,
                    qps_high=qps * 1.1,
                    latency_queries=3000,
                    latency_p50=1 / qps,
                    latency_p99=1 / qps,
                    latency_p99_low=0.9 / qps,
                    latency_p99_high=1.2 / qps,
                    tier=f"{buffers}MB:{f'{ram}MB' if ram else 'all'}",
                    tier_method="hugepages",
                    tier_available=round((ram or 23 * 1024) * MB * 1.01),
                    tier_shared_buffers=buffers * MB,
                    tier_memory_series=memory,
                    **({"tier_ram": ram * MB} if ram else {}),
                )


def drawn(output="tiers.svg", **options):
    draw_picture(request_of(output=output, **options), "tiers")
    return re.findall(r"<!-- (.*?) -->", Path(output).read_text(), re.DOTALL)


def rows_of(text):
    rows = [line.strip("|").split("|") for line in text.splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [row for row in cells if row[0] not in ("Available RAM", "---:")]


# --- which results make a line ---


def test_of_several_results_at_the_same_ram_the_fastest_at_the_recall_counts():
    made = ((50.0, 0.95), (70.0, 0.95), (90.0, 0.93), (60.0, 0.95))
    runs = [make_run("a", (rate,), recall, ram=1) for rate, recall in made]
    (line,) = lines_of(*runs).values()
    assert [p.y for p in line.panels["qps"]] == [pytest.approx(70.0)]
    (line,) = lines_of(*runs, target=0.93).values()
    assert [p.y for p in line.panels["qps"]] == [pytest.approx(90.0)]
    assert lines_of(*runs, target=0.97) == {}
    (line,) = lines_of(make_run("a", (90.0,), 0.9498, ram=1)).values()
    assert [p.y for p in line.panels["qps"]] == [pytest.approx(90.0, rel=0.01)]


@pytest.mark.parametrize(
    "attrs",
    [
        {"tier": None},
        {"tier_ram": None, "tier_shared_buffers": None, "tier_disk": "gp3"},
        {"tier_ram": "much", "tier_available": "more"},
        {"tier_ram": -1, "tier_available": [1, 2]},
    ],
)
def test_results_without_an_amount_of_memory_are_none(attrs):
    assert len(tier_runs([make_run(ram=1), make_run(ram=1, **attrs)])) == 1


def test_the_whole_machine_of_a_container_is_its_limit():
    attrs = {"tier_method": "container", "tier_available": "", "container_memory_bytes": 22 * GB}
    (whole,) = tier_runs([make_run(ram="all", **attrs)])
    assert whole_machine([whole]) == whole.available == 22 * GB


# --- the picture ---


def line(name, values, clients=1, variant="", xs=None, size=GB):
    points = [Point(x, y) for x, y in zip(xs or [GB * 2**i for i in range(9)], values, strict=False)]
    return TierLine(name, name, variant, clients, size, {"qps": points, "p99": points})


@pytest.mark.parametrize(
    "lines",
    [
        [line("a", [5.0])],
        [line("a", [5.0], size=None), line("b", [5.0, 5.0], size=1.0)],
        [line(f"algorithm-{i}", [1.0 + i, 2.0], i % 3, f"{i}") for i in range(40)],
        [line("$\\frac{", [1.0, 1e6], xs=[GB, 1.0001 * GB])],
    ],
)
def test_few_and_many_lines_can_be_drawn(lines, tmp_path):
    draw_chart(tier_chart(lines, "t", None), tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 5000


@pytest.mark.parametrize(("values", "scale"), [([90.0, 100.0, 110.0], "linear"), ([20.0, 100.0], "log")])
def test_values_that_lie_close_have_a_linear_axis_that_begins_near_them(values, scale):
    axes, _ = figure_of(tier_chart([line("a", values)], "t", None)).axes
    assert (axes.get_yscale(), axes.get_xscale()) == (scale, "log")
    assert axes.get_ylim()[0] > 0.8 * min(values)


def test_the_largest_index_of_each_algorithm_is_marked_in_order():
    sizes = (("a", 3.0), ("b", None), ("a", 4.0), ("c", 2.0), ("a", 1.0))
    lines = [line(name, [1], size=size) for name, size in sizes]
    assert list(index_sizes(lines).items()) == [("c", 2.0), ("a", 4.0)]


# --- the table ---


def test_picture_and_table_have_intervals(results):
    assert any(text.startswith("bars") for text in drawn())
    markdown = Path("tiers.md").read_text()
    assert rows_of(markdown)[5][3] == "3,840 (3,456 to 4,224)"
    assert "over the tiers: 6.00 (1 client, 95% interval 3." in markdown
    assert ", measured once, at different times); 6.00 (32 clients, 95% interval 3." in markdown


# --- mistakes ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_recall": 0.99}, r"no result reaches a recall of 0\.99; the highest is 0\.9500"),
        ({"published": "5x"}, "unknown published figures '5x': choose from 100m, 1b, 5m, d"),
    ],
)
def test_mistakes_are_one_line(results, options, message):
    with one_line(message):
        draw_picture(request_of(**{"output": "x.png", **options}), "tiers")


def test_unwritable_results_folder_sends_both_files_here(results, capsys):
    Path("results/d-tiers.png").mkdir()  # root cannot overwrite a folder either
    draw_picture(request_of(), "tiers")
    assert "current folder" in capsys.readouterr().err
    assert Path("d-tiers.png").exists() and Path("d-tiers.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tiers", "-y", "p99"], "--tiers has axes of its own: leave out --y-axis"),
        (["--tiers", "--raw"], "leave out --raw"),
        (["--tiers", "--published", "5m:builds"], "the table 'builds' has no column 'ram'"),
        (
            ["--tiers", "--published", "storage"],
            "no table with the columns ram, index_size, clients, qps, p99",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(results, arguments, message, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["plot.py", "--dataset", "d", *arguments])
    with pytest.raises(UserError, match=message):
        plot.main()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, "no result of d with count 10 was measured on a tier; run run.py --t"),
        ({"tier": "gp3", "tier_disk": "gp3", "tier_available": GB}, "limit no memory; leave out --tiers to"),
    ],
)
def test_without_a_tier_or_its_memory_there_is_one_line(tmp_path, monkeypatch, attrs, message):
    monkeypatch.chdir(tmp_path)
    make_result("d", "a", "x", make_truth("d"), 0.96, 0.01, **attrs)
    with pytest.raises(UserError, match=message):
        drawn()


# --- published figures ---


def test_the_report_is_there_as_published():
    shares = {(name, x.name): x for name in ("5m", "100m", "1b") for x in read_tiers(name).lines}
    assert len(shares) == 3 * 2 * 2
    assert all(len(points) == 6 for x in shares.values() for points in x.panels.values())
    hnsw = shares["1b", "pgvector HNSW, 32 clients"].panels
    assert (hnsw["qps"][0].x, hnsw["qps"][0].y) == pytest.approx((128 / 646, 148.75 / 659.65))
    assert hnsw["p99"][-2].y == pytest.approx(88.33 / 95.36)
    vchord = shares["5m", "VectorChord, 1 client"].panels
    assert (vchord["qps"][1].x, vchord["qps"][1].y) == pytest.approx((16 / 21, 525.97 / 503.57))


def test_lines_without_a_size_cannot_be_compared(results):
    for path in Path("results").rglob("*.hdf5"):
        with h5py.File(path, "r+") as file:
            file.attrs["index_size"] = 0.0
    assert "VectorChord, 32 clients" in drawn()
    with pytest.raises(UserError, match="no result has the size of its index"):
        drawn(published="5m")


def test_lines_with_bars_stand_side_by_side():
    lines = [line(f"a{i}", [5.0] * 9) for i in range(4)]
    places = [[point.x for point in one.panels["qps"]] for one in spread_out(lines)]
    for tier in range(9):
        at = [xs[tier] / (GB * 2**tier) for xs in places]
        assert at == sorted(set(at)) and at[0] * at[-1] == pytest.approx(1)
        assert at[-1] / at[0] < 2**0.5  # none is nearer to another tier
    (alone,) = spread_out(lines[:1])
    assert alone == lines[0]
