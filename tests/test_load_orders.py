"""Which query is asked next, and when queries arrive that nobody waits for."""

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.request import Load, QueryOrder, poisson_arrivals

ZIPF = QueryOrder("zipf", 1.1)


def by_order(order: QueryOrder, clients: int = 4, queries: int = 100, run: int = 0) -> list[list[int]]:
    return [numbers.tolist() for numbers in Load(clients, order=order).orders(queries, run)]


def test_each_client_asks_every_query_in_an_order_of_its_own():
    orders = by_order(QueryOrder())
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len(set(map(tuple, orders))) == 4


@pytest.mark.parametrize("order", [QueryOrder(), ZIPF])
def test_orders_are_the_same_again_and_others_in_another_run(order: QueryOrder):
    orders = by_order(order)
    assert by_order(order) == orders
    assert len(set(map(tuple, orders))) == len(orders)
    others = by_order(order, run=1)
    assert not any(own == other for own, other in zip(orders, others, strict=True))


def test_same_is_the_order_of_the_dataset_for_all():
    assert by_order(QueryOrder("same"), clients=3, queries=120) == [list(range(100))] * 3
    assert QueryOrder("same").numbers(5, 12, [0]).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


def test_single_is_the_first_query_again_and_again():
    assert by_order(QueryOrder("single"), clients=2) == [[0] * 100] * 2


@pytest.mark.parametrize("order", [QueryOrder(), QueryOrder("same"), ZIPF])
@pytest.mark.parametrize("seconds", [None, 3.0])
def test_only_the_first_queries_are_sent_with_distinct_queries(order: QueryOrder, seconds: float | None):
    load = Load(4, seconds=seconds, order=order, distinct=16, max_queries=None if seconds else 400)
    assert set(np.concatenate(load.orders(100, 0)).tolist()) == set(range(16))
    _, arriving = load.arrivals(100, 1000, 0)
    assert set(arriving.tolist()) == set(range(16))
    assert Load(1, distinct=200).sent(100) == 100


def test_further_than_through_all_of_them_a_client_goes_on_in_its_order():
    numbers = QueryOrder().numbers(10, 25, [3, 1]).tolist()
    assert sorted(numbers[:10]) == list(range(10))
    assert numbers[10:20] == numbers[:10]
    assert numbers[20:] == numbers[:5]


@pytest.mark.parametrize("skew", [0.5, 1.0, 1.1, 2.0])
def test_popularity_is_as_zipf_s_law_says(skew: float):
    queries, drawn = 200, 400_000
    counts = np.bincount(QueryOrder("zipf", skew).numbers(queries, drawn, [0, 0]), minlength=queries)
    shares = np.arange(1, queries + 1, dtype=float) ** -skew
    expected = drawn * shares / shares.sum()
    found = np.sort(counts)[::-1]
    often = expected > 2000  # 2% of noise at most
    assert found[often] == pytest.approx(expected[often], rel=0.1)
    # The chi-squared statistic of as many classes, which the sorting makes a little smaller.
    assert ((found - expected) ** 2 / expected).sum() < queries + 4 * np.sqrt(2 * queries)


def test_the_same_queries_are_popular_with_all_clients_and_not_the_first_of_the_dataset():
    popular = [
        np.argsort(-np.bincount(ZIPF.numbers(1000, 50_000, [run, client]), minlength=1000))[:5].tolist()
        for run in (0, 7)
        for client in (0, 1, 31)
    ]
    assert len(set(map(tuple, popular))) == 1
    assert popular[0] != [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("load", "length"),
    [(Load(32), 100), (Load(2), 500), (Load(3, max_queries=100), 34), (Load(2, max_queries=5000), 2500),
     (Load(2, seconds=1), 1000), (Load(2, seconds=1, order=ZIPF), 10_000), (Load(2, order=ZIPF), 500)],
)  # fmt: skip
def test_how_much_a_client_asks(load: Load, length: int):
    assert {len(order) for order in load.orders(1000, run=0)} == {length}
    assert len(load.orders(1000, run=0)) == load.clients


@pytest.mark.parametrize(
    ("text", "order"),
    [("same", QueryOrder("same")), ("shuffled", QueryOrder()), ("zipf:1.1", ZIPF),
     ("zipf:2", QueryOrder("zipf", 2.0))],
)  # fmt: skip
def test_an_order_is_read_and_written(text: str, order: QueryOrder):
    assert QueryOrder.parse(text) == order
    assert str(order) == text


@pytest.mark.parametrize(
    "text", ["", "random", "zipf", "zipf:", "zipf:x", "zipf:0", "zipf:-1", "zipf:nan", "zipf:inf", "same:1",
             "shuffled:", "single", "Same"]
)  # fmt: skip
def test_what_is_no_order_is_an_error(text: str):
    with pytest.raises(
        UserError, match="is not an order of queries: give same, shuffled, or zipf:S with S above"
    ):
        QueryOrder.parse(text)


def test_arrivals_come_at_the_rate_with_exponential_gaps():
    due = poisson_arrivals(500, 200, [1])
    assert len(due) == pytest.approx(100_000, abs=4 * np.sqrt(100_000))
    gaps = np.diff(due, prepend=0) * 500  # in means
    assert (gaps > 0).all()
    assert gaps.mean() == pytest.approx(1, abs=0.02)
    assert gaps.std() == pytest.approx(1, abs=0.02)
    for part in (0.5, 0.9, 0.99):
        assert np.quantile(gaps, part) == pytest.approx(-np.log(1 - part), rel=0.05)
    # Independent of each other: what came in one second says nothing of the next.
    in_a_second = np.bincount(due.astype(int), minlength=200)[:200]
    assert in_a_second.var() == pytest.approx(500, rel=0.5)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(("rate", "seconds"), [(1, 1), (10, 0.3), (1000, 3), (0.5, 40)])
def test_arrivals_end_with_the_time(rate: float, seconds: float):
    counts = []
    for seed in range(200):
        due = poisson_arrivals(rate, seconds, [seed])
        assert (np.diff(due) > 0).all()
        assert len(due) >= 1
        assert due[-1] < seconds
        counts.append(len(due))
    expected = rate * seconds
    expected += np.exp(-expected)  # one is due where none would come
    assert np.mean(counts) == pytest.approx(expected, abs=4 * np.sqrt(expected / 200))


def test_arrivals_are_the_same_again_and_others_in_another_run():
    load = Load(2, seconds=3, rate=50)
    due, numbers = load.arrivals(40, 50, run=0)
    assert (np.array(load.arrivals(40, 50, run=0)) == np.array((due, numbers))).all()
    assert len(due) == len(numbers)
    assert set(numbers) == set(range(40))
    assert load.arrivals(40, 50, run=1)[0][0] != due[0]
    assert load.arrivals(40, 100, run=0)[0][0] * 2 != due[0]  # not the same ones, only faster


def test_so_many_arrivals_as_queries_are_asked_for():
    counts = [len(Load(2, max_queries=400, rate=80).arrivals(40, 80, run)[0]) for run in range(100)]
    assert np.mean(counts) == pytest.approx(400, abs=4 * 20 / 10)
