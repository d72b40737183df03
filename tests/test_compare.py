import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.commands import compare
from ann_benchmarks.comparing.matching import compare as compare_sides
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.sides import ResultFilter, read_side
from ann_benchmarks.results.file import write_result
from ann_benchmarks.results.records import Phase, Record, write_record
from ann_benchmarks.statistics.intervals import share_interval

from .report_data import make_rate

CALM = (1.0, 1.002, 0.998, 1.001, 0.999)
PLAN = {
    "Node Type": "Limit",
    "Plans": [{"Node Type": "Index Scan", "Order By": "(items_1.x <-> $1)", "Alias": "items_1"}],
}


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
        "plan": PLAN,
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
    (measurement,) = read_side([str(path)], ResultFilter())
    assert measurement.recall == pytest.approx(np.mean(shares), abs=1e-9)


def test_the_cpu_of_a_pooler_is_the_servers(tmp_path):
    path = measured(tmp_path, server_cpu_seconds_per_query=0.003, pooler_cpu_seconds_per_query=0.001)
    (measurement,) = read_side([str(path)], ResultFilter())
    assert measurement.estimate("cpu").value == pytest.approx(4.0)
    path = measured(tmp_path / "alone", server_cpu_seconds_per_query=0.003)
    (measurement,) = read_side([str(path)], ResultFilter())
    assert measurement.estimate("cpu").value == pytest.approx(3.0)


def test_repetitions_of_the_same_differ_by_nothing_and_a_slow_down_is_found(call, tmp_path):
    a, b = repeated(tmp_path, "a", 0.001), repeated(tmp_path, "before", 0.001)
    slow = repeated(tmp_path, "slow", 0.00111)
    status, out, _ = call("--a", *a, "--b", *b, "--fail-if-slower", "5%")
    assert status == 0 and "no difference" in out and "slower" not in out.replace("slower by", "")
    status, _, err = call("--a", *a, "--b", *slow, "--fail-if-slower", "5%")
    assert status == 1
    assert "failed: worse by more than 5%: all points, geometric mean: 9" in err
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
    status, _, err = call("--a", *a, "--b", *b, "--fail-if-slower", "5%")
    assert status == 1 and "HNSW(M_16_80)" in err and "HNSW(M_16_20):" not in err


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
    status, out, err = call("a", "b", "--fail-if-slower", "5%")
    assert status == 2 and "slower?" in out and "repetitions" in out
    assert "cannot tell whether B is slower" in err
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
    status, out, err = call("a", "b", "--dataset", "other")
    assert status == 2 and "--dataset other" in err


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
    plan = {**PLAN, "Plans": [{"Node Type": "Seq Scan", "Alias": "items_2"}]}
    settings = {"hnsw.ef_search": "40", "jit": "off"}
    measured("b", cpu="two", vector_version="0.8.1", settings=settings, plan=plan, recall=0.3)
    out = call("a", "b", "--format", "json")[1]
    changes = {change["what"]: (change["a"], change["b"]) for change in json.loads(out)["changes"]}
    assert changes["cpu"] == ("one", "two") and changes["vector_version"] == ("0.8.0", "0.8.1")
    assert changes["setting hnsw.ef_search"] == ("20", "40") and changes["setting jit"] == ("-", "off")
    assert changes["plan"] == ("  Index Scan; Order By: (x <-> $1)", "  Seq Scan")
    out = call("a", "b")[1]
    assert "measured on different machines" in out and "(differs)" in out
    assert "1 point with a recall that differs" in out


def test_a_small_difference_in_recall_is_noise(call):
    measured("a", recall=0.9), measured("b", recall=0.88)
    assert "recall that differs" not in call("a", "b")[1]


def test_at_a_recall_the_throughput_is_taken_between_the_points_next_to_it(call):
    for series, arguments, seconds, recall in (
        ("hnsw", "M_20", 0.001, 0.90),
        ("hnsw", "M_40", 0.002, 0.96),
        ("hnsw", "M_80", 0.004, 0.99),
        ("vchord", "lists_5", 0.0015, 0.97),
        ("vchord", "lists_1", 0.0005, 0.50),
    ):
        measured(".", seconds, series, arguments, recall=recall)
    sides = ("results/tiny/10/hnsw", "results/tiny/10/vchord")
    (point, _) = rows(call(*sides, "--at-recall", "0.95", "--format", "json")[1])
    assert point["point"] == "HNSW(M_40) | HNSW(lists_5)" and float(point["ratio"]) == pytest.approx(
        1.375, 1e-3
    )
    assert call(*sides, "--at-recall", "1")[0] == 2


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
    status, out, err = call(*sides, "--fail-if-slower", "4%", "--by", "blocks")
    assert status == 1 and "geometric mean: 5.0%" in err and "Blocks (per query): A" in out
    assert call(*sides, "--by", "cpu", "--fail-if-slower", "4%")[0] == 2
    measurement = read_side([a[0]], ResultFilter())[0]
    assert measurement.attrs["latency_p10"] == pytest.approx(measurement.number("latency_p50") * 10**0.2)


def test_workloads_that_write_are_compared(call):
    for folder, inserts in (("a", 500.0), ("b", 400.0)):
        path = Path(folder, "results", "tiny", "10", "hnsw-writes", "M_16.workload.json")
        path.parent.mkdir(parents=True)
        phase = Phase("writing", 0.0, 10.0, make_rate(100.0, 0.01), {"insert": make_rate(inserts)})
        write_record(
            Record("writes", "tiny", 10, "hnsw-writes", "HNSW()", [], [], 8, 4, None, [phase], path=path)
        )
    found = {row["point"]: row["ratio"] for row in rows(call("a", "b", "--format", "json")[1])}
    assert float(found["HNSW() writing: query"]) == pytest.approx(1.0)
    assert float(found["HNSW() writing: insert"]) == pytest.approx(0.8)
    Path("b", "results", "tiny", "10", "hnsw-writes", "M_16.workload.json").write_text("{")
    assert call("a", "b")[0] == 2


def test_the_list_is_by_time_and_a_run_is_shown_by_its_name(call):
    measured(".", started_at="2026-01-02T00:00:00+00:00")
    measured(".", arguments="M_16_40", series="vchord", started_at="2026-01-01T00:00:00+00:00")
    out = call("--list")[1].splitlines()
    assert len(out) == 3 and "vchord" in out[1]
    assert len(call("--list", "--algorithm", "vchord")[1].splitlines()) == 2


@pytest.mark.parametrize(
    "words", ["a", "a b c", "--a x", "a b --fail-if-slower x", "a b --fail-if-unsure", "a b --error-rate 0.6"]
)
def test_mistakes_on_the_command_line(call, words):
    with pytest.raises(SystemExit) as ended:
        call(*words.split())
    assert ended.value.code == 2
