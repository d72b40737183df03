"""Recall by query: its percentile and counts by hand, in results, pictures, reports and what they say."""

import math
from dataclasses import replace
from math import comb

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.reporting.content import Shown
from ann_benchmarks.reporting.document import Paragraph, Picture
from ann_benchmarks.reporting.pictures import recall_picture, recall_table
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.measurement import COUNTS, recall_counts
from ann_benchmarks.results.runs import interval, load_runs
from ann_benchmarks.results.tails import RecallTail, counts_of, evenly_missed, tails_at
from ann_benchmarks.statistics.intervals import fifth_interval, fifth_percentile
from ann_benchmarks.views.parts import Table
from ann_benchmarks.views.recalls import hidden_tail
from ann_benchmarks.website.plots import tails_data

from .plotting_data import make_result, make_truth, request_of
from .report_data import make_run


def binomial(count, chance, most):
    """Return the chance of at most this many, summed by hand."""
    return sum(comb(count, i) * chance**i * (1 - chance) ** (count - i) for i in range(most + 1))


def test_the_fifth_percentile_is_a_value_that_occurred():
    assert math.isnan(fifth_percentile(np.ones(19))) and math.isnan(fifth_interval(np.ones(19)).low)
    generator = np.random.default_rng(1)
    for queries in (20, 21, 39, 40, 41, 1000):
        recalls = generator.integers(0, 11, queries) / 10
        found = fifth_percentile(recalls)
        assert found in recalls
        assert np.mean(recalls <= found) >= 0.05 and np.mean(recalls >= found) >= 0.95


@pytest.mark.parametrize("queries", [20, 72, 100, 1000])
def test_the_interval_has_the_ranks_of_the_binomial(queries):
    ranks = np.arange(1.0, queries + 1) / queries
    at_most = np.cumsum([comb(queries, i) * 0.05**i * 0.95 ** (queries - i) for i in range(queries)])
    low, high = np.count_nonzero(at_most <= 0.025), np.argmax(1 - at_most <= 0.025) + 1
    assert fifth_interval(ranks[::-1]) == pytest.approx((low / queries, high / queries))


def test_the_interval_covers_the_percentile_of_all_queries():
    generator = np.random.default_rng(2)
    draws = generator.binomial(10, generator.beta(9, 1, (400, 200))) / 10
    true = np.quantile(generator.binomial(10, generator.beta(9, 1, 10**6)) / 10, 0.05, method="lower")
    bounds = [fifth_interval(one) for one in draws]
    assert np.mean([low <= true <= high for low, high in bounds]) >= 0.95


def test_queries_are_counted_by_recall():
    assert recall_counts(np.arange(8) / 7, 7) == [1] * 8  # of which none is a round number
    assert recall_counts(np.array([0, 0.29, 1]), 100) == [1, *[0] * 28, 1, *[0] * 70, 1]
    assert sum(recall_counts(np.arange(1001) / 1000, 1000)) == 1001
    assert recall_counts(np.array([1 / 3, 2 / 3, 1.0]), 10)[3:7] == [1, 0, 0, 1]  # fewer were due


def test_misses_that_are_spread_evenly():
    assert evenly_missed(10, 0.95) == next(m for m in range(11) if binomial(10, 0.95, m) >= 0.05) == 8
    assert evenly_missed(100, 0.95) == next(m for m in range(101) if binomial(100, 0.95, m) >= 0.05)
    assert (evenly_missed(10, 1.0), evenly_missed(10, 0.0)) == (10, 0)


def tail_of(counts, family="hnsw", **more):
    """Return a result with so many queries by recall, from none of ten on."""
    recalls = np.repeat(np.arange(11) / 10, counts)
    low, high = fifth_interval(recalls)
    run = make_run(family, recall=float(recalls.mean()), recall_p5_low=low, recall_p5_high=high, **more)
    known = {"recall-p5": fifth_percentile(recalls), "recall-worst": float(recalls.min())}
    return replace(run, metrics=run.metrics | known, attrs=run.attrs | {COUNTS: list(counts)})


EVEN = [0, 0, 0, 0, 0, 0, 1, 10, 75, 315, 599]  # of misses as by a binomial
TAILED = [20, 0, 0, 10, 10, 20, 20, 0, 0, 0, 920]


def test_a_report_says_where_the_mean_hides_a_tail():
    assert hidden_tail(tail_of(EVEN, "even")) == ""
    assert hidden_tail(tail_of(TAILED, "tailed")) == "5% of its queries find at most 5 of 10 (4 to 6)"
    filtered = tail_of(TAILED, "tailed", filter="uniform:0.5")
    assert hidden_tail(filtered) == ""  # its queries have fewer neighbours, perhaps


def test_a_tail_is_the_share_of_queries_below_each_recall():
    tail = RecallTail(make_run(), [0, 0, 1, 3, 6])
    assert tail.below == [(0.75, 0.1), (1.0, 0.4)] and tail.queries == 10
    assert tail.count_in_ranges(2) == [(4, 4, 6), (2, 3, 4), (0, 1, 0)]
    (wide,) = [RecallTail(make_run(), list(range(101)))]
    ranges = wide.count_in_ranges(10)
    assert len(ranges) == 11 and ranges[1][:2] == (90, 99) and ranges[-1][:2] == (0, 9)
    assert sum(number for *_, number in ranges) == wide.queries
    for wrong in ("x", [1], [1, -1], [0, 0], [1, True], [1, 0.5], None):
        assert counts_of(make_run(**{COUNTS: wrong})) == []


def test_picture_and_table_of_a_report(tmp_path):
    runs = [tail_of(EVEN, "even"), tail_of(TAILED, "tailed"), tail_of([1000, *[0] * 10], "low")]
    shown = Shown(runs, [], 0.93, "d", tmp_path)
    (picture,) = recall_picture(shown)
    assert isinstance(picture, Picture) and (tmp_path / picture.file).stat().st_size > 1000
    (table,) = recall_table(shown)
    assert isinstance(table, Table)
    assert table.columns == ["Curve", "Recall", "Recall p5", "Worst recall", *map(str, range(10, -1, -1))]
    assert [row[0] for row in table.rows] == ["even-c1", "tailed-c1"]
    assert table.rows[1][3:] == ["0.0000", *map(str, reversed(TAILED))]
    with pytest.raises(UserError, match=r"no result reaches a recall of 0.999; the highest is 0.9"):
        tails_at(runs, 0.999)
    left = recall_table(replace(shown, runs=[*runs, tail_of(EVEN, "even", clients=8)]))
    assert isinstance(left[-1], Paragraph) and "left out" in str(left[-1].text)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """1,000 queries; one result misses in all of them alike, the other everything in the last 50."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    make_result("d", "tailed", "x", truth, 0.95, 1e-3)
    path = make_result("d", "even", "x", truth, 1.0, 1e-3)
    with h5py.File(path, "r+") as file:
        found = file["distances"][:]
        found[:500, 9] = np.inf
        file["distances"][:] = found
        file.attrs[COUNTS] = "of others"
        file.attrs["recall_p5_low"] = 7.0
    return tmp_path


def test_results_have_the_tail_of_their_own_answers(results):
    for _ in range(2):  # computed, and from the cache
        runs = {run.algorithm: run for run in load_runs(iter_result_paths("d"))}
        even, tailed = runs["even"], runs["tailed"]
        assert even.metrics["recall"] == tailed.metrics["recall"] == 0.95
        assert (even.metrics["recall-p5"], even.metrics["recall-worst"]) == (0.9, 0.9)
        assert (tailed.metrics["recall-p5"], tailed.metrics["recall-worst"]) == (0, 0)
        assert interval(even, "recall-p5") == (0.9, 0.9) and interval(tailed, "recall-p5") == (0, 1)
        assert interval(even, "recall-worst") is None
        assert counts_of(even) == [*[0] * 9, 500, 500] and counts_of(tailed) == [50, *[0] * 9, 950]
        assert tails_data([even, tailed]) == [[10, 500, 500], [10, 950, *[0] * 9, 50]]


def test_plot_draws_recall_by_query(results, capsys):
    draw_picture(request_of("d", "tails.svg"), "recalls")
    assert "wrote tails.svg (series: 2)" in capsys.readouterr().out
    text = (results / "tails.svg").read_text()
    assert "even, mean recall 0.9500" in text and "d (k = 10, target recall 0.95)" in text
    with pytest.raises(UserError, match=r"recall of 0.99; the highest is 0.9500; --target-recall lowers"):
        draw_picture(request_of("d", target_recall=0.99), "recalls")
    with pytest.raises(UserError, match="leave out --published"):
        draw_picture(request_of("d", published="1b"), "recalls")
