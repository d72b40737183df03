"""Whatever is compared at a recall is compared at equal recall: no point vanishes by two hits in 5,000."""

import csv

import pytest

from ann_benchmarks.experiments.findings import StepPoint, judged
from ann_benchmarks.experiments.schema import Claim
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.reporting.answer import find_answers, statements
from ann_benchmarks.reporting.content import Shown
from ann_benchmarks.reporting.kinds import make
from ann_benchmarks.results.at_recall import find_at_recall, indexes_at_recall, ratio_of_throughputs
from ann_benchmarks.results.export import write_csv
from ann_benchmarks.views.memory import needs

from .plotting_data import make_result, make_truth, request_of
from .report_data import GB, make_run, steady
from .test_experiments import point as measured_point


def first_a_hair_short():
    """Return two indexes, of which the first is the faster one and misses 2 more of 10,000 neighbours."""
    names = [{"name": f"a(ef={ef})"} for ef in (40, 80)]
    return [
        steady("a", 1000.0, recall=0.9498, **names[0]),
        steady("a", 700.0, recall=0.969, **names[1]),
        steady("b", 950.0, recall=0.9502),
    ]


def tiers_of(runs):
    """Return the rows of the table of tiers, and its notes."""
    table, *notes = make("table", {"kind": "tiers"}, Shown(runs, [], 0.95))
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows], [note.text for note in notes]


def rows_of(runs):
    """Return the rows of the table of all indexes."""
    (answer,) = find_answers(runs, [], 0.95)
    return [dict(zip(answer.table.columns, row, strict=True)) for row in answer.table.rows]


def test_the_table_of_indexes_is_not_reversed():
    a, b = rows_of(first_a_hair_short())
    assert (a["Index"], b["Index"]) == ("a", "b")
    assert 990 < float(a["Queries/s, 1 client"].partition(" (")[0].replace(",", "")) < 1000
    assert a["Times slower, 1 client"] == "1"
    ratio, low, *_, high = b["Times slower, 1 client"].replace("(", "").replace(")", "").split()
    assert float(low) < 1 < float(ratio) <= 1.05 < float(high)
    assert "measured once, at different times" in b["In doubt"]


def test_latencies_beside_a_speed_between_two_points_are_said_to_be_those_of_one():
    note = "Recalls and latencies are those of the measured result closest to it."
    runs = [
        steady("hnsw", rate, ram=ram, recall=recall, name=f"hnsw({recall})")
        for ram, rate in ((1, 50.0), ("all", 100.0))
        for recall in (0.94, 0.962)
    ]
    assert any(note in text for text in tiers_of(runs)[1])
    doubts = [row["In doubt"] for row in rows_of(first_a_hair_short())]
    assert doubts[0].startswith("between recall 0.950 and 0.969, p99 at 0.950")
    assert "between" not in doubts[1]  # of b, at its own recall


def test_an_index_with_only_higher_recalls_has_a_bound():
    runs = [steady("a", 100.0, recall=0.99), steady("b", 50.0), steady("c", 20.0, recall=0.995)]
    cells = [[row[name].partition(" (")[0] for row in rows_of(runs)]
             for name in ("Queries/s, 1 client", "Times slower, 1 client")]  # fmt: skip
    assert cells[0] == ["at least 100.0", "50.00", "at least 20.00"]
    assert cells[1] == ["1", "at least 2", "-"]


@pytest.mark.parametrize("recall", [0.9498, 0.95, 0.9502])
def test_the_memory_that_is_needed_does_not_depend_on_two_hits(recall):
    def on_tier(ram, rate, slow, **more):
        arguments = [{"name": f"hnsw(ef={ef})"} for ef in (40, 80)]
        fast = steady("hnsw", rate, ram=ram, **arguments[0], **more)
        return [fast, steady("hnsw", slow, ram=ram, recall=0.98, **arguments[1])]

    runs = [*on_tier("all", 100.0, 60.0, recall=recall), *on_tier(1, 90.0, 20.0, recall=0.9502)]
    runs += on_tier(2, 97.0, 55.0, recall=0.9498)
    (need,) = needs(runs, 0.95)
    assert (need.ram, need.perhaps) == (None, GB) and need.kept.value == pytest.approx(0.9, abs=0.01)
    assert need.kept.interval.low < need.kept.value < need.kept.interval.high
    alone = [steady("hnsw", rate, ram=ram, recall=0.9498) for ram, rate in (("all", 100.0), (1, 85.0))]
    (need,) = needs(alone, 0.95)
    assert need.perhaps == GB and need.kept.value == pytest.approx(0.85)


def test_the_most_that_was_measured_suffices_however_noisy_it_is():
    runs = [make_run("hnsw", (100.0, 20.0, 180.0), ram=4), steady("hnsw", 5.0, ram=1)]
    (need,) = needs(runs, 0.95)
    assert (need.ram, need.perhaps, need.whole) == (4 * GB, GB, 4 * GB)
    table, notes = find_answers(runs, [], 0.95)[0].details
    assert table.rows[0][:4] == ("hnsw", "1", "1 GB to 4 GB", "2,048") and table.rows[0][4].startswith("5% (")
    assert "4 GB, stands for all memory" in notes


def test_tiers_with_plenty_of_memory_show_how_sessions_differ():
    sizes = {"index_kib": 1 << 18, "table_size": 1 << 18}  # both together, a fourth of 2 GB
    rates = {1: 95.0, 2: 100.0, 4: 101.0, 8: 99.0, 16: 100.0}
    runs = [steady("hnsw", rate, ram=ram, **sizes) for ram, rate in rates.items()]
    (known,), (assumed,) = needs(runs, 0.95), needs(runs[:-1], 0.95)
    assert (known.ram, known.perhaps) == (GB, GB)
    assert "sessions differ by 0.8%, as 4 tiers with plenty of memory show" in known.doubts[0]
    assert (assumed.ram, assumed.perhaps) == (2 * GB, GB)
    assert "sessions are assumed to differ by 16%, as on a shared machine" in assumed.doubts[0]


def test_a_tier_without_a_result_that_others_have_is_named():
    rates = {4: 100.0, 2: 99.0, 1: 20.0}
    runs = [steady(name, rate, ram=ram) for name in "ab" for ram, rate in rates.items()][:-1]
    a, b = needs(runs, 0.95)
    assert (a.missing, a.least, b.missing, b.least) == ([], GB, [GB], GB)
    table, _ = find_answers(runs, [], 0.95)[0].details
    assert table.rows[1][:3] == ("b", "1", "2 GB to 4 GB") and table.rows[1][4].startswith("99% (")
    assert [row[table.columns.index("No result with")] for row in table.rows] == ["-", "1 GB"]


def test_tiers_in_the_same_rounds_are_compared_round_by_round():
    drift = [1.0, 0.7, 1.3, 0.9, 1.1]  # which both have
    rounds = {"rounds": "r", "run_rounds": [0, 1, 2, 3, 4], "build_time": 9.75}
    rates = {"all": 100.0, 1: 90.0}
    runs = [make_run("hnsw", [rate * d for d in drift], ram=ram, **rounds) for ram, rate in rates.items()]
    (need,) = needs(runs, 0.95)
    assert not need.doubts and need.kept.rounds == 5
    assert need.kept.interval == pytest.approx((0.9, 0.9))


def test_what_is_said_of_tiers_is_how_they_were_measured():
    def said(*marks, rounds=5):
        runs = [
            make_run("hnsw", [100.0] * rounds, ram=ram, rounds=mark, run_rounds=[*range(rounds)])
            for ram, mark in zip((1, "all"), marks, strict=True)
        ]
        return find_answers(runs, [], 0.95)[0].details[1]

    assert "The tiers were" not in said("r", "r")
    assert "The tiers were measured in 3 rounds, too few to be certain, and sessions" in said(
        "r", "r", rounds=3
    )
    assert "The tiers were measured in separate rounds, at different times, and sessions" in said("r", "s")
    assert "The tiers were measured once, at different times, and sessions" in said("", "")


def test_tables_of_tiers_have_what_a_hair_is_missing():
    runs = [steady("hnsw", rate, ram=ram, recall=0.9498) for ram, rate in ((1, 50.0), ("all", 100.0))]
    rows, _ = tiers_of(runs)
    assert [float(row["QPS at recall"].partition(" ")[0]) for row in rows] == pytest.approx(
        [49.9, 99.7], rel=0.005
    )
    higher = [steady("hnsw", rate, ram=ram, recall=0.999) for ram, rate in ((1, 50.0), ("all", 100.0))]
    assert [row["QPS at recall"].partition(" (")[0] for row in tiers_of(higher)[0]] == [
        "at least 50.00", "at least 100.0",
    ]  # fmt: skip


def test_throughput_at_a_recall_is_drawn_for_an_index_within_noise_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    near = {"recall_low": 0.94, "recall_high": 0.96, "tier": "x", "tier_ram": GB, "tier_shared_buffers": GB}
    make_result("d", "a", "x", truth, 0.9498, 0.001, **near)
    draw_picture(request_of(output="x.svg", x="build", y="qpsatrecall"))
    draw_picture(request_of(output="tiers.svg"), "tiers")
    assert "points: 1, algorithms: 1" in capsys.readouterr().out


def test_the_csv_has_the_throughput_of_each_index_once(tmp_path):
    write_csv(tmp_path / "out.csv", first_a_hair_short())
    with (tmp_path / "out.csv").open(newline="") as file:
        figures = [float(row["qpsatrecall"]) for row in csv.DictReader(file)]
    assert figures == pytest.approx([996, float("nan"), 952], rel=0.01, nan_ok=True)


def test_bars_grow_with_what_other_queries_would_change():
    sure, unsure = (
        make_run(recall_low=0.95 - by, recall_high=0.95 + by, qps_low=90.0, qps_high=110.0)
        for by in (0.0, 0.01)
    )
    (one,), (other,) = (indexes_at_recall([run], 0.95) for run in (sure, unsure))
    assert one.interval == pytest.approx((90.0, 110.0))
    assert other.interval.low < 85 and other.interval.high > 115


def test_the_same_arguments_find_the_same_neighbours():
    found = find_at_recall({ram: [make_run(ram=ram, recall=0.96)] for ram in (1, "all")}, 0.95)
    same = ratio_of_throughputs(found[1], found["all"]).interval
    found = find_at_recall({name: [make_run(name, recall=0.96)] for name in "ab"}, 0.95)
    other = ratio_of_throughputs(found["a"], found["b"]).interval
    assert other.high / other.low > 1.2 * same.high / same.low


def test_a_finding_at_a_recall_is_judged_at_it():
    points = [
        StepPoint("s", Job(measured_point(run.series.algorithm, 1.0).job.definition, [], "d", 10), [i], run)
        for i, run in enumerate(first_a_hair_short())
    ]
    claim = Claim(
        "x", "y", compare="ratio", of={"algorithm": "b"}, to={"algorithm": "a"}, at_recall=0.95, least=1.2
    )
    found = judged(claim, points)
    assert found.verdict == "not reproduced" and found.measured.startswith("0.95")
    assert found.measured.endswith("measured once, at different times")


ROUNDS = {"rounds": "r", "run_rounds": [*range(6)]}


def in_rounds(family, rate, recall, **attrs):
    """Return a result of six rounds, whose misses are those of all others: no query is harder for one."""
    rates = [rate * noise for noise in (1, 1.02, 0.98, 1, 1.01, 0.99)]
    return make_run(family, rates, recall=recall, **{**ROUNDS, "recall_parts": [recall] * 50, **attrs})


def said_of(runs):
    return next(one.text for one in statements(runs, False, 0.95) if one.about.startswith("In short"))


def test_two_that_were_measured_at_the_same_higher_recall_are_compared_there():
    def said(recall, rate=80.0):
        return said_of([in_rounds("a", 100.0, 0.99), in_rounds("b", rate, recall)])

    there, first = "at a recall of 0.990", "the fastest with 1 client,"
    assert f"{first} 1.25 times as fast as b {there}" in said(0.99)
    assert f"{first} 1.25 times as fast as b {there}" in said(0.985)  # at 0.99, b would be slower
    assert f"{first} 1.16 times as fast as b {there}" in said(0.991)  # at 0.99, b would answer 86
    for other in (said(0.995), said(0.991, 99.0)):  # at 0.99, the last would be the faster one
        assert "had only higher recalls)" in other


def test_what_was_compared_at_a_higher_recall_names_no_fastest_at_the_target():
    runs = [in_rounds("a", 100.0, 0.99), in_rounds("b", 80.0, 0.99)]
    assert "1.25 times as fast as b at a recall of 0.990 (95% interval" in said_of(runs)
    (answer,) = find_answers(runs, [], 0.95)
    assert "recall 0.990, well above the target" in answer.table.rows[0][-1]


def test_a_recall_above_the_target_that_other_queries_would_not_repeat_leaves_doubt():
    """Of 100 queries, 10 of 1,000 neighbours missed or 15 is chance, and as much as 25% in throughput."""
    own = {"recall_parts": []}
    assert "had only higher recalls)" in said_of(
        [in_rounds("a", 100.0, 0.99, **own), in_rounds("b", 80.0, 0.985, **own)]
    )


def test_what_doubt_about_recalls_hides_is_still_slower_as_it_was_measured():
    """Who missed nothing may miss one in a thousand, or in a million."""
    runs = {name: [in_rounds(name, rate, 1.0)] for name, rate in (("a", 6000.0), ("b", 600.0))}
    found = find_at_recall(runs, 0.95)
    slower = ratio_of_throughputs(found["a"], found["b"])
    assert 9 < slower.interval.low < 10 and not slower.is_fair and not slower.is_sure
    assert "had only higher recalls)" in said_of([run for of_one in runs.values() for run in of_one])


def test_what_is_moved_from_a_higher_recall_is_moved_along_its_own_line():
    steep = [
        in_rounds("b", rate, recall, name=f"b({recall})") for rate, recall in ((80.0, 0.991), (17.0, 0.996))
    ]
    assert "had only higher recalls)" in said_of([in_rounds("a", 100.0, 0.99), *steep])


def test_a_slower_base_at_a_higher_recall_is_brought_to_that_of_the_faster_one():
    slow, fast = (
        find_at_recall({name: [in_rounds(name, rate, recall)]}, 0.95)[name]
        for name, rate, recall in (("slow", 80.0, 0.991), ("fast", 100.0, 0.99))
    )
    ratios = ratio_of_throughputs(slow, fast), ratio_of_throughputs(fast, slow)
    assert [one.value for one in ratios] == pytest.approx([1 / 1.16, 1.16], rel=0.01)
    assert all(one.is_fair and one.recall == 0.99 for one in ratios)
