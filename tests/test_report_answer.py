"""What the top of a report says, on results that are made for it."""

import textwrap
from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.reporting.answer import find_answers, statements
from ann_benchmarks.results.at_recall import find_at_recall, ratio_of_throughputs
from ann_benchmarks.results.comparable import comparisons, conditions
from ann_benchmarks.views.choice import prefer
from ann_benchmarks.views.memory import MemoryNeed, memory_in_short, needs

from .report_data import GB, make_inserts, make_run, make_writes, steady


def said(runs, about, target=0.95, has_writes=False):
    found = [one.text for one in statements(runs, has_writes, target) if one.about.startswith(about)]
    return " ".join(found)


def told_memory(runs):
    """Return what the details say of memory: of the first index by column, and the notes."""
    table, notes = find_answers(runs, [], 0.95)[0].details
    return dict(zip(table.columns, table.rows[0], strict=True)), notes


BUILD = '["euclidean", {"M": %s, "form": "vector"}]'
ODD = ({"loop": "open"}, {"caches_dropped": True}, {"tier_cpus": 1}, {"distinct_queries": 1},
       {"query_order": "zipf:1.1"})  # fmt: skip


ROUNDS = {"rounds": "r1", "run_rounds": [1, 2, 3, 4]}
FEW_ROUNDS, OTHER_ROUNDS = ({"rounds": mark, "run_rounds": [1, 2, 3]} for mark in ("r1", "r2"))
ROUND = {"rounds": "r1", "run_rounds": [1]}
SLOWER = {name: 640 / 2**i for i, name in enumerate("abcdefg")}
BUSY = {"run_others_cpu": [0.3, 0.2, 0.01, 0.4]}
SCAN = {"rows": 13_000, "scanned_share": 1.0, "memory_bytes": GB, "index_kib": 1024.0 * 10}
SAID = [
    ([make_run("vchord", (200, 202, 198, 200), **ROUNDS), make_run("hnsw", (100, 101, 99, 100), **ROUNDS)],
     "In short",
     "Use vchord: the fastest with 1 client, 2 times as fast as hnsw (95% interval 1.61 to 2.49, 4 "
     "rounds)."),
    ([make_run("vchord", (200, 202, 198), **FEW_ROUNDS), make_run("hnsw", **FEW_ROUNDS)], "In short",
     "Use vchord: ahead with 1 client, 2 times as fast as hnsw (95% interval 1.23 to 3.25), measured in 3 "
     "rounds, too few to be certain."),
    ([make_run("vchord", (200, 202, 198, 200), **ROUNDS), make_run("hnsw", (20,), **ROUND)], "In short",
     "Use vchord: the fastest with 1 client, 10 times as fast as hnsw (95% interval 5.96 to 16.8, 1 "
     "round)."),
    ([make_run("vchord", (200,), **ROUND), make_run("hnsw", (100,), **ROUND)], "In short",
     "2 times as fast as hnsw (95% interval 1.16 to 3.45), measured in 1 round, too few to be certain."),
    ([make_run("vchord", (200, 202, 198), **FEW_ROUNDS), steady("hnsw", 100, **OTHER_ROUNDS)],
     "In short", ", measured in separate rounds, at different times."),
    ([make_run(name, (r, r * 1.01, r, r), **ROUNDS, **BUSY) for name, r in (("a", 200), ("b", 100))], "In",
     "Measure again when the machine is idle (--force): in 6 of 8 runs, other programs took over 10% of its"
     " CPUs. No index is named."),
    # Equally fast: the smallest is taken, or what a query takes of the server decides.
    ([make_run(name, (100 + i, 120, 80, 90), index_kib=kib, **ROUNDS)
      for i, (name, kib) in enumerate({"a": 1800.0, "b": 1000.0, "c": 1100.0}.items())], "In short",
     "Use c: as fast as any (within 1.3 times); 1.64 times smaller than a."),
    ([make_run(name, (100 + i, 120, 80, 90), run_index_blocks_hit=[blocks] * 4, **ROUNDS)
      for i, (name, blocks) in enumerate({"a": 100.0, "b": 150.0}.items())], "In short",
     "Use a: as fast as any (within 1.2 times); 1.5 times fewer blocks a query than b."),
    ([make_run(name, (100 + i, 120, 80, 90), **ROUNDS) for i, name in enumerate("ab")], "In short",
     "Use b or a: as fast as any (within 1.2 times); nothing else tells them apart."),
    ([make_run(name, (rate, rate * 1.01, rate, rate), clients=clients, **ROUNDS)
      for name, clients, rate in (("a", 1, 200), ("b", 1, 100), ("a", 32, 100), ("b", 32, 200))], "In short",
     "Use a for 1 client and b for 32 clients: the fastest with 1 client, 2 times as fast as b (95% "),
    # A load that only one index was measured under decides nothing.
    ([make_run(name, (rate, rate * 1.01, rate, rate), clients=clients, **ROUNDS)
      for name, clients, rate in (("a", 1, 100), ("b", 1, 200), ("a", 32, 300))], "In short",
     "Use b: the fastest with 1 client, 2 times as fast as a (95% interval 1.61 to 2.49, 4 rounds)."),
    ([make_run("a", clients=1), make_run("b", clients=32)], "In short",
     "No two indexes were measured under the same conditions. No index is named."),
    ([make_run("a", clients=1), make_run("b", clients=1, loop="open")], "In short",
     "Only a was measured under these conditions."),
    ([make_run("vchord", (200,))], "Not measured", "how certain this is (run.py --runs 3)"),
    ([make_run("a", tiers_left_out="memory does not decide below about 31,000 rows: table and")], "Cost",
     "built once, in 10 s, 2 MB on disk; memory does not decide below about 31,000 rows."),
    ([make_run("a", not_installed='{"b": "install b", "a": "install a", "c": "install b"}')], "Not measured",
     "writes; not installed: b and c (install b)."),
    ([make_run("vchord"), make_run("bad", recall=0.5)], "In short",
     "Only vchord reaches the recall."),
    ([make_run("fast", recall=0.9), make_run("good", recall=0.93)], "Recall",
     "No result reaches a recall of 0.95. The highest is 0.9300, by good-c1."),
    ([make_run(name, (r, r * 1.01, r, r), **ROUNDS) for name, r in SLOWER.items()], "In short",
     "a: the fastest with 1 client, 2 times as fast as b (95% interval 1.43 to 2.79, 4 rounds)."),
    ([make_run(name, (100 + i, 20, 180, 90), **ROUNDS) for i, name in enumerate("abcdefg")], "In short",
     "Use g, f, e, d or 3 others: as fast as any (within 1.4 times); nothing else tells them apart."),
    ([make_run("vchord", (200, 202, 198, 200), **ROUNDS, **SCAN), make_run("hnsw", (9, 10, 9, 9), **ROUNDS)],
     "Rows", "13,000, all of which a query reads: from about 220,000 on, its lead may be gone. Measure again "
     "at 130,000."),
    ([make_run("hnsw", **{**SCAN, "scanned_share": 0.1})], "Rows",
     "13,000; the index fills 1 GB of memory at about 1,300,000. Measure again at 130,000."),
    ([steady("a", 2, index_build_time=5.0)], "Cost", "built once, in 5 s, 2 MB on disk."),
    ([*(steady("hnsw", 900, **odd) for odd in ODD), make_run("hnsw")], "In short",
     "Only hnsw was measured."),
    ([make_run("hnsw", loop="open")], "Speed", "The throughput was given"),
    ([make_run("hnsw", tier_disk="gp3", tier_cpus=4, query_order="zipf:1.1", ram=1)], "Holds for",
     "recall 0.95 at k = 10, 1 client, with 4 CPUs, on the disk gp3, with 1 GB of available RAM "
     "and shared_buffers of 1 GB, queries in the order zipf:1.1."),
    ([make_run(name, clients=clients, ram=1, tier_disk=disk)
      for name in ("hnsw", "vchord") for clients, disk in ((1, "gp3"), (8, "nvme"))], "Holds for",
     "1 client, on the disk gp3, with 1 GB of available RAM and shared_buffers of 1 GB; "
     "8 clients, on the disk nvme, with"),
    ([make_run("vchord", clients=1), make_run("hnsw", clients=32)], "Not measured",
     "all indexes under the same conditions, with 1 client and 32 clients"),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "about", "expected"), SAID)
def test_what_is_said(runs, about, expected):
    assert expected in said(runs, about)


TOLD = [
    ([steady("vchord", 200, runs_disagree=True)], "In doubt", "its runs differ by more than noise"),
    ([make_run("a", recall=0.99), make_run("b")], "In doubt", "recall 0.990, well above the target"),
    ([make_run("vchord", (200,)), make_run("hnsw", (100,))], "In doubt",
     "single runs; measured once, at different times"),
    ([make_run("good"), make_run("bad", recall=0.5)], "In doubt", "its highest recall is 0.5000"),
    ([make_run("vchord"), *(steady("hnsw", m, build_arguments=BUILD % m) for m in (8, 16))], "Index",
     "hnsw (M=16)"),
    ([steady("a", 200, ram=1), steady("a", 300, ram="all"), steady("b", 100, ram="all")],
     "Times slower, 1 client", "3 (1.84"),
    ([steady("a", 2, index_kib=2048.0)], "Size", "2 MB"),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "column", "expected"), TOLD)
def test_the_table_has_a_row_an_index(runs, column, expected):
    (answer,) = find_answers(runs, [], 0.95)
    assert len(answer.table.rows) == len({run.series.family for run in runs})
    cells = [row[answer.table.columns.index(column)] for row in answer.table.rows]
    assert any(cell.startswith(expected) for cell in cells), cells


def test_the_sql_of_the_first_two_is_shown_unless_it_could_be_more():
    stored = {
        "build_sql": '["CREATE INDEX ON items (embedding);"]',
        "query_sql": '["SET a = 1;", "SELECT 1;"]',
    }
    odd = stored | {"query_sql": '["\\\\! true"]'}
    runs = [steady("a", 400, **stored), steady("b", 300, **odd), steady("c", 200), steady("d", 100, **stored)]
    (answer,) = find_answers(runs, [], 0.95)
    assert [(one.name, one.query) for one in answer.recipes] == [("a", "SET a = 1;\nSELECT 1;")]


def memory_of(rates, name="hnsw", **attrs):
    """Return results on tiers of these amounts of RAM in GB."""
    return [steady(name, rate, ram=ram, **attrs) for ram, rate in rates.items()]


def test_the_memory_from_which_on_most_of_the_throughput_is_there():
    runs = memory_of({1: 10, 2: 85, 4: 60, 8: 90, 16: 99, "all": 100}, index_kib=4.0 * GB / 1024)
    (need,) = needs(runs, 0.95)
    assert (need.ram, need.perhaps, need.least, need.index_size) == (None, 2 * GB, GB, 4 * GB)
    row, notes = told_memory(runs)
    assert (row["Index"], row["Least RAM"]) == ("hnsw", "2 GB to more than measured")
    assert row["Kept with the least"] == "85% (55% to 133%)"
    assert "noise" not in notes and "No tier had less" not in notes
    assert "The tiers were measured once, at different times" in notes


def test_the_least_memory_of_all_is_judged_too():
    hnsw = memory_of({1: 10, 2: 90, "all": 100})
    both = [*hnsw, *memory_of({1: 190, 2: 199, "all": 200}, "vchord")]
    assert "With 1 GB of RAM, the least measured for all: the same index, ahead with 1 client, 19" in (
        said(both, "Holds for")
    )
    only_one_has_less = [*hnsw, *memory_of({2: 199, "all": 200}, "vchord")]
    assert "With 2 GB of RAM, the least measured for all" in said(only_one_has_less, "Holds for")
    assert said(only_one_has_less, "Cost").endswith("; no result with 1 GB.")


def test_tiers_with_plenty_are_as_good_as_all_memory():
    sizes = {"index_kib": 0.1 * GB / 1024, "table_size": 0.1 * GB / 1024}
    rates = {0.25: 30, 0.5: 85, 1: 97, 2: 75, 4: 102, "all": 130}  # 130: the machine was faster then
    (need,) = needs(memory_of(rates, **sizes), 0.95)
    assert (need.ram, need.perhaps, need.plenty) == (GB, 0.5 * GB, 4)
    row, notes = told_memory(memory_of(rates, **sizes))
    assert (row["Least RAM"], row["Times the index"]) == ("512 MB to 1 GB", "10")
    assert row["Kept with the least"].startswith("88% (")
    assert "Tiers with at least 4 times the index and the table count as all memory" in notes
    noisy, _ = told_memory(memory_of({1: 54, 2: 97, "all": 100}, **sizes))
    assert noisy["Least RAM"] == "1 GB"  # 54% is noise
    (unknown,) = needs(memory_of(rates, index_kib=sizes["index_kib"]), 0.95)
    assert (unknown.ram, unknown.plenty) == (None, 1)


def test_the_least_tier_that_suffices_and_the_one_that_noise_allows():
    in_rounds = {"rounds": "r", "run_rounds": [0, 1, 2, 3, 4]}
    sure = [
        make_run("hnsw", [rate] * 5, ram=ram, **in_rounds) for ram, rate in ((1, 95), (2, 97), ("all", 99))
    ]
    (need,) = needs(sure, 0.95)
    assert need.ram == need.perhaps == GB
    row, notes = told_memory(sure)
    assert (row["Least RAM"], row["Times the index"]) == ("1 GB", "512")
    assert row["Kept with the least"].startswith("96% (")
    assert "No tier had less RAM than the size of the index" in notes
    assert memory_in_short([need]) == (
        "at most 1 GB of RAM to keep 80% of the throughput, the least that was measured and more than the"
        " index: less may suffice"
    )
    torn = [*memory_of({2: 97, "all": 100}), make_run("hnsw", (60, 75, 90), ram=1)]
    (need,) = needs(torn, 0.95)
    assert (need.ram, need.perhaps) == (None, GB)


def test_all_memory_where_no_tier_suffices_and_the_most_where_none_has_all():
    assert told_memory(memory_of({1: 10, 2: 20, "all": 100}))[0]["Least RAM"] == "more than measured"
    row, notes = told_memory(memory_of({1: 10, 2: 90, 4: 100}))
    assert "2 GB" in row["Least RAM"]
    assert "The most that was measured, 4 GB, stands for all memory." in notes
    with_machine = [*memory_of({1: 10, 2: 90, 4: 100}), steady("hnsw", 400)]
    assert told_memory(with_machine)[0]["Least RAM"] == "more than measured"


def test_nothing_is_left_open_where_all_was_measured():
    tiers = [make_run("hnsw", ram=ram, clients=c) for ram in (1, "all") for c in (1, 32)]
    assert said(tiers, "Not measured", has_writes=True) == ""


def test_each_dataset_has_its_own_answer():
    runs = [make_run("hnsw"), make_run("hnsw", dataset="other")]
    found = find_answers(runs, [make_writes()], 0.95)
    assert [(answer.dataset, answer.count) for answer in found] == [("mine", 10), ("other", 10)]
    open_questions = [s.text for answer in found for s in answer.statements if s.about == "Not measured"]
    assert ["writes" in text for text in open_questions] == [False, True]


def test_more_writers_may_add_nothing():
    (slower,) = find_answers([], [make_inserts(1, 1000), make_inserts(2, 900)], 0.95)[0].statements
    assert slower.text.endswith("from 1 writer and no more from up to 2.")
    (noise,) = find_answers([], [make_inserts(1, 1000), make_inserts(2, 1020)], 0.95)[0].statements
    assert "and no more beyond noise from up to 2 (ratio 1.02, 95% interval 0.6" in noise.text


def test_indexes_during_the_same_writes_are_compared():
    slow, fast = make_writes(), make_writes("vchord()", "vchord")
    before, writing, *after = fast.phases
    queries = replace(writing.queries, per_second=900.0, p99=0.002)
    writes = {"insert": replace(writing.writes["insert"], p50=0.0004, per_second=40.0)}
    writing = replace(writing, queries=queries, writes=writes)
    fast = replace(fast, phases=[before, writing, *after])
    first, *others = find_answers([], [slow, fast], 0.95)[0].statements
    assert first.about == "Writes"
    assert first.text == (
        "During 150 writes/s from 4 writers, with 32 clients querying, vchord() answers 900 queries/s"
        " (p99 2 ms, an insert takes 0.4 ms, only 40 writes/s were made)"
        " and hnsw(M=16) 300 (p99 5 ms, an insert takes 1 ms), a factor of 3 (95% interval 1.92 to"
        " 4.7, measured once, at different times)."
    )
    assert [one.about for one in others] == ["Writes, hnsw(M=16)", "Writes, vchord()"]
    other_rate = replace(fast, rate=10.0)
    assert "Writes" not in [one.about for one in find_answers([], [slow, other_rate], 0.95)[0].statements]


def test_results_of_ann_benchmarks_which_know_nothing_of_clients():
    run = make_run("annoy")
    old = type(run)("mine", 10, "angular", Series("annoy"), "annoy(100)", run.metrics, {"run_count": 3})
    assert (old.series.family, conditions(old)) == ("annoy", "")
    assert said([old], "In short") == "Only annoy was measured."
    ours = make_run("vchord", (200, 202, 198), clients=None)
    assert ", a file of ann-benchmarks by its best run alone" in said([old, ours], "In short")
    (answer,) = find_answers([old, ours], [], 0.95)
    assert "a file of ann-benchmarks by its best run alone" in answer.table.rows[1][-1]


def test_the_machine_as_it_is_goes_before_a_tier():
    runs = [make_run("hnsw", ram="all"), make_run("hnsw")]
    (comparison,) = comparisons(runs, 0.95)
    assert comparison.place_text == ""


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_ratio_holds_the_truth_at_least_as_often_as_it_says(seed):
    random = np.random.default_rng(seed)
    hits = 0
    for _ in range(200):
        starts = random.normal(1, 0.03, 2)  # what another start of the server does to all runs of a result
        first, second = starts[0] * random.normal(120, 6, 5), starts[1] * random.normal(100, 10, 5)
        found = find_at_recall({"a": [make_run(rates=first)], "b": [make_run(rates=second)]}, 0.95)
        low, high = ratio_of_throughputs(found["a"], found["b"]).interval
        hits += low <= 1.2 <= high
    assert hits / 200 >= 0.95


@pytest.mark.parametrize("runs", [runs for runs, *_ in SAID if "rounds" not in runs[0].attrs])
def test_no_factor_is_said_without_how_it_was_measured(runs):
    for one in statements(runs, False, 0.95):
        if "times as fast" in one.text:
            assert "measured once, at different times" in one.text


def test_the_short_answer_says_which_memory_noise_leaves_open() -> None:
    """An algorithm has one sentence for all numbers of clients: of the one with which it needs the most."""
    mb = 1 << 20

    def need(algorithm: str, clients: int, ram: int | None, perhaps: int | None) -> MemoryNeed:
        sizes = [None if size is None else size * mb for size in (ram, perhaps)]
        return MemoryNeed(algorithm, clients, *sizes, least=96 * mb)

    kept = "of RAM to keep 80% of the throughput"
    assert memory_in_short([need("a", 1, 768, 768), need("a", 16, 384, 384)]) == f"at most 768 MB {kept}"
    both = [need("b", 1, 768, 384), need("b", 16, 384, 384)]
    assert memory_in_short(both) == f"at most 768 MB {kept}, perhaps 384 MB"
    assert memory_in_short([need("a", 16, None, 768)]) == f"perhaps 768 MB {kept}, which is not certain"
    assert memory_in_short([need("c", 1, 384, 384), need("c", 16, None, None)]) == (
        "more RAM than any reduced amount measured, to keep 80% of the throughput"
    )


def test_less_memory_is_said_only_where_noise_does_not_allow_as_little():
    run = {name: make_run(name, (100, 120, 80, 90), **ROUNDS) for name in "ab"}
    (compared,) = comparisons(run.values(), 0.95)
    unsure = [MemoryNeed("a", 1, GB, GB, least=GB), MemoryNeed("b", 1, None, GB, least=GB)]
    assert prefer([*"ab"], [compared], unsure) == ("a", [])
    sure = [unsure[0], replace(unsure[1], perhaps=2 * GB)]
    assert prefer([*"ba"], [compared], sure) == ("a", ["2 times less memory than b"])


def test_the_first_screen_is_six_lines_of_a_hundred_columns():
    names = ("pgvector_hnsw", "pgvector_hnsw_halfvec", "pgvector_ivfflat", "vchord", "vchord_halfvec")
    sizes = (25.4, 14.5, 20.3, 23.0, 12.8)
    noted = {
        **SCAN,
        "tiers_left_out": "memory does not decide below about 31,000 rows: table and index take",
        "not_installed": '{"pgvectorscale": "install.py --local --algorithm pgvectorscale"}',
    }
    runs = [
        make_run(name, (rate, rate * 1.2, rate * 0.8, rate), clients=clients,
                 run_index_blocks_hit=[6000.0 / size] * 4,
                 **{**ROUNDS, **noted, "index_kib": 1024 * size})
        for name, size in zip(names, sizes, strict=True)
        for clients, rate in ((1, 1000.0), (16, 4000.0))
    ]  # fmt: skip
    (answer,) = find_answers(runs, [], 0.95)
    lines = [line for one in answer.statements for line in textwrap.wrap(f"- {one.about}: {one.text}", 100)]
    assert len(lines) <= 6, lines
    assert "QPS" not in str(lines) and "queries/s" not in str(lines)
