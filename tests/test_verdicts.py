"""What reports and compare.py say is no surer than what was measured, by simulation and by cases."""

import math
from functools import partial

import numpy as np
import pytest

from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import are_in_blocks
from ann_benchmarks.comparing.verdicts import NOT_SLOWER, SLOWER, UNDECIDED, Criteria, status, warnings
from ann_benchmarks.load.search import overstatement, smallest_reaching
from ann_benchmarks.reporting.answer import find_answers
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.results.measurement import recall_parts
from ann_benchmarks.run.race import comparison
from ann_benchmarks.statistics.differences import difference_of_pairs
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.statistics.speeds import ABOVE, AT, BETWEEN, EXACT, WITHIN, Speed, find_standing
from benchmarks import statements as statements_claim
from benchmarks.drawn import repetition, results, summary, turns, wandering
from benchmarks.harness import count_shares
from benchmarks.verdicts import FASTER, raced

from .report_data import make_run

SETS = 60  # of each simulation, in which 3 wrong ones are expected, and 7 are rare
MOST_WRONG = 7 / SETS


def said(runs, target=0.95):
    """Return what the short answer says, and the cells of the table."""
    (answer,) = find_answers(runs, [], target)
    columns = answer.table.columns
    cells = [f"{name}: {row[place]}" for row in answer.table.rows for place, name in enumerate(columns)]
    return " ".join([answer.statements[0].text, *cells])


def measured(rate, recall, half=0.006, name="a", **attrs):
    bounds = {"recall_low": recall - half, "recall_high": min(recall + half, 1.0)}
    rates = (rate, rate * 1.001, rate * 0.999)
    return make_run(name, rates, recall=recall, name=f"{name}({rate})", **bounds, **attrs)


def test_two_hits_of_5000_do_not_reverse_the_answer():
    runs = [measured(1000, 0.9498), measured(700, 0.969), measured(950, 0.9502, name="b")]
    text = said(runs)
    assert "In doubt: between recall 0.950 and 0.969" in text and "Queries/s, 1 client: 997" in text
    assert "Use a or b: as fast as any (within 1" in text
    assert "Times slower, 1 client: 1.05 (0." in text


def speed(rate, recall, half=0.005, index="", **more):
    return Speed(index, recall, Interval(recall - half, min(recall + half, 1.0)), [rate] * 3, **more)


@pytest.mark.parametrize(
    ("points", "reach", "rate"),
    [
        ([(1000, 0.90), (500, 0.975)], BETWEEN, 1000 / 2**0.5),  # half as many missed each way
        ([(1000, 0.90), (800, 0.95), (500, 0.975)], AT, 800),
        ([(800, 0.948)], WITHIN, 800 * (0.05 / 0.052) ** 0.7),
        ([(800, 0.96)], AT, 800 * (0.05 / 0.04) ** 0.7),
        ([(800, 0.99)], ABOVE, 800),
        ([(50, 1.0)], ABOVE, 50),  # by chance, among so many queries
    ],
)
def test_the_throughput_at_a_recall(points, reach, rate):
    found = find_standing([speed(*point) for point in points], 0.95)
    assert found.reach == reach
    assert math.exp(found.level) == pytest.approx(rate, rel=1e-6)
    assert find_standing([speed(800, 0.93)], 0.95) is None


def test_who_was_measured_at_a_higher_recall_only_may_be_as_fast():
    text = said([measured(1000, 0.95), measured(500, 0.99, name="b")])
    assert "Use a or b: as fast as any (others had only higher recalls)" in text


def test_exact_is_an_algorithm_and_not_a_recall_of_1_among_some_queries():
    fast, by_chance = measured(1000, 0.95), measured(50, 1.0, name="b")
    assert "Use a or b: as fast as any (others had only higher recalls)" in said([fast, by_chance])
    text = said([fast, measured(50, 1.0, name="scan", is_exact=True)])
    assert "Use a: ahead with 1 client, 20 times as fast as scan" in text and "In doubt: exact" in text
    for recall, target in ((1.0, 0.95), (0.9998, 0.9999)):  # ties that are rounded apart look like misses
        found = find_standing(
            [speed(50, recall, is_exact=True), speed(60, recall - 1e-4, is_exact=True)], target
        )
        assert found.reach == EXACT and found.estimate.value == pytest.approx(60)


def test_without_a_miss_nobody_knows_how_rare_misses_are():
    parts = {"recall_parts": [1.0] * 50}
    runs = [measured(1000, 1.0, **parts), measured(700, 1.0, name="b", **parts)]
    text = said(runs)
    assert "as fast as any" in text


def test_of_two_indexes_the_one_that_is_faster_at_the_recall_stands():
    small = [speed(900, 0.93, index="M=8"), speed(300, 0.97, index="M=8")]
    large = [speed(700, 0.94, index="M=16"), speed(600, 0.96, index="M=16")]
    assert find_standing([*small, *large], 0.95).chosen[0] in (2, 3)


def test_queries_that_are_hard_for_both_contenders_add_no_doubt():
    recalls = np.random.default_rng(1).choice([1.0, 0.9, 0.7], 1000, p=[0.7, 0.2, 0.1])
    parts = recall_parts(recalls)
    recall = float(recalls.mean())
    runs = [
        measured(100, recall, name=name, recall_parts=parts, rounds="r", run_rounds=[1, 2, 3])
        for name in "ab"
    ]
    alike = [Comparison(1, some, recall).contest.ratios()["b"] for some in (runs, [without(r) for r in runs])]
    widths = [one.interval.high / one.interval.low for one in alike]
    assert widths[0] < widths[1]


def without(run):
    attrs = {name: value for name, value in run.attrs.items() if name != "recall_parts"}
    return type(run)(run.dataset, 10, run.distance, run.series, run.parameters, run.metrics, attrs)


@pytest.mark.parametrize("process", ["10.0%", "sessions"])
@pytest.mark.parametrize("part", [*statements_claim.PARTS])
def test_statements_of_every_kind_are_rarely_wrong(part, process):
    rng = np.random.default_rng(7)
    draw = partial(statements_claim.draw_levels, rng, **statements_claim.PROCESSES[process])
    for title, judge in statements_claim.PARTS[part](rng, draw).items():
        assert count_shares(SETS, lambda j=judge: (j(),))[0] <= MOST_WRONG, title


def test_what_was_measured_once_is_ahead_at_most():
    rng = np.random.default_rng(1)
    rates = rng.normal(0, 0.03, (2, 5)) + np.array([[math.log(7)], [0]])
    assert "ahead with" in summary(results([1, 1], rates))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [2, 6])
@pytest.mark.parametrize("noise", [0.02, 0.09])
def test_races_name_no_fastest_where_none_is(noise, number):
    rng = np.random.default_rng(11)
    named, apart, _ = count_shares(SETS, lambda: raced(turns(rng, number, 100, noise, 0.98)))
    assert named <= apart <= MOST_WRONG


def factor_of_best(runs):
    """Return the factor between an algorithm's best index and the other algorithm's, which is as fast."""
    contest = Comparison(1, runs, 0.95).contest
    (found,) = contest.ratios().values()
    return found.value if next(iter(contest.standings)) == "a0" else 1 / found.value


@pytest.mark.parametrize("rounds", [8, 30])
def test_the_best_of_several_indexes_looks_no_faster_than_it_is(rounds):
    """All seven are equal; chosen and judged by the same rounds, the best of six is ahead by 4% in eight."""
    rng = np.random.default_rng(12)
    factors = [factor_of_best(results([6, 1], turns(rng, 7, rounds, 0.09, 0.98), 0.0)) for _ in range(150)]
    assert np.mean(factors) == pytest.approx(1, abs=0.01)


def test_the_first_by_noise_has_an_interval_and_no_factor():
    rng = np.random.default_rng(13)
    runs = results([1, 1], turns(rng, 2, 12, 0.09, 0.98))
    text = said(runs)
    assert "as fast as any (within" in text and "Times slower, 1 client: 0." in text
    (ratio,) = Comparison(1, runs, 0.95).contest.ratios().values()
    line = comparison("a", "b", ratio)
    assert line.startswith("a and b show no difference beyond noise (95% interval of the factor 0.")


def in_rounds(name, rates):
    return make_run(name, rates, rounds="r", run_rounds=[*range(len(rates))], recall_error=0.0)


def disturbed(loser=50.0):
    """A winner that was disturbed when the others were put out, the leader of that moment, and a loser."""
    rng = np.random.default_rng(6)

    def noisy(rate, rounds):
        return rate * np.exp(rng.normal(0, 0.02, rounds))

    first, second = noisy(105.0, 40), noisy(100.0, 40)
    first[:2] = 25.0, 60.0
    return [in_rounds("first", first), in_rounds("second", second), in_rounds("loser", noisy(loser, 4))]


def test_who_was_put_out_by_another_than_the_winner_is_behind_the_winner_too():
    runs = disturbed()
    ratios = Comparison(1, runs, 0.95).contest.ratios()
    assert ratios["second"].is_noise and ratios["loser"].is_sure
    assert ratios["loser"].through == "second" and ratios["loser"].rounds == 4
    assert 1 < ratios["loser"].interval.low < ratios["loser"].value < ratios["loser"].interval.high < 4
    assert said(runs).startswith("Use first or second: as fast as any (within")
    assert "Times slower, 1 client: 2.02 (1.14 to 3.58)" in said(runs)
    assert "In doubt: compared through second" in said(runs)
    assert comparison("first", "loser", ratios["loser"]).endswith(", through second)")


def test_what_two_ratios_do_not_show_is_not_said():
    ratios = Comparison(1, disturbed(loser=95.0), 0.95).contest.ratios().values()
    assert all(ratio.is_noise and not ratio.through for ratio in ratios)


def test_rounds_see_what_is_there():
    rng = np.random.default_rng(1)
    drawn = [turns(rng, 2, 48, 0.09, 0.98) + np.array([[2 * FASTER], [0]]) for _ in range(30)]
    assert np.mean(["the fastest with" in summary(results([1, 1], rates)) for rates in drawn]) > 0.8


def sides(order, slower=0.0):
    """Return the repetitions of A and of B in the order of a word such as AABB."""
    rng = np.random.default_rng(1)
    found = {"A": [], "B": []}
    for at, name in enumerate(order):
        level = -slower * (name == "B") + rng.normal(0, 0.01)
        found[name].append(repetition(len(found[name]), at, rng.normal(level, 0.01, 5)))
    return found["A"], found["B"]


@pytest.mark.parametrize(
    ("order", "is_in_blocks"),
    [
        ("AAABBB", True), ("BBBBBAAAAA", True), ("AABB", True), ("AAAAAB", True), ("AAABBBBA", True),
        ("ABABAB", False), ("ABBA", False), ("ABAB", False), ("AB", False), ("ABBABAABBA", False),
    ],
)  # fmt: skip
def test_blocks_are_recognised_by_their_times(order, is_in_blocks):
    assert are_in_blocks(*sides(order)) == is_in_blocks


def test_repetitions_in_blocks_fail_no_build():
    criteria = Criteria()
    for paired in (False, True):
        found = compare(*sides("AAAABBBB", slower=0.3), paired=paired)
        assert status(found, criteria) == UNDECIDED
        assert criteria.verdict("qps", found.metrics["qps"].mean) == "slower?"
        assert any("did not take turns" in text for text in warnings(found, criteria))
        assert status(compare(*sides("ABABABAB", slower=0.3), paired=paired), criteria) == SLOWER
        assert status(compare(*sides("ABABABAB"), paired=paired), criteria) == NOT_SLOWER


def test_compare_goes_round_by_round():
    rng = np.random.default_rng(3)
    drift = wandering(rng, 20, 0.98)
    a, b = sides("AB")
    for one, slower in ((a[0], 0.0), (b[0], 0.2)):
        rates = np.exp(drift - slower + rng.normal(0, 0.03, 20))
        one.attrs.update(run_seconds=(1 / rates).tolist(), rounds="r", run_rounds=list(range(20)))
    found = compare(a, b)
    mean = found.metrics["qps"].mean
    assert (mean.by, mean.is_sure) == ("rounds", True)
    assert mean.ratio == pytest.approx(math.exp(-0.2), rel=0.05)
    assert status(found, Criteria()) == SLOWER


def test_neighbouring_rounds_that_resemble_each_other_say_less():
    rng = np.random.default_rng(4)
    drawn = [wandering(rng, 30, 0.7) for _ in range(400)]
    wrong = [difference_of_pairs([0.0] * 30, list(one), "rounds").p < 0.05 for one in drawn]
    assert np.mean(wrong) < 0.12  # 0.36 by Student's test alone


def test_a_recall_that_was_searched_for_is_corrected():
    rng = np.random.default_rng(5)
    over, corrected = [], []
    for _ in range(60):
        hard = rng.normal(0, 0.9, (200, 1)) + rng.logistic(0, 0.8, (200, 10))
        tried = {}

        def recall_of(ef, hard=hard, tried=tried):
            tried[ef - 10] = (1.5 * math.log(ef / 10) - 0.3 + rng.normal(0, 0.3, hard.shape) > hard).mean(1)
            return float(tried[ef - 10].mean())

        found = smallest_reaching(0.95, range(10, 1001), recall_of, 1 / 2000)
        places = sorted(tried)
        by = overstatement(0.95, places, np.array([tried[place] for place in places]))
        other = rng.normal(0, 0.9, (20_000, 1)) + rng.logistic(0, 0.8, (20_000, 10))
        true = (1.5 * math.log(found.value / 10) - 0.3 + rng.normal(0, 0.3, other.shape) > other).mean()
        over.append(found.recall - true)
        corrected.append(found.recall - (by or 0.0) - true)
    assert abs(np.mean(corrected)) < abs(np.mean(over))
    assert overstatement(0.95, [3], np.ones((1, 10))) is None
