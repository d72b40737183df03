"""What the top of a report says, on results that are made for it."""

from dataclasses import replace

import numpy as np
import pytest

from ann_benchmarks.reporting.answer import answers, statements
from ann_benchmarks.reporting.memory import needs
from ann_benchmarks.reporting.statements import ratio
from ann_benchmarks.results.comparable import comparisons, conditions, family
from ann_benchmarks.results.series import Series

from .report_data import GB, make_inserts, make_run, make_writes


def said(runs, about, target=0.95, has_writes=False):
    found = [one.text for one in statements(runs, has_writes, target) if one.about.startswith(about)]
    return " ".join(found)


def test_the_fastest_is_named_with_a_factor_and_its_interval():
    runs = [make_run("vchord", (200, 202, 198)), make_run("hnsw", (100, 101, 99))]
    text = said(runs, "Speed, 1 client")
    assert "vchord is the fastest: 200 queries/s" in text
    assert "vchord is 2 times as fast as hnsw (95% interval 1.77 to 2.26): hnsw answers 100 queries/s" in text
    assert "noise" not in text


def test_what_noise_explains_is_no_difference():
    runs = [make_run("vchord", (110, 130, 90)), make_run("hnsw", (100, 120, 80))]
    text = said(runs, "Speed, 1 client")
    assert "vchord and hnsw show no difference beyond noise" in text and "fastest" not in text


def test_the_third_is_told_apart_though_the_first_two_are_not():
    runs = [make_run("a", (110, 130, 90)), make_run("b", (100, 120, 80)), make_run("c", (10, 10.1, 9.9))]
    text = said(runs, "Speed")
    assert "a and b show no difference beyond noise" in text
    assert "a is 11 times as fast as c" in text


def test_single_runs_have_a_factor_and_no_interval():
    runs = [make_run("vchord", (200,)), make_run("hnsw", (100,))]
    text = said(runs, "Speed")
    assert "2 times as fast as hnsw (from single runs: noise is not ruled out)" in text
    assert "how sure the figures are" in said(runs, "Not measured")


def test_runs_that_disagree_are_told():
    runs = [make_run("vchord", (200, 202, 198), runs_disagree=True), make_run("hnsw", (100, 101, 99))]
    assert "The runs of vchord differ by more than noise" in said(runs, "Speed")


def test_one_client_and_the_most_of_them():
    runs = [
        make_run(name, (rate * c,) * 3, clients=c) for c in (1, 8, 32) for name, rate in (("a", 2), ("b", 1))
    ]
    told = [one.about for one in statements(runs, True, 0.95)]
    assert told[:3] == ["In short", "Speed, 1 client", "Speed, 32 clients"]
    assert "64 queries/s" in said(runs, "Speed, 32 clients")


def test_below_the_recall_nothing_counts():
    runs = [make_run("fast", (900, 901, 899), recall=0.9), make_run("good", (100, 101, 99), recall=0.96)]
    assert "good answers 100 queries/s" in said(runs, "Speed")
    assert said(runs, "Recall") == "0.95 was not reached by fast (highest: 0.9000)."
    nothing = said(runs, "Recall", target=0.99)
    assert nothing.startswith("No result reaches a recall of 0.99. The highest is 0.9600, of good-c1.")


def test_a_recall_far_above_the_target_is_told():
    runs = [make_run("a", recall=0.99), make_run("b", recall=0.951)]
    assert "recall 0.990, well above the target" in said(runs, "Speed")


def test_what_building_and_size_cost():
    runs = [
        make_run("vchord", (200, 202, 198), index_build_time=5.0, index_kib=1024.0),
        make_run("hnsw", (100, 101, 99), index_build_time=50.0, index_kib=2048.0),
    ]
    assert "vchord 5 s; hnsw 50 s, 10 times as long." in said(runs, "Building")
    assert said(runs, "Size") == "vchord 1 MB; hnsw 2 MB, 2 times as large."


def test_of_several_indexes_the_fastest_is_named_by_what_sets_it_apart():
    build = '["euclidean", {{"M": {}, "form": "vector"}}]'
    runs = [
        make_run("hnsw", (100, 101, 99), build_arguments=build.format(8), name="hnsw(M=8)"),
        make_run("hnsw", (200, 201, 199), build_arguments=build.format(16), name="hnsw(M=16)"),
        make_run("vchord", (300, 301, 299)),
    ]
    assert "hnsw (M=16) 10 s" in said(runs, "Building")


def test_rates_cold_starts_and_small_machines_are_not_compared():
    odd = [
        make_run("hnsw", (900, 901, 899), loop="open"),
        make_run("hnsw", (900, 901, 899), caches_dropped=True),
        make_run("hnsw", (900, 901, 899), tier_cpus=1),
        make_run("hnsw", (900, 901, 899), distinct_queries=1),
        make_run("hnsw", (900, 901, 899), query_order="zipf:1.1"),
    ]
    assert "hnsw answers 100 queries/s" in said([*odd, make_run("hnsw")], "Speed")


def test_where_everything_is_special_that_is_said():
    runs = [make_run("hnsw", tier_disk="gp3", tier_cpus=4, query_order="zipf:1.1", ram=1)]
    text = said(runs, "Speed")
    for expected in ("with 4 CPUs", "on the disk gp3", "with 1 GB of available RAM", "in the order zipf:1.1"):
        assert expected in text
    assert said([make_run("hnsw", loop="open")], "Speed").startswith("The throughput was given")


def test_different_tiers_are_not_compared():
    runs = [
        make_run("vchord", (200, 202, 198), ram=1),
        make_run("vchord", (300, 302, 298), ram="all"),
        make_run("hnsw", (100, 101, 99), ram="all"),
    ]
    text = said(runs, "Speed")
    assert (
        "with all memory and shared_buffers of 1 GB, vchord" in text and "vchord is 3 times as fast" in text
    )


def test_algorithms_that_never_met_are_said_not_to_have_been_compared():
    runs = [make_run("vchord", clients=1), make_run("hnsw", clients=32)]
    text = said(runs, "Not measured")
    assert "all of hnsw and vchord with 1 client under the same conditions" in text
    assert "with 32 clients" in text


def memory_of(rates, name="hnsw", **attrs):
    """Return results on tiers of these amounts of RAM in GB."""
    return [make_run(name, (rate, rate * 1.01, rate * 0.99), ram=ram, **attrs) for ram, rate in rates.items()]


def test_the_memory_from_which_on_most_of_the_throughput_is_there():
    runs = memory_of({1: 10, 2: 85, 4: 60, 8: 90, 16: 99, "all": 100}, index_kib=4.0 * GB / 1024)
    (need,) = needs(runs, 0.95)
    assert need.ram == 8 * GB and need.least == GB and need.index_size == 4 * GB
    text = said(runs, "Memory")
    assert text.startswith(
        "The least available RAM that keeps 80% of the throughput with all memory: hnsw 8 GB"
        " (2 times its index, 90% kept, less than half kept with 1 GB)."
    )
    assert "noise" not in text and "No tier had less" not in text


def test_the_answer_in_short():
    slow, fast = (100, 101, 99), (200, 202, 198)
    one = [make_run("hnsw", slow), make_run("vchord", fast), make_run("ivf", (199, 201, 200))]
    text = said(one, "In short")
    assert text == (
        "With 1 client, vchord and ivf show no difference beyond noise,"
        " and vchord is 2 times as fast as hnsw."
    )
    two = [*memory_of({1: 10, 2: 90, "all": 100}), *memory_of({1: 190, 2: 199, "all": 200}, "vchord")]
    assert said(two, "In short") == (
        "With 1 client, vchord is the fastest: 2 times as fast as hnsw."
        " To keep 80% of the throughput, vchord needs 1 GB of RAM; hnsw needs 2 GB of RAM."
        " With 1 GB of RAM, the least that was measured, and 1 client, vchord is the fastest:"
        " 19 times as fast as hnsw."
    )
    few_queries = [replace(run, series=replace(run.series, distinct_queries=32)) for run in two]
    assert said(few_queries, "In short") == said(two, "In short")
    assert "of 1 GB, asked 32 different queries, vchord is the fastest" in said(few_queries, "Speed")
    assert said([*few_queries, make_run("hnsw"), make_run("vchord")], "Memory") == ""
    only_one_has_less = [*memory_of({1: 10, 2: 90, "all": 100}), *memory_of({2: 199, "all": 200}, "vchord")]
    assert said(only_one_has_less, "In short").endswith(
        "With 2 GB of RAM, the least that was measured, and 1 client, vchord is the fastest:"
        " 2.21 times as fast as hnsw."
    )
    assert said([make_run("hnsw")], "In short") == ""


def test_tiers_with_plenty_are_as_good_as_all_memory():
    sizes = {"index_kib": 0.1 * GB / 1024, "table_size": 0.1 * GB / 1024}
    rates = {0.25: 30, 0.5: 85, 1: 97, 2: 75, 4: 102, "all": 130}  # 130: the machine was faster then
    (need,) = needs(memory_of(rates, **sizes), 0.95)
    assert need.ram == 0.5 * GB and need.plenty == 4 and need.half == 0.25 * GB
    text = said(memory_of(rates, **sizes), "Memory")
    assert "hnsw 512 MB (5 times its index, 88% kept, less than half kept with 256 MB)" in text
    assert "Tiers with at least 4 times the index and the table count as all memory" in text
    (unknown,) = needs(memory_of(rates, index_kib=sizes["index_kib"]), 0.95)
    assert unknown.ram is None and unknown.plenty == 1


def test_the_least_tier_that_suffices_and_the_one_that_noise_allows():
    (need,) = needs(memory_of({1: 95, 2: 97, "all": 100}), 0.95)
    assert need.ram == need.perhaps == GB
    text = said(memory_of({1: 95, 2: 97, "all": 100}), "Memory, 1 client")
    assert "hnsw 1 GB (512 times its index, the least that was measured, 95% kept)" in text
    assert "No tier had less RAM than the size of the index" in text
    torn = [*memory_of({2: 97, "all": 100}), make_run("hnsw", (60, 75, 90), ram=1)]
    (need,) = needs(torn, 0.95)
    assert (need.ram, need.perhaps) == (2 * GB, GB)
    assert "1 GB may suffice within noise" in said(torn, "Memory")


def test_all_memory_where_no_tier_suffices_and_the_most_where_none_has_all():
    assert "hnsw more than any reduced amount" in said(memory_of({1: 10, 2: 20, "all": 100}), "Memory")
    text = said(memory_of({1: 10, 2: 90, 4: 100}), "Memory")
    assert "2 GB" in text and "The most that was measured, 4 GB, stands for all memory." in text
    beside = [*memory_of({1: 10, 2: 90, 4: 100}), make_run("hnsw", (400, 401, 399))]
    assert "more than any reduced amount" in said(beside, "Memory")


def test_what_was_not_measured():
    alone = said([make_run("hnsw")], "Not measured")
    for expected in ("many clients (run.py --clients 1,32)", "how much memory is needed", "inserts, updates"):
        assert expected in alone
    tiers = [make_run("hnsw", ram=ram, clients=c) for ram in (1, "all") for c in (1, 32)]
    assert said(tiers, "Not measured", has_writes=True) == ""


def test_each_dataset_has_its_own_answer():
    runs = [make_run("hnsw"), make_run("hnsw", dataset="other")]
    found = answers(runs, [make_writes()], 0.95)
    assert [(answer.dataset, answer.count) for answer in found] == [("mine", 10), ("other", 10)]
    assert ["inserts" in said_last(answer, "Not measured") for answer in found] == [False, True]


def said_last(answer, about):
    return next(one.text for one in answer.statements if one.about == about)


def test_what_writes_do_is_told():
    records = [make_inserts(1, 1000), make_inserts(2, 1900), make_inserts(4, 1800), make_writes()]
    (answer,) = answers([], records, 0.95)
    first, second = answer.statements
    assert first.text == (
        "hnsw(M=16) takes 1,000 inserts/s from 1 writer and at most 1,900 from 2, 1.9 times as many."
    )
    assert second.about == "Writes, hnsw(M=16)"
    assert second.text == (
        "500 queries/s before, 300 during 150 writes/s, 400 after VACUUM and 550 after REINDEX;"
        " p99 5, 5, 5 and 5 ms; recall 0.960, 0.930, 0.940 and 0.960;"
        " index size 2 MB, 2.93 MB, 2.93 MB and 2.05 MB."
    )
    flat = answers([], [make_inserts(1, 1000), make_inserts(2, 900)], 0.95)[0].statements[0]
    assert flat.text.endswith("from 1 writer and no more from up to 2.")


def test_indexes_beside_the_same_writes_are_compared():
    slow, fast = make_writes(), make_writes("vchord()", "vchord")
    before, writing, *after = fast.phases
    queries = replace(writing.queries, per_second=900.0, p99=0.002)
    writes = {"insert": replace(writing.writes["insert"], p50=0.0004, per_second=40.0)}
    writing = replace(writing, queries=queries, writes=writes)
    fast = replace(fast, phases=[before, writing, *after])
    first, *others = answers([], [slow, fast], 0.95)[0].statements
    assert first.about == "Writes"
    assert first.text == (
        "During 150 writes/s from 4 writers, with 32 clients querying, vchord() answers 900 queries/s"
        " (p99 2 ms, an insert takes 0.4 ms, only 40 writes/s were made)"
        " and hnsw(M=16) 300 (p99 5 ms, an insert takes 1 ms), a factor of 3."
    )
    assert [one.about for one in others] == ["Writes, hnsw(M=16)", "Writes, vchord()"]
    other_rate = replace(fast, rate=10.0)
    assert "Writes" not in [one.about for one in answers([], [slow, other_rate], 0.95)[0].statements]


def test_results_of_ann_benchmarks_which_know_nothing_of_clients():
    run = make_run("annoy")
    old = type(run)("mine", 10, "angular", Series("annoy"), "annoy(100)", run.metrics, {"run_count": 3})
    assert (family(old), conditions(old)) == ("annoy", "")
    assert "annoy answers 101 queries/s" in said([old], "Speed, 1 client")


def test_the_machine_as_it_is_goes_before_a_tier():
    runs = [make_run("hnsw", ram="all"), make_run("hnsw")]
    (comparison,) = comparisons(runs, 0.95)
    assert comparison.where == ""


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_ratio_holds_the_truth_at_least_as_often_as_it_says(seed):
    random = np.random.default_rng(seed)
    hits = 0
    for _ in range(200):
        starts = random.normal(1, 0.03, 2)  # what another start of the server does to all runs of a result
        first, second = starts[0] * random.normal(120, 6, 5), starts[1] * random.normal(100, 10, 5)
        low, high = ratio(make_run(rates=first), make_run(rates=second)).interval
        hits += low <= 1.2 <= high
    assert hits / 200 >= 0.95
