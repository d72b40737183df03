"""Pages compare at equal recall, by the numbers of reports, and on one server."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.at_recall import find_at_recall
from ann_benchmarks.results.filtered import filtered_speed
from ann_benchmarks.website.build import create_website
from ann_benchmarks.website.columns import server_column

from .browser import CHROMIUM, Browser
from .filtered_data import make_filtered
from .plotting_data import make_result, make_truth
from .report_data import make_run

pytestmark = pytest.mark.thorough

PG17, PG18 = ({"postgres_version": version, "cpu": "C", "cores": 8} for version in ("17.12", "18.4"))
SHOWN = """
(() => {
  const chart = document.querySelector('[data-chart=recall-time][data-points=frontier]');
  const marks = chart.querySelectorAll('.plot g g[data-series] .mark');
  return [marks.length, chart.querySelector('.label').textContent];
})()
"""


def test_servers_are_named_where_there_are_several():
    runs = [make_run(**PG17), make_run(**PG18), make_run("b", **PG18)]
    assert [server_column(runs).value(run) for run in runs] == ["PostgreSQL 17.12", *["PostgreSQL 18.4"] * 2]
    assert server_column(runs[1:]).value(runs[1]) is None


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        truth = make_truth("d")
        for mark, server, recalls in (("", PG17, (0.9, 0.95)), ("new", PG18, (0.9, 0.95, 0.99))):
            for clients in (1, 4):
                series = Series("hnsw", clients=clients, environment=mark)
                more = {"clients": clients, "series": series.dump_json(), **server}
                for recall in recalls:
                    make_result("d", series.folder, f"{recall}", truth, recall, 1e-3 / (1 - recall), **more)
        create_website(Path("site"), ["recall/time"])
    opened = Browser()
    opened.open(folder / "site" / "d_10_euclidean.html")
    yield opened
    opened.close()


def test_the_first_chart_is_of_one_load_on_one_server(browser):
    marks, note = browser.run(SHOWN)
    assert marks == 3
    assert note.startswith("Shown: 1 client, PostgreSQL 18.4. For the 7 points under other loads or on other")


def as_point(run):
    bounds = {"recall": [run.attrs["recall_low"], run.attrs["recall_high"]]}
    bounds["qps"] = [run.attrs["qps_low"], run.attrs["qps_high"]]
    exact = {"exact": 1} if run.attrs.get("is_exact") else {}
    return {**run.metrics, **exact, "built": run.attrs["build_arguments"], "bars": bounds}


def test_figures_at_a_recall_are_those_of_reports(browser):
    rng = np.random.default_rng(5)
    groups, expected = [], []
    for _ in range(200):
        runs = []
        for i in range(int(rng.integers(1, 6))):
            recall, qps = (
                float(rng.choice([rng.uniform(0.8, 1), 1.0, 0.9498], p=[0.8, 0.1, 0.1])),
                float(rng.uniform(1, 9)),
            )
            index = f'["euclidean", {{"M": {rng.integers(1, 3)}}}]'
            sure = {
                "qps_low": 0.9 * qps,
                "qps_high": 1.2 * qps,
                "recall_low": recall - float(rng.uniform(0, 0.02)),
            }
            sure |= {"recall_high": min(recall + 0.01, 1.0), "build_arguments": index, "name": f"{i}"}
            if recall == 1.0 and rng.random() < 0.5:
                sure["is_exact"] = True
            runs.append(make_run(rates=(qps,), recall=recall, run_count=3, **sure))
        runs = [replace(run, attrs={**run.attrs, "run_seconds": []}) for run in runs]
        found = find_at_recall({"": runs}, 0.95).get("")
        expected.append(found and [runs.index(found.run), found.qps, *found.interval, found.is_bound])
        groups.append([as_point(run) for run in runs])
    assert sum(one is None for one in expected) > 5 and sum(bool(one and one[-1]) for one in expected) > 5
    script = (
        f"{json.dumps(groups)}.map((points) => [points, atRecall(points, 0.95, [])])"
        ".map(([points, at]) => at && [points.indexOf(at.point), at.qps, ...at.bar, at.isBound])"
    )
    for theirs, ours in zip(browser.run(script), expected, strict=True):
        assert theirs == (ours and pytest.approx(ours, rel=1e-9))


@pytest.mark.parametrize(("recall", "complete"), [(0.97, 1.0), (0.97, 0.98), (0.97, 0.995), (0.9, 0.99)])
def test_pages_judge_recall_and_completeness_as_reports_do(browser, recall, complete):
    run = make_filtered("a", "uniform:0.1", 100, recall, complete)
    known = [run.attrs[f"completeness_{end}"] for end in ("low", "high")]
    bars = {"recall": [run.attrs["recall_low"], run.attrs["recall_high"]], "completeness": known}
    point = {"recall": recall, "completeness": complete, "bars": bars}
    found = browser.run(f"withBoth({json.dumps(point)}, 0.95)")
    speed = filtered_speed(run, 0.95)
    assert [found["recall"], *found["bars"]["recall"]] == pytest.approx([speed.recall, *speed.interval])
