"""Predictions for more rows: laws that are fitted to known processes, and what a report says of them."""

import json
import math

import numpy as np
import pytest

from ann_benchmarks.reporting.content import Chapter, Report
from ann_benchmarks.reporting.report import MARK_FILE, write_report
from ann_benchmarks.sizing.growth import Growth, Known, Prediction, fit
from ann_benchmarks.sizing.laws import build
from ann_benchmarks.views.parts import table_text
from ann_benchmarks.views.size_ranking import ratio, size_statements
from ann_benchmarks.views.sizes import find_sizes, size_parts, size_recipes
from ann_benchmarks.website.build import detail_page, group_results, template_environment
from benchmarks.sizing import published_rows

from .report_data import make_run

SAMPLES = (12_500, 25_000, 50_000, 100_000)
PART = {12_500: "-1of8", 25_000: "-1of4", 50_000: "-1of2", 100_000: ""}
QUERY_SQL = json.dumps(["SET hnsw.ef_search = '40';", "SELECT 1;"])
BUILD_SQL = {
    "ef_search": "CREATE INDEX ON items USING hnsw (embedding vector_l2_ops);",
    "probes": "CREATE INDEX ... build.internal.lists = [200]",
}


def sample_run(rows, parameter="ef_search", speed=1.0, dataset=None, **attrs):
    """Return a result of an index whose figures grow by known laws."""
    share = (rows / 100_000) ** 0.3
    lists = rows // 500
    odds = 0.25 / share**2
    value = round(80 * share if parameter == "ef_search" else lists * odds / (1 + odds))
    known = {
        "rows": rows,
        "target_recall": 0.95,
        "target_parameter": parameter,
        "target_value": value,
        "index_blocks_hit_per_query": 900 * share,
        "index_build_time": 12e-6 * rows**1.2,
        "table_size": rows * 0.5,
        "max_parallel_maintenance_workers": "1",
        "maintenance_work_mem": f"{64 + rows // 1000}MB",
        "build_sql": json.dumps([BUILD_SQL[parameter]]),
        "query_sql": QUERY_SQL.replace("hnsw.ef_search", f"x.{parameter}"),
        "index_kib": rows * 1.0,
        **({"scanned_share": value / lists} if parameter == "probes" else {}),
    }
    rate = speed / (1e-4 + 1e-3 * share**2)
    return make_run(
        family="hnsw" if parameter == "ef_search" else "vchord",
        rates=(rate, rate * 1.01, rate * 0.99),
        dataset=dataset or f"mine{PART.get(rows, '')}",
        **known | attrs,
    )


def two_indexes(speed=3.0, sizes=SAMPLES):
    return [sample_run(rows) for rows in sizes] + [sample_run(rows, "probes", speed) for rows in sizes]


@pytest.mark.parametrize(("exponent", "floor"), [(0.2, 1e-4), (0.5, 1e-4), (1.1, None)])
def test_intervals_hold_for_processes_of_which_the_law_is_true(exponent, floor):
    draw = np.random.default_rng(1)
    prior = Growth(
        Known(exponent, 0.15), noise=0.05, drift=0.0, floor=Known(math.log(floor), 0.5) if floor else None
    )
    held = []
    for _ in range(400):
        own = exponent + 0.15 * draw.standard_normal()
        bottom = floor * math.exp(0.5 * draw.standard_normal()) if floor else 0.0

        def figure(rows, own=own, bottom=bottom):
            return (bottom + 1e-3 * (rows / 1e5) ** own) * math.exp(0.05 * draw.standard_normal())

        found = fit(prior, [(rows, figure(rows)) for rows in SAMPLES]).predict(1e6)
        held.append(found.low <= figure(1e6) <= found.high)
    assert 0.86 <= np.mean(held) <= 0.94


def test_an_interval_widens_with_the_distance_and_ends_where_the_law_was_tested():
    curve = fit(Growth(Known(0.3, 0.1), 0.05, 0.05, farthest=50), [(rows, rows**0.3) for rows in SAMPLES])
    near, far = curve.predict(2e5), curve.predict(4e6)
    assert near.high / near.low < far.high / far.low
    assert far.low < 4e6**0.3 < far.high
    assert curve.predict(100_000 * 51) is None


def test_figures_that_do_not_follow_the_law_widen_its_interval():
    prior = Growth(Known(0.3, 0.05), 0.05, 0.0)
    rough = [(rows, rows**0.3 * (1.5 if number % 2 else 1.0)) for number, rows in enumerate(SAMPLES)]
    smooth = fit(prior, [(rows, rows**0.3) for rows in SAMPLES]).predict(1e6)
    found = fit(prior, rough).predict(1e6)
    assert found.high / found.low > 2 * smooth.high / smooth.low


def test_a_noisy_sample_does_not_bend_a_law_beyond_what_is_known():
    prior = Growth(Known(0.3, 0.05), 0.05, 0.0)
    bent = [(rows, rows**0.3 * (2 if rows == 100_000 else 1)) for rows in SAMPLES]
    assert fit(prior, bent).parameters[1] < 0.55


def test_a_power_stops_growing_where_it_is_said_to():
    prior = Growth(Known(0.3, 0.05), 0.05, 0.0, farthest=1000)
    rising = [(rows, rows**0.3) for rows in SAMPLES]
    ends = [fit(prior, rising, most=400_000).predict(rows).value for rows in (4e5, 4e6)]
    assert ends == pytest.approx([4e5**0.3] * 2, rel=0.02)
    level = [(rows, min(rows, 50_000) ** 0.3) for rows in SAMPLES]
    assert fit(prior, level, most=50_000).predict(1e6).value == pytest.approx(5e4**0.3, rel=0.02)


def test_workers_follow_the_size_of_the_table():
    assert build.speedup(8191, 4) == 1.0
    assert build.speedup(8192, 4) == build.speedup(3 * 8192 - 1, 4) == 1 + build.GAIN
    assert build.speedup(3 * 8192, 4) == 1 + 2 * build.GAIN
    assert build.speedup(1e9, 1) == 1 + build.GAIN


def test_known_laws_are_predicted():
    (sizes,) = find_sizes(two_indexes(), 0.95, [1_000_000])
    graph, lists = sizes.forecasts
    share = 10**0.3
    assert graph.predict("argument", 1e6).value == pytest.approx(80 * share, rel=0.1)
    assert graph.predict("blocks", 1e6).value == pytest.approx(900 * share, rel=0.1)
    assert graph.predict("seconds", 1e6, 1).value == pytest.approx(1e-4 + 1e-3 * share**2, rel=0.25)
    assert graph.predict("size", 1e6).value == pytest.approx(1e6 * 1024, rel=0.01)
    odds = 0.25 / share**2
    assert lists.predict("argument", 1e6).value == pytest.approx(2000 * odds / (1 + odds), rel=0.1)


def test_the_table_and_the_sentences_predict_and_say_so():
    (sizes,) = find_sizes(two_indexes(), 0.95, [1_000_000, 100_000_000])
    text = "\n".join(part if isinstance(part, str) else table_text(part) for part in size_parts(sizes))
    assert "Predicted, not measured" in text and "4 samples of 12,500 to 100,000 rows" in text
    assert "of 2,000 lists" in text
    first, last, *_ = size_statements(sizes)
    assert "vchord is predicted to be the fastest" in first.text and "hnsw" in first.text
    assert "not known: from these samples, laws were tested up to 2,000,000 rows" in last.text


def test_no_index_is_called_the_fastest_where_intervals_allow_the_other():
    (sizes,) = find_sizes(two_indexes(speed=1.1), 0.95, [1_000_000])
    assert "may be the fastest" in size_statements(sizes)[0].text
    level = ratio(Prediction(1.0, 0.8, 1.25), Prediction(1.2, 1.0, 1.5))
    assert level.low < 1 < level.high


def test_the_sql_has_what_is_predicted():
    (sizes,) = find_sizes(two_indexes(), 0.95, [1_000_000])
    (recipe,) = size_recipes(sizes)
    assert "lists = [2000]" in recipe.build
    value = math.ceil(sizes.forecasts[1].predict("argument", 1e6).value - 0.5)
    assert f"SET x.probes = '{value}';" in recipe.query
    assert "of 2,000 lists, predicted: measure the recall" in recipe.query


def test_a_much_larger_sample_checks_the_predictions():
    held = [sample_run(1_000_000, dataset="mine"), sample_run(1_000_000, "probes", 3.0, dataset="mine")]
    small = [sample_run(rows, p, s, dataset=f"mine-1of{1_000_000 // rows}")
             for rows in SAMPLES for p, s in (("ef_search", 1.0), ("probes", 3.0))]  # fmt: skip
    (sizes,) = find_sizes([*small, *held], 0.95)
    assert sizes.checked == 1_000_000 and {one.name for one in sizes.checks} == {"hnsw", "vchord"}
    assert all(one.holds for one in sizes.checks if one.figure in ("argument", "blocks", "size"))
    wrong = sample_run(1_000_000, dataset="mine", index_blocks_hit_per_query=9.0)
    (sizes,) = find_sizes([*small, wrong], 0.95)
    assert "blocks" in [one.figure for one in sizes.checks if not one.holds]
    assert "Checked at 1,000,000 rows" in str(size_parts(sizes)[-1])


def test_a_graph_whose_largest_argument_does_not_reach_the_recall_has_no_speed_there():
    (sizes,) = find_sizes([sample_run(rows, target_most=100) for rows in SAMPLES], 0.95, [1_000_000])
    (graph,) = sizes.forecasts
    assert graph.predict("argument", 1e6).value > 100 and graph.predict("build", 1e6)
    assert graph.predict("seconds", 1e6, 1) is None and sizes.ranked(1e6, 1) == []
    assert "ef_search beyond 100, its largest" in str(size_parts(sizes)[0])


def test_a_graph_that_missed_the_recall_is_not_predicted_to_reach_it_with_more_rows():
    missed = sample_run(1_000_000, dataset="mine", target_missed=0.95)
    missed.attrs.pop("target_recall")
    small = [sample_run(rows, dataset=f"mine-1of{1_000_000 // rows}") for rows in SAMPLES]
    (sizes,) = find_sizes([*small, missed], 0.95, [500_000, 2_000_000])
    (graph,) = sizes.forecasts
    assert graph.predict("seconds", 5e5, 1) and not graph.predict("seconds", 2e6, 1)
    assert "the recall was not reached at 1,000,000 rows" in str(size_parts(sizes)[0])


def test_indexes_without_some_figures_have_dashes(tmp_path):
    runs = two_indexes()
    for run in runs:
        if run.series.algorithm == "hnsw":
            run.metrics["p99"] = math.nan
    (sizes,) = find_sizes(runs, 0.95, [1_000_000])
    table = size_parts(sizes)[0]
    place = table.columns.index("p99 (ms), 1 client")
    assert [row[place] == "-" for row in table.rows] == [True, False]
    write_report(Report("sizes", "", "", [Chapter("all", runs=runs)]), tmp_path / "report")


def test_an_index_of_unknown_size_is_predicted_all_the_same():
    (sizes,) = find_sizes([sample_run(rows, index_kib=0.0) for rows in SAMPLES], 0.95, [1_000_000])
    assert sizes.ranked(1e6, 1) and sizes.forecasts[0].predict("size", 1e6) is None


def test_two_definitions_of_one_algorithm_have_names_of_their_own():
    more = [sample_run(rows, speed=2.9, build_arguments='["euclidean", {"M": 32}]') for rows in SAMPLES]
    (sizes,) = find_sizes([*two_indexes(), *more], 0.95, [1_000_000])
    assert {one.name for one in sizes.forecasts} == {"hnsw (M=16)", "hnsw (M=32)", "vchord"}
    assert "vchord or hnsw (M=32) may be the fastest" in size_statements(sizes)[0].text


def test_a_lead_whose_check_failed_is_not_named():
    small = [sample_run(rows, p, s, dataset=f"mine-1of{1_000_000 // rows}")
             for rows in SAMPLES for p, s in (("ef_search", 1.0), ("probes", 6.0))]  # fmt: skip
    held = [sample_run(1_000_000, dataset="mine"), sample_run(1_000_000, "probes", 0.5, dataset="mine")]
    (sizes,) = find_sizes([*small, *held], 0.95, [2_000_000])
    assert "(the check missed vchord)" in size_statements(sizes)[0].text


def tiers_of(rows, index, dataset):
    """Return results on servers with twice, once and half as much RAM as the index; half is too little."""
    return [
        sample_run(rows, speed=speed, dataset=dataset, ram=1, tier=str(times), tier_memory_series=f"-{times}",
                   tier_ram=int(times * index), tier_available=int(times * index))
        for times, speed in ((2, 1.5), (1, 1.4), (0.5, 0.3))
    ]  # fmt: skip


def test_the_least_ram_is_as_many_times_the_index_and_is_checked():
    small = [sample_run(rows, dataset=f"mine-1of{1_000_000 // rows}") for rows in SAMPLES]
    tiers = tiers_of(100_000, 100_000 * 1024, "mine-1of10")
    (sizes,) = find_sizes([*small, *tiers], 0.95, [1_000_000])
    found = sizes.forecasts[0].predict("ram", 1e6)
    assert found.value == pytest.approx(1e9 * 1.024, rel=0.02) and found.high < 1.6e9
    assert "Least RAM" in size_parts(sizes)[0].columns
    held = [sample_run(1_000_000, dataset="mine")]
    whole = tiers_of(1_000_000, 1_000_000 * 1024, "mine")
    (sizes,) = find_sizes([*small, *tiers, *held], 0.95, whole=whole)
    assert [one.holds for one in sizes.checks if one.figure == "ram"] == [True]
    (sizes,) = find_sizes([*small, *held], 0.95, whole=whole)
    assert not [one for one in sizes.checks if one.figure == "ram"]
    assert sizes.forecasts[0].predict("ram", 2e6).value == pytest.approx(2e9 * 1.024, rel=0.02)


def test_rows_beyond_the_memory_are_marked():
    (sizes,) = find_sizes([sample_run(rows, memory_bytes=2 << 30) for rows in SAMPLES], 0.95, [1e6, 2e6])
    first, last = size_statements(sizes)
    assert "memory" not in first.text and "index and table of hnsw exceed this machine's memory" in last.text


def test_nothing_is_predicted_of_two_samples_or_of_other_indexes():
    assert find_sizes(two_indexes(sizes=SAMPLES[2:]), 0.95) == []
    others = [sample_run(rows, build_arguments=f'[{{"M": {rows}}}]') for rows in SAMPLES]
    assert find_sizes(others, 0.95) == []
    two_machines = [sample_run(rows, cpu=f"CPU {rows // 40_000}") for rows in SAMPLES]
    assert find_sizes(two_machines, 0.95) == []


def test_a_report_shows_predictions_apart_from_answers(tmp_path):
    report = Report("sizes", "", "", [Chapter("all", runs=two_indexes())], sizes=(1_000_000,))
    answers = write_report(report, tmp_path / "report")
    assert [answer.dataset for answer in answers] == ["mine", "mine at more rows (predicted)"]
    text = (tmp_path / "report/report.md").read_text()
    assert "## At more rows" in text and "Predicted SQL of vchord with 1,000,000 rows" in text
    assert (tmp_path / "report/sizes.png").stat().st_size > 10_000
    (found,) = json.loads((tmp_path / "report" / MARK_FILE).read_text())["sizes"]
    figures = {(one["index"], one["figure"]) for one in found["predictions"]}
    assert ("vchord", "seconds") in figures and all(
        one["low"] <= one["value"] for one in found["predictions"]
    )


def test_a_page_of_a_dataset_has_what_its_samples_predict():
    pages, _ = group_results(two_indexes())
    found = {
        page.title: detail_page(template_environment(), page, ["recall/time"], False, False) for page in pages
    }
    assert "At more rows (predicted)" in found["mine (k = 10)"]
    assert "At more rows" not in found["mine-1of8 (k = 10)"]


def test_the_published_report_is_checked_by_laws_alone():
    rows = {row.title: row.figures for row in published_rows()}
    assert rows["published: size by layout"]["checks"] == 12
    assert rows["published: size by layout"]["median error"] < 0.01
    assert sum(figures["checks"] for title, figures in rows.items() if "throughput kept" in title) == 24
