"""Published figures laid over one's own: frontiers, lines and tables."""

import re
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.chart import draw_chart, own_points
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.views.curves import line_chart
from ann_benchmarks.views.figures import BARS
from ann_benchmarks.views.points import Point
from ann_benchmarks.views.published import read_lines, read_points

from .plotting_data import make_result, make_truth, request_of

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

ROOT = Path(__file__).parent.parent
MINE = """label: mine
source: me
hardware: {cpu: x}
versions: {pgvector: "0.8"}
datasets: [{name: d}]
tables:
  sweep:
    curves: engine
    columns: {engine: text, recall: share, qps: 1/s, p99: s, index_size: MB}
    rows:
      - [a, 0.90, 400, 0.002, 64]
      - [a, 0.95, 200, 0.004, 64]
      - [a, 0.94, 100, null, 64]
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three results of an algorithm, and figures of another machine."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yml").write_text(MINE)
    truth = make_truth("d")
    for recall, seconds in ((0.8, 0.001), (0.9, 0.002), (0.99, 0.01)):
        make_result("d", "own", f"{recall}", truth, recall, seconds)


def drawn(x="recall", y="qps", **options):
    draw_picture(request_of(output="x.svg", x=x, y=y, y_scale="log", **options))
    return texts_of("x.svg")


def texts_of(path):
    texts = re.findall(r"<!-- (.*?) -->", Path(path).read_text(), re.DOTALL)
    return [re.sub(r"\s+", " ", text) for text in texts]


# --- next to a frontier ---


def test_units_become_those_of_the_metrics(results):
    found = read_points("mine.yml", "d", "recall", "p99")
    assert [(p.x, p.y) for p in found.series["a"]] == [(0.9, 2.0), (0.95, 4.0)]  # ms; one was not published
    assert found.joined and found.origin == "me. Measured on x; pgvector 0.8."
    (size, *_) = read_points("mine.yml:sweep", "d", "indexsize", "qps").series["a"]
    assert size == Point(65536.0, 400)


def test_of_a_table_with_datasets_the_one_that_is_drawn_counts():
    found = read_points("year-in-review", "sift-128-euclidean", "recall", "qps")
    assert list(found.series) == ["r7gd.16xlarge", "r7i.16xlarge"] and not found.joined
    first, *others = found.series["r7gd.16xlarge"]
    assert (first.label, first.y, len(others)) == ("r7gd.041", 33, 7)
    assert len(read_points("year-in-review", "mine", "recall", "qps").series) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"published": "5x"}, "unknown published figures '5x'"),
        ({"published": "mine.yml:seep"}, "mine.yml has no table 'seep': it has sweep"),
        ({"published": "5m:builds"}, "the table 'builds' has no column 'recall'"),
        ({"published": "insert-scaling"}, "has no table with the columns recall, qps"),
        ({"published": "mine.yml", "y": "rel"}, "published figures have no rel: choose from recall, qps"),
        ({"published": "mine.yml", "y": "qpsatrecall"}, r"have no qpsatrecall \(qps for its throughput\)"),
    ],
)
def test_mistakes_are_one_line(results, options, message):
    with pytest.raises(UserError, match=message) as error:
        drawn(**options)
    assert "\n" not in str(error.value)


def test_a_unit_that_measures_something_else_is_told(results):
    Path("mine.yml").write_text(MINE.replace("p99: s", "p99: furlongs"))
    with pytest.raises(UserError, match="'p99' in furlongs, which ms cannot measure"):
        drawn(published="mine.yml", y="p99")


# --- lines ---

CLIENTS = [Point(c, 100.0 * c, None, Interval(90.0 * c, 110.0 * c)) for c in (4, 1, 2)]


def lines(tmp_path, series, title="", **options):
    path = tmp_path / "l.svg"
    chart = line_chart(series, ("Clients", "QPS"), title, **options)
    draw_chart(chart, path)
    return len(own_points(chart)), texts_of(path)


def test_lines_have_bars_and_the_values_of_x_as_ticks(tmp_path):
    shown, texts = lines(tmp_path, {"ef_search 20": CLIENTS}, title="t", direction="up is better")
    assert shown == 3
    assert {"t", "up is better", "Clients", "QPS", "ef_search 20", BARS} <= set(texts)
    assert [text for text in texts if text in ("1", "2", "4", "8", "3")] == ["1", "2", "4"]


def test_published_lines_are_named_and_marked(tmp_path):
    others = read_lines("query-scaling", {"instance": "m7g.16xl", "dimension": 128})
    _, texts = lines(tmp_path, {"ef_search 20": CLIENTS}, others=others)
    assert texts.count("ef_search 20") == 2 and "ef_search 800" in texts
    assert any("another machine" in text for text in texts) and "64" in texts


@pytest.mark.parametrize(
    ("series", "options"),
    [
        ({"a": [Point(1, 5.0)]}, {}),
        ({"a": [Point(0, 0.0), Point(0.5, 3.0)]}, {}),
        ({"$x$ _": [Point(1, 5.0), Point(float("nan"), 1.0)], "none": []}, {"title": "$\\frac{"}),
        ({f"{i}": [Point(j, i + 1.0) for j in range(1, 40)] for i in range(20)}, {}),
        ({"a": [Point(-3, 1e-9), Point(1e9, 1e9)]}, {}),
    ],
)
def test_few_and_many_lines_can_be_drawn(series, options, tmp_path):
    shown, _ = lines(tmp_path, series, **options)
    assert shown > 0


def test_without_a_point_there_is_nothing_to_plot(tmp_path):
    with pytest.raises(UserError, match="nothing to plot: no result has both Clients and QPS"):
        lines(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_points_of_some_rows_alone():
    where = {"dataset": "dbpedia-openai-1000k-angular", "instance": "r7gd.16xlarge"}
    (points,) = read_points("year-in-review", "mine", "recall", "qps", where=where).series.values()
    assert len(points) == 10 and {point.label for point in points} >= {"r7gd.041", "r7gd.070.fp16"}
