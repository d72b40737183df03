"""The smallest value that reaches a recall, searched for on curves that are known."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.places import SAME_INDEX
from ann_benchmarks.load.request import Objective
from ann_benchmarks.load.search import CLOSE_ENOUGH, FARTHEST, Found, highest_rate, smallest_reaching
from ann_benchmarks.measure.target import TargetSearch

STEP = 1 / 10_000  # 1,000 queries for 10 neighbours
EF_SEARCH = range(10, 1001)


class Index:
    """A recall for each value; remembers which were measured."""

    def __init__(self, recall_of: Callable[[float], float]) -> None:
        self.recall_of, self.asked = recall_of, []

    def __call__(self, value: float) -> float:
        self.asked.append(value)
        return self.recall_of(value)


def search(target: float, values: Sequence[int], recall_of: Callable[[float], float]) -> tuple[Found, Index]:
    index = Index(recall_of)
    found = smallest_reaching(target, values, index, STEP)
    assert found.trials == len(index.asked) == len(set(index.asked))  # nothing is measured twice
    assert found.value in index.asked
    assert found.recall == recall_of(found.value)
    return found, index


def random_curve(rng: np.random.Generator, values: Sequence[int]) -> Callable[[float], float]:
    """A recall that grows as those of indexes do: nearly a straight line of logit by logarithm, with bends.

    It is rounded as a mean over 1,000 queries for 10 neighbours is.
    """
    at = np.log(np.asarray(values, dtype=float))
    slopes = rng.uniform(0.3, 3.0) * rng.lognormal(0, 0.5, 8)
    knots = np.linspace(at[0], at[-1], 9)
    heights = np.concatenate([[0], np.cumsum(slopes * np.diff(knots))]) + rng.uniform(-4, 3)
    recalls = np.round(1 / (1 + np.exp(-np.interp(at, knots, heights))), 4)
    by_value = dict(zip(values, recalls.tolist(), strict=True))
    return by_value.__getitem__


def smallest(target: float, values: Sequence[int], recall_of: Callable[[float], float]) -> int | None:
    return next((value for value in values if recall_of(value) >= target), None)


@pytest.mark.parametrize(
    ("values", "most"), [(EF_SEARCH, 12), (range(1, 33), 8), (range(1, 65), 9), (range(1, 4001), 11)]
)
def test_random_curves_are_solved_within_1_percent_by_few_trials(values: Sequence[int], most: int):
    rng, trials = np.random.default_rng(3), []
    for _ in range(400):
        recall_of = random_curve(rng, values)
        target = float(rng.choice([0.8, 0.9, 0.95, 0.98, 0.99]))
        found, _ = search(target, values, recall_of)
        best = smallest(target, values, recall_of)
        assert found.is_reached == (best is not None)
        if best is None:
            assert found.value == values[-1]
            continue
        assert found.recall >= target
        assert best <= found.value <= max(best, best * 1.01 + 1)
        if found.value <= 100:
            assert found.value == best
        trials.append(found.trials)
    assert np.median(trials) <= 6
    assert np.quantile(trials, 0.95) <= most


def test_a_curve_as_of_hnsw_takes_a_handful():
    found, index = search(0.95, EF_SEARCH, lambda ef: round(1 - 0.9 * (ef / 10) ** -1.3, 4))
    assert found == Found(93, 0.9504, True, found.trials)
    assert found.trials <= 5
    assert 92 in index.asked  # which does not reach it


def test_what_no_value_reaches_is_told_with_the_largest():
    found, _ = search(0.95, EF_SEARCH, lambda ef: 0.8)
    assert (found.value, found.recall, found.is_reached) == (1000, 0.8, False)
    assert found.trials <= 6
    found, _ = search(0.999, range(1, 101), lambda probes: round(1 - 1 / (probes + 1), 4))
    assert (found.value, found.is_reached) == (100, False)


@pytest.mark.parametrize("recall", [0.5, 0.9, 1.0])
def test_a_range_of_one_value(recall: float):
    found, _ = search(0.9, [7], lambda value: recall)
    assert found == Found(7, recall, recall >= 0.9, 1)


@pytest.mark.parametrize("values", [[3, 9], [1, 10, 100], range(1, 6)])
def test_short_ranges_are_solved_exactly(values: Sequence[int]):
    for place in range(len(values)):
        found, _ = search(0.9, values, lambda value, place=place: 0.95 if value >= values[place] else 0.2)
        assert (found.value, found.is_reached) == (values[place], True)


@pytest.mark.parametrize("edge", [10, 11, 55, 100, 101, 500, 999, 1000])
@pytest.mark.parametrize("levels", [(0.0, 1.0), (0.94, 0.95), (0.9499, 0.9501)])
def test_plateaus_end_where_they_end(edge: int, levels: tuple[float, float]):
    found, index = search(0.95, EF_SEARCH, lambda ef: levels[int(ef >= edge)])
    assert edge <= found.value <= edge * 1.01
    assert found.is_reached
    assert len(index.asked) <= 30


def test_a_target_of_all_neighbours():
    found, _ = search(1.0, EF_SEARCH, lambda ef: min(1.0, round(0.8 + ef / 1000, 4)))
    assert 200 <= found.value <= 202
    assert found.is_reached


def test_values_may_be_anything_that_is_in_order():
    def recall_of(value: tuple[int, int]) -> float:
        return value[0] * value[1] / 100

    pairs = [(1, 10), (2, 10), (5, 10), (10, 9), (10, 10)]
    assert smallest_reaching(0.5, pairs, recall_of, STEP).value == (5, 10)


def test_a_curve_that_falls_a_little_does_not_make_it_go_on_forever():
    rng = np.random.default_rng(0)
    noise = dict(zip(EF_SEARCH, rng.normal(0, 0.01, 991), strict=True))
    found, index = search(0.95, EF_SEARCH, lambda ef: 1 - 0.9 * (ef / 10) ** -1.3 + noise[ef])
    assert found.is_reached
    assert found.recall >= 0.95
    assert len(index.asked) <= 16


def test_what_a_search_owes_to_its_queries_goes_with_the_value_that_it_found():
    index = dict.fromkeys(SAME_INDEX, "the same")
    easy = np.random.default_rng(0).random(500)  # up to which value each query is answered in vain
    plugin = SimpleNamespace(ef=0, search_range=lambda count: searched)
    plugin.set_query_arguments = lambda ef: setattr(plugin, "ef", ef)
    searched = SimpleNamespace(parameter="ef", values=range(1, 1001), arguments=lambda ef: [ef])
    subject = SimpleNamespace(plugin=plugin, count=1, quiet=True, queries=easy)

    def recalls(answers):
        return (answers > easy).astype(float)

    def answers():
        return np.full(500, plugin.ef / 1000)

    search = TargetSearch(subject, 0.9, recalls, answers, print)
    _, first = search.measure(lambda: [answers()], lambda runs: runs[0], (), index)
    assert first["target_trials"] > 1 and first["target_overstated"] > 0
    _, second = search.measure(lambda: [answers()], lambda runs: runs[0], [index | first], index)
    assert second == first | {"target_trials": 0}


@pytest.mark.parametrize(("recall", "stored"), [(0.7, {"target_missed": 0.9}), (0.9, {})])
def test_an_algorithm_without_a_choice_that_misses_the_target_is_said_to(
    recall: float, stored: dict[str, float]
):
    subject = SimpleNamespace(plugin=SimpleNamespace(search_range=lambda count: None), count=1)
    each, said = np.full(4, recall), list[object]()
    search = TargetSearch(subject, 0.9, lambda answers: answers, lambda: each, said.append)
    runs, facts = search.measure(lambda: [each], lambda runs: runs[0], (), {})
    assert len(runs) == 1 and facts == stored
    assert said == (["recall 0.9 is not reached, only 0.7000 without a choice"] if stored else [])


# The highest rate that keeps an objective, searched for on servers whose limit is known.


CLOSED = 1000.0  # queries a second


class Limited:
    """Keeps the objective up to a rate; remembers which ones were tried."""

    def __init__(self, limit: float) -> None:
        self.limit, self.tried = limit, []

    def __call__(self, rate: float) -> bool:
        self.tried.append(rate)
        return rate <= self.limit


@pytest.mark.parametrize("share", [0.0021, 0.01, 0.1, 0.3, 0.499, 0.5, 0.7, 0.9, 0.999, 1.0, 1.2, 1.7])
def test_the_rate_is_found_within_5_percent(share: float):
    server = Limited(share * CLOSED)
    rate, trials = highest_rate(server, CLOSED)
    assert server.limit / 1.0501 <= rate <= server.limit
    assert rate in server.tried
    assert trials == len(server.tried) == len(set(server.tried))


def test_it_takes_few_trials():
    shares = np.random.default_rng(0).uniform(0.2, 1.05, 200)
    assert max(highest_rate(Limited(share * CLOSED), CLOSED)[1] for share in shares) <= 8
    shares = np.logspace(-4, 5, 200)
    assert max(highest_rate(Limited(share * CLOSED), CLOSED)[1] for share in shares) <= 24


@pytest.mark.parametrize("share", [1.04, 1.06, 1.5, 3.0, 10.0, 77.0, 999.0])
def test_it_goes_on_beyond_the_closed_loop_which_may_have_been_disturbed(share: float):
    server = Limited(share * CLOSED)
    rate, _ = highest_rate(server, CLOSED)
    assert server.limit / 1.0501 <= rate <= server.limit
    assert server.tried[:3] == pytest.approx([CLOSED / 2, CLOSED, CLOSED * CLOSE_ENOUGH])
    # A rate that a server cannot nearly keep costs memory for its arrivals, and time.
    assert max(server.tried) <= max(2 * server.limit, CLOSED * CLOSE_ENOUGH * 1.0001)


def test_an_objective_that_is_never_kept_has_no_rate():
    server = Limited(0)
    rate, trials = highest_rate(server, CLOSED)
    assert rate is None
    assert trials == len(server.tried) <= 10
    assert CLOSED / FARTHEST / 2 < min(server.tried) < CLOSED / FARTHEST


def test_where_every_rate_keeps_it_the_search_ends_far_beyond_the_closed_loop():
    """As with a plug-in that computes its latencies; a real one is late when clients are."""
    server = Limited(np.inf)
    rate, trials = highest_rate(server, CLOSED)
    assert rate == max(server.tried)
    assert FARTHEST * CLOSED < rate <= 2 * FARTHEST * CLOSED
    assert trials == len(server.tried) <= 17
    steps = np.diff(np.log(server.tried)) / np.log(CLOSE_ENOUGH)
    assert steps[1:5] == pytest.approx([1, 2, 4, 8])  # small first: hardly ever is it far beyond
    assert np.exp(steps[5:] * np.log(CLOSE_ENOUGH)) == pytest.approx(2)


def test_a_rate_that_was_not_kept_is_never_returned():
    rng = np.random.default_rng(1)
    for _ in range(200):
        told: dict[float, bool] = {}

        def noisy(rate: float, told: dict[float, bool] = told) -> bool:
            told[rate] = bool(rng.random() < 1 / (1 + (rate / 600) ** 8))
            return told[rate]

        rate, trials = highest_rate(noisy, CLOSED)
        assert trials == len(told)
        assert rate is None or told[rate]


@pytest.mark.parametrize(
    ("text", "percentile", "seconds"),
    [("p99:50ms", "p99", 0.05), ("p50:200us", "p50", 2e-4), ("p95:1.5s", "p95", 1.5),
     ("p99.9:2ms", "p999", 2e-3), ("p999:2ms", "p999", 2e-3)],
)  # fmt: skip
def test_an_objective_is_read(text: str, percentile: str, seconds: float):
    objective = Objective.parse(text)
    assert (objective.percentile, objective.seconds) == (percentile, pytest.approx(seconds))
    assert str(objective) == text


@pytest.mark.parametrize(
    "text", ["", "p99", "50ms", "p99:50", "p99:ms", "p99:0ms", "p99:-1ms", "p98:50ms", "p99:1e3ms",
             "p99:50 ms", "p99:50m", "p99:infs"]
)  # fmt: skip
def test_what_is_no_objective_is_an_error(text: str):
    with pytest.raises(UserError, match="is not an objective: give a percentile and a time, such as"):
        Objective.parse(text)


def test_it_is_kept_by_the_percentile_and_not_by_the_mean():
    latencies = np.array([0.001] * 98 + [0.1] * 2)
    assert Objective.parse("p95:1ms").is_kept(latencies)
    assert Objective.parse("p50:1ms").is_kept(latencies)
    assert not Objective.parse("p99:50ms").is_kept(latencies)
    assert Objective.parse("p99:100ms").is_kept(latencies)
