import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy  # its parts are imported where they are used

from ann_benchmarks.commands import compare
from ann_benchmarks.comparing.matching import compare as compare_sides
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.sides import read_side
from ann_benchmarks.comparing.verdicts import Criteria, warnings
from ann_benchmarks.results.file import write_result
from ann_benchmarks.statistics.differences import (
    ALIKE,
    LOWER,
    NOISY,
    UNJUDGED,
    Difference,
    Estimate,
    adjust,
    difference,
    difference_of_pairs,
    paired_difference,
)
from ann_benchmarks.statistics.distributions import student_quantile, student_two_sided
from ann_benchmarks.statistics.intervals import share_interval

CALM = (1.0, 1.002, 0.998, 1.001, 0.999)


def measured(
    root, seconds=0.001, series="hnsw", arguments="M_16_20", dataset="tiny", recall=0.9, runs=CALM, **attrs
):
    """Write a point, whose best run takes `seconds` a query, with all that run.py stores."""
    hits = (np.arange(100) < 100 * recall).astype(float)
    low, high = share_interval(hits)
    path = Path(root, "results", dataset, "10", series, f"{arguments}.hdf5")
    values = {
        "best_search_time": seconds,
        "count": 10,
        "name": f"HNSW({arguments})",
        "run_seconds": [seconds * run / min(runs) for run in runs],
        "run_count": len(runs),
        "recall_low": low,
        "recall_high": high,
        "latency_p50": seconds,
        "latency_p99": 3 * seconds,
        "build_time": 10.0,
        "index_size": 2048.0,
        "cpu": "one",
        "vector_version": "0.8.0",
        "settings": {"hnsw.ef_search": "20"},
        **attrs,
    }
    found = np.ones((2, 10))
    more = {
        "latency_histogram": np.array([500, 500]),
        "latency_histogram_edges": np.geomspace(1, 100, 3) * seconds,
    }
    write_result(path, values, np.ones(2), found, found, more)
    return path


def repeated(root, name, seconds, noise=0.01, times=4, **attrs):
    rng = np.random.default_rng(len(name))
    folders = [Path(root, f"{name}{i}") for i in range(times)]
    for folder in folders:
        for arguments in ("M_16_20", "M_16_80"):
            measured(folder, seconds * math.exp(rng.normal(0, noise)), arguments=arguments, **attrs)
    return list(map(str, folders))


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, arguments)])
        status = compare.main()
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def rows(text, figure="qps"):
    return [row for row in json.loads(text)["figures"] if row["figure"] == figure]


@pytest.mark.parametrize(
    "shares", [(1.0,) * 9, (0.0,) * 9, (1.0, 0.9, 0.4, 1.0, 0.8), tuple(np.linspace(0, 1, 50))]
)
def test_the_recall_follows_from_its_interval(tmp_path, shares):
    interval = share_interval(np.array(shares))
    path = measured(tmp_path, recall_low=interval.low, recall_high=interval.high)
    (measurement,) = read_side([str(path)])
    assert measurement.recall == pytest.approx(np.mean(shares), abs=1e-9)


def test_the_cpu_of_a_pooler_is_the_servers(tmp_path):
    path = measured(tmp_path, server_cpu_seconds_per_query=0.003, pooler_cpu_seconds_per_query=0.001)
    (measurement,) = read_side([str(path)])
    assert measurement.estimate("cpu").value == pytest.approx(4.0)
    path = measured(tmp_path / "alone", server_cpu_seconds_per_query=0.003)
    (measurement,) = read_side([str(path)])
    assert measurement.estimate("cpu").value == pytest.approx(3.0)


def test_repetitions_of_the_same_differ_by_nothing_and_a_slow_down_is_found(call, tmp_path):
    a, b = repeated(tmp_path, "a", 0.001), repeated(tmp_path, "before", 0.001)
    slow = repeated(tmp_path, "slow", 0.00111)
    status, out, _ = call("--a", *a, "--b", *b, "--fail-if-slower", "5%")
    assert status == 0 and "no difference" in out and "slower" not in out.replace("slower by", "")
    status, out, _ = call("--a", *a, "--b", *slow, "--fail-if-slower", "5%")
    assert status == 1
    assert out.startswith("B is slower by more than 5%: QPS B / A is 0.9")
    assert call("--a", *a, "--b", *slow, "--fail-if-slower", "20%")[0] == 0
    assert call("--a", *slow, "--b", *a, "--fail-if-slower", "5%")[0] == 0  # which is faster
    assert call("--a", *a, "--b", *slow)[0] == 0


def test_the_verdict_is_the_first_line(call, tmp_path):
    a, slow = repeated(tmp_path, "a", 0.001), repeated(tmp_path, "slow", 0.00125)
    _, out, _ = call("--a", *a, "--b", *slow, "--fail-if-slower", "5%", "--format", "markdown")
    first, empty = out.splitlines()[:2]
    found = re.fullmatch(
        r"\*\*B is slower by more than 5%: .* B / A is (\S+) \(95% interval (\S+) to (\S+), the geometric"
        r" mean of 2 points\); HNSW\(M_16_20\): .*%\*\*",
        first,
    )
    assert found and not empty
    ratio, low, high = map(float, found.groups())
    assert low < ratio < high and low < 0.8 < high
    _, out, _ = call("--a", *a, "--b", *slow, "--fail-if-slower", "30%", "--format", "json")
    assert json.loads(out)["verdict"].startswith("B is not shown to be slower by more than 30%: ")
    assert "verdict" not in json.loads(call("--a", *a, "--b", *slow, "--format", "json")[1])
    status, out, err = call("a0", "nowhere", "--fail-if-slower", "5%", "--format", "markdown")
    assert status == 2 and out.startswith("**cannot tell whether B is slower: ") and "error: " in err


def test_pairs_do_not_see_what_slows_both(call):
    for number, busy in enumerate((1.0, 1.8, 0.9, 1.4)):
        for arguments in ("M_16_20", "M_16_80"):
            measured(f"a{number}", busy * 0.001, arguments=arguments)
            measured(f"b{number}", busy * 0.001 * (1.1 + 0.002 * number), arguments=arguments)
    sides = ("--a", "a*", "--b", "b*", "--fail-if-slower", "5%")
    assert call(*sides)[0] == 0 and call(*sides, "--paired")[0] == 1
    status, _, err = call("--a", "a*", "--b", "b0", "--paired")
    assert status == 2 and "as many repetitions of A as of B" in err


def test_one_slow_point_of_many_fails_too(call, tmp_path):
    a, b = repeated(tmp_path, "a", 0.001), repeated(tmp_path, "b_", 0.001)
    for number, folder in enumerate(b):
        measured(folder, 0.0013 + number * 1e-6, arguments="M_16_80")
    status, out, _ = call("--a", *a, "--b", *b, "--fail-if-slower", "5%")
    verdict = out.splitlines()[0]
    assert status == 1 and "HNSW(M_16_80)" in verdict and "HNSW(M_16_20):" not in verdict


def test_slow_repetitions_are_not_a_slow_version(tmp_path):
    """What slows all points of a repetition counts once, however many points there are."""
    rng = np.random.default_rng(4)
    wrong = []
    for _ in range(60):
        sides = []
        for _ in "ab":
            measurements = []
            for number in range(3):
                shift = rng.normal(0, 0.05)
                for point in range(8):
                    path = Path("/r/results/d/10/hnsw") / f"{point}.hdf5"
                    attrs = {"best_search_time": math.exp(shift + rng.normal(0, 0.002))}
                    measurements.append(MeasuredPoint(path, (str(point),), number, attrs))
            sides.append(measurements)
        wrong.append(compare_sides(*sides).metrics["qps"].mean.p < 0.05)
    assert np.mean(wrong) < 0.15  # by points alone it would be most


def test_single_measurements_have_a_question_mark_and_pass_no_build(call):
    measured("a", 0.001), measured("b", 0.002)
    status, out, _ = call("a", "b", "--fail-if-slower", "5%")
    assert status == 2 and "slower?" in out and "repetitions" in out
    assert "cannot tell whether B is slower" in out
    measured("c", runs=(1.0,)), measured("d", 0.002, runs=(1.0,))
    assert "not judged: one measurement with one run" in call("c", "d")[1]


def test_too_much_noise_is_a_warning_and_can_fail(call, tmp_path):
    a, b = (repeated(tmp_path, name, 0.001, noise=0.3) for name in ("a", "other"))
    status, out, _ = call("--a", *a, "--b", *b, "--fail-if-slower", "5%")
    assert status == 0 and "too noisy to see a difference of 5%" in out
    assert call("--a", *a, "--b", *b, "--fail-if-slower", "5%", "--fail-if-unsure")[0] == 2


def test_what_is_named_is_matched_by_what_is_left_open(call):
    for series in ("hnsw-c1-sb1GB", "hnsw-c32-sb1GB", "hnsw-c1-sb2GB", "hnsw-c32-sb2GB", "hnsw-c8-sb2GB"):
        measured(".", series=series)
    status, out, _ = call("hnsw-c*-sb1GB", "hnsw-c*-sb2GB")
    assert status == 0 and "2 points compared; only in B: tiny/10/8/M_16_20" in out
    assert "1 point compared" in call("hnsw-c1-sb1GB", "hnsw-c32-sb1GB")[1]
    assert "1 point compared" in call("results/tiny/10/hnsw-c1-sb1GB", "results/tiny/10/hnsw-c8-sb2GB")[1]
    files = [f"results/tiny/10/{series}/M_16_20.hdf5" for series in ("hnsw-c1-sb1GB", "hnsw-c8-sb2GB")]
    assert "1 point compared" in call(*files)[1]
    ids = [row["run"] for row in json.loads(call("--list", "--format", "json")[1])]
    assert len(set(ids)) == 5 and "1 point compared" in call(*ids[:2])[1]


def test_results_under_different_filters_are_not_compared(call):
    for series, filter in (("a", ""), ("a-filter-x-1", "x:1"), ("b-filter-x-1", "x:1"), ("a-filter-y", "y")):
        measured(".", series=series, **({"filter": filter} if filter else {}))
    assert "1 point compared" in call("a-filter-x-1", "b-filter-x-1")[1]
    for a, b, told in (("a", "a-filter-x-1", "no filter, B of x:1"), ("a-filter-y", "b-*", "y, B of x:1")):
        a, b = (f"results/tiny/10/{name}/M_16_20.hdf5" for name in (a, b))
        status, out, err = call(a, b)
        assert status == 2 and not out and f"error: A has results of {told}" in err and err.count("\n") == 1


def test_nothing_in_common_is_no_success(call):
    measured("a", arguments="M_8"), measured("b", arguments="M_16")
    status, out, err = call("a", "b", "--fail-if-slower", "5%")
    assert status == 2 and "no point in common" in err and "only in A: tiny/10/hnsw/M_8" in out
    status, out, err = call("a", "gone")
    assert status == 2 and err.startswith("error: 'gone' must be a file") and err.count("\n") == 1


@pytest.mark.parametrize("name", ["r[1]", "r[1]/resul*", "*[1]"])
def test_brackets_are_no_pattern(call, name):
    measured("r[1]", 0.001), measured("r1", 0.004), measured("b", 0.001)
    status, out, err = call(name, "b", "--format", "json")
    assert status == 0 and {row["ratio"] for row in rows(out)} == {1.0}, (out, err)


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_names_of_others_do_not_write_to_the_terminal(call, form):
    for name in ("a", "b\x1b[2J"):
        measured(name, series="s\x1b[31m", dataset="d\x9b2J", arguments="x\x07")
    for words in (["--list", "a"], ["a", "b\x1b[2J"]):
        status, out, err = call(*words, "--format", form)
        assert status == 0 and not re.search("[\x1b\x9b\x07]", out + err), (words, out, err)


def test_damaged_files_are_left_out(call):
    measured("a"), measured("b")
    measured("b", arguments="broken").write_bytes(b"nonsense")
    status, out, err = call("a", "b")
    assert status == 0 and "skipped" in err and "1 point compared" in out


def test_what_changed_is_listed(call):
    measured("a")
    settings = {"hnsw.ef_search": "40", "jit": "off"}
    measured("b", cpu="two", vector_version="0.8.1", settings=settings, recall=0.3)
    out = call("a", "b", "--format", "json")[1]
    changes = {change["what"]: (change["a"], change["b"]) for change in json.loads(out)["changes"]}
    assert changes["cpu"] == ("one", "two") and changes["vector_version"] == ("0.8.0", "0.8.1")
    assert changes["setting hnsw.ef_search"] == ("20", "40") and changes["setting jit"] == ("-", "off")
    out = call("a", "b")[1]
    assert "measured on different machines" in out and "(differs)" in out
    assert "1 point with a recall that differs" in out


def test_a_small_difference_in_recall_is_noise(call):
    measured("a", recall=0.9), measured("b", recall=0.88)
    assert "recall that differs" not in call("a", "b")[1]


def queries_missed(*missed):
    """The recalls of the parts of the queries, of which these miss 20 times as much as the others."""
    recalls = np.full(50, 0.99)
    recalls[list(missed)] = 0.8
    return [*recalls]


def at_a_recall(call, *parts):
    """Compare two series with these recalls of the parts of their queries, in rounds that repeat to 0.2%."""
    rounds = {"rounds": "r", "run_rounds": [0, 1, 2, 3, 4]}
    for series, of_series in zip(("before", "after"), parts, strict=True):
        measured(".", series=series, recall=0.95, recall_parts=of_series, **rounds)
    sides = ("results/tiny/10/before", "results/tiny/10/after", "--at-recall", "0.95")
    (point, mean) = rows(call(*sides, "--format", "json")[1])
    assert point["low"] == mean["low"] or float(point["low"]) == pytest.approx(float(mean["low"]), 0.01)
    return float(mean["high"]) / float(mean["low"]), call(*sides)[1]


def test_what_is_hard_for_both_is_no_doubt_about_their_ratio(call):
    hard = queries_missed(1, 5, 9, 20, 33, 34, 40, 41, 48, 49)
    alike, said = at_a_recall(call, hard, queries_missed(1, 5, 9, 20, 33, 34, 40, 41, 48, 49))
    assert alike < 1.02 and "more queries" not in said
    other = queries_missed(0, 4, 8, 21, 30, 31, 42, 43, 46, 47)
    apart, said = at_a_recall(call, hard, other)
    assert apart > 1.3
    assert "measuring for longer would not show less than" in said and "a dataset with more queries" in said


def test_the_throughput_of_rounds_is_that_of_plots_and_their_ratio_that_of_the_rounds(call):
    rounds = {"rounds": "r", "run_rounds": [0, 1, 2, 3], "runs": (1.0, 2.0, 1.0, 2.0)}
    measured(".", 0.001, "before", **rounds)
    measured(".", 0.002, "after", **rounds)
    (point, mean) = rows(call("before", "after", "--format", "json")[1])
    for row in (point, mean):
        assert row["judged_by"] == "rounds" and float(row["ratio"]) == pytest.approx(0.5)
        assert (float(row["a"]), float(row["b"])) == pytest.approx((750.0, 375.0))


def test_an_index_counts_once(call, tmp_path):
    a, b = repeated(tmp_path, "a", 0.001), repeated(tmp_path, "b", 0.001, build_time=11.0)
    out = call("--a", *a, "--b", *b, "--format", "json")[1]
    (index, mean) = rows(out, "build")
    assert (index["repetitions_a"], index["verdict"]) == (1, "not judged")
    assert float(mean["ratio"]) == pytest.approx(1.1)


def test_a_given_rate_is_judged_by_p99(call, tmp_path):
    a, b = (repeated(tmp_path, name, s, rate=100.0) for name, s in (("a", 0.001), ("slow", 0.0013)))
    status, out, _ = call("--a", *a, "--b", *b, "--fail-if-slower", "5%", "--format", "json")
    assert status == 1 and not rows(out, "qps") and rows(out, "p99")[0]["verdict"] == "slower"


def test_another_figure_can_decide(call, tmp_path):
    blocks = {f"{of}_blocks_{how}_per_query": 5.0 for of in ("index", "table") for how in ("hit", "read")}
    a = repeated(tmp_path, "a", 0.001, **blocks)
    b = repeated(tmp_path, "b_", 0.001, **blocks | {"index_blocks_hit_per_query": 6.0})
    sides = ("--a", *a, "--b", *b)
    assert call(*sides, "--fail-if-slower", "4%")[0] == 0
    status, out, _ = call(*sides, "--fail-if-slower", "4%", "--by", "blocks")
    assert status == 1 and "B / A is 1.050" in out and "Blocks (per query): A" in out
    assert call(*sides, "--by", "cpu", "--fail-if-slower", "4%")[0] == 2
    measurement = read_side([a[0]])[0]
    assert measurement.attrs["latency_p10"] == pytest.approx(measurement.number("latency_p50") * 10**0.2)


@pytest.mark.parametrize(
    "words", ["a", "a b c", "--a x", "a b --fail-if-slower x", "a b --fail-if-unsure", "a b --error-rate 0.6"]
)
def test_mistakes_on_the_command_line(call, words):
    with pytest.raises(SystemExit) as ended:
        call(*words.split())
    assert ended.value.code == 2


# How measurements are judged.


RNG = np.random.default_rng(1)


def figures(*values, spread=math.nan, runs=1):
    return [Estimate(value, spread, runs) for value in values]


@pytest.mark.parametrize("freedom", [0.7, 1, 1.3, 4, 8.5, 30, 1e5])
def test_students_distribution(freedom):
    for t in (0, 0.001, 0.5, 1, 2, 4.3, 12.7, 60, 1e6):
        assert student_two_sided(t, freedom) == pytest.approx(2 * scipy.stats.t.sf(t, freedom), abs=1e-8)
    for share in (0.55, 0.8, 0.975, 0.9999):
        assert student_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-5)


def test_repetitions_are_judged_by_welchs_test():
    a, b = (100.0, 110.0, 96.0, 103.0), (80.0, 99.0, 91.0)
    found = difference(figures(*a), figures(*b))
    expected = scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    assert found.interval(0.05) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)
    assert (found.by, found.is_sure) == ("repetitions", True)


def test_pairs_are_judged_by_their_ratios():
    a, b = (100.0, 50.0, 200.0), (90.0, 46.0, 177.0)
    expected = scipy.stats.ttest_rel(np.log(b), np.log(a))
    found = paired_difference(figures(*a), figures(*b))
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9) and found.p < 0.02
    assert difference(figures(*a), figures(*b)).p > 0.5
    assert not paired_difference(figures(1.0), figures(2.0)).is_judged


def test_one_measurement_is_judged_by_the_repetitions_of_the_other_side():
    before = np.array([100.0, 104.0, 97.0, 101.0, 99.0])
    found = difference(figures(*before), figures(90.0))
    error = np.log(before).std(ddof=1) * math.sqrt(1 + 1 / 5)  # of a prediction
    expected = 2 * scipy.stats.t.sf(abs(math.log(90) - np.log(before).mean()) / error, 4)
    assert found.p == pytest.approx(expected, abs=1e-9)


def test_single_measurements_are_never_sure_and_need_runs():
    found = difference(figures(100.0, spread=0.0001, runs=5), figures(50.0, spread=0.0001, runs=5))
    assert found.verdict(0.05, 0.05) and found.p < 0.05 and not found.is_sure
    unknown = difference(figures(100.0), figures(70.0))
    assert adjust([unknown])[0].verdict(0.05, 0.05) == UNJUDGED
    assert all(map(math.isnan, (unknown.p, unknown.visible(0.05), *unknown.interval(0.05))))


def test_the_best_of_runs_is_compared_with_the_best_of_others():
    theirs, ours = {"best_search_time": 0.008, "run_count": 3}, {"run_seconds": [0.01, 0.009, 0.008]}
    a, b = (MeasuredPoint(Path("drawn/10/a/x.hdf5"), ("x",), 0, theirs | more) for more in ({}, ours))
    found = compare_sides([a], [b])
    assert found.metrics["qps"].mean.ratio == 1
    assert any("the best run of each side is compared" in text for text in warnings(found, Criteria()))
    assert compare_sides([b], [b]).metrics["qps"].mean.a == pytest.approx((100 + 1e3 / 9 + 125) / 3)


def test_runs_that_agree_do_not_make_a_measurement_exact():
    found = difference(figures(100.0, spread=1e-12, runs=5), figures(99.0, spread=1e-12, runs=5))
    assert found.p > 0.05


def test_figures_without_noise_differ_if_they_are_not_equal():
    same, other = (difference(figures(8.0, 8.0), figures(b, b)) for b in (8.0, 9.0))
    assert (same.p, other.p) == (1.0, 0.0)
    assert adjust([same])[0].verdict(0.05, 0.05) == ALIKE


def test_points_are_judged_together_as_holm_says():
    differences = [Difference(1, math.exp(t), (3, 3), 1.0, 1e9, "repetitions") for t in (2.0, 2.6, -3.0, 0.1)]
    p = sorted(2 * scipy.stats.norm.sf(t) for t in (2.0, 2.6, 3.0, 0.1))
    expected = np.maximum.accumulate(np.array(p) * (4, 3, 2, 1))
    found = sorted(d.adjusted for d in adjust(differences))
    assert found == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("repetitions", [3, 5, 10])
def test_the_error_rate_is_kept_and_the_visible_difference_is_seen(repetitions):
    noise = 0.04
    of_a, of_b = np.exp(RNG.normal(5, noise, (2, 1000, repetitions)))
    same = [difference(figures(*a), figures(*b)) for a, b in zip(of_a, of_b, strict=True)]
    assert 0.03 < np.mean([d.p <= 0.05 for d in same]) < 0.065

    # `visible` is what would be seen with this noise, were it known to be this.
    seen = Difference(
        1, 1, (repetitions,) * 2, noise * math.sqrt(2 / repetitions), 2 * repetitions - 2, ""
    ).visible(0.05)
    slower = [difference(figures(*a), figures(*b / (1 + seen))) for a, b in zip(of_a, of_b, strict=True)]
    assert 0.65 < np.mean([d.p <= 0.05 for d in slower]) < 0.9


def test_noise_is_not_said_to_be_equality():
    calm = adjust([difference(figures(100, 100.2, 99.9), figures(100.1, 99.8, 100))])[0]
    noisy = adjust([difference(figures(100, 140, 80), figures(90, 150, 99))])[0]
    slow = adjust([difference(figures(100, 100.2, 99.9), figures(90, 90.2, 89.8))])[0]
    assert [d.verdict(0.05, 0.05) for d in (calm, noisy, slow)] == [ALIKE, NOISY, LOWER]


def test_an_interval_of_what_two_rounds_are_worth_has_an_end():
    """Differences that hardly change count for two, and the quantile of one degree of freedom is huge."""
    found = difference_of_pairs([0.0] * 20, [0.3 * (place > 9) for place in range(20)], "rounds")
    low, high = found.interval(1e-6)
    assert 0 <= low < found.ratio < high < math.inf
