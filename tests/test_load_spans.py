"""From what clients measured to throughput and latencies: on answers made by hand, arithmetic says what."""

from typing import Any

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load import spans
from ann_benchmarks.load.request import Load, QueryOrder, poisson_arrivals
from ann_benchmarks.load.spans import active_span, closed_loop, open_loop
from ann_benchmarks.results.remarks import remarks

from .client_answers import made_answers


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "usable_cores", lambda: 1)


def steady(queries: int, seconds: float, first: float = 0.0, pause: float = 0.0, cpu: float = 0.0) -> Any:
    """A client that waits `seconds` for each answer, and needs `pause` itself before it sends the next."""
    sent = first + (seconds + pause) * np.arange(queries)
    return made_answers(np.zeros(queries, dtype=int), sent, sent + seconds, cpu=cpu)


def as_told(sent: np.ndarray, answered: np.ndarray) -> Any:
    """A client of a closed loop."""
    return made_answers(np.zeros(len(sent), dtype=int), sent, answered)


def given(due: list[float], sent: list[float], answered: list[float], cpu: float = 0.0) -> Any:
    """A client of an open loop."""
    return made_answers(np.arange(len(due)), np.array(sent), np.array(answered), np.array(due), cpu)


def test_throughput_and_latencies_of_a_closed_loop():
    run = closed_loop([steady(1000, 0.01), steady(500, 0.02)], {"seen": 1})
    assert run.facts["active_seconds"] == pytest.approx(10)
    assert 1 / run.seconds_per_query == pytest.approx(150)  # 100 of 10 ms and 50 of 20 ms
    assert np.percentile(run.times, 50) == pytest.approx(0.01)
    assert np.percentile(run.times, 90) == pytest.approx(0.02)
    assert run.facts["loop"] == "closed"
    assert run.facts["queries_counted"] == run.facts["queries_asked"] == len(run.times) == 1500
    assert run.facts["clients_waiting_share"] == pytest.approx(1)
    assert run.facts["seen"] == 1
    assert not run.facts["clients_were_limit"]


def test_only_the_span_in_which_all_are_active_counts():
    # One asks from 0 to 10 s, the other from 4 to 24 s, and outside of that span each is fast.
    first, second = steady(1000, 0.01), steady(1000, 0.02, first=4.0)
    alone = steady(3000, 0.001, first=1.0)
    begins = made_answers(
        np.zeros(3600, dtype=int),
        np.concatenate([alone.sent, 4 + 0.01 * np.arange(600)]),
        np.concatenate([alone.answered, 4.01 + 0.01 * np.arange(600)]),
    )
    for one in (first, begins):
        run = closed_loop([one, second], {})
        assert active_span([one, second]) == pytest.approx((4, 10))
        assert run.facts["active_seconds"] == pytest.approx(6)
        assert run.facts["queries_counted"] == pytest.approx(600 + 300, abs=2)
        assert 1 / run.seconds_per_query == pytest.approx(150, rel=0.01)
        assert run.times.min() == pytest.approx(0.01)
    assert run.facts["queries_asked"] == 4600


def test_the_throughput_is_of_the_span_and_the_latencies_are_of_what_was_sent_in_it():
    slow = as_told(np.array([0.0, 2.0, 4.0]), np.array([2.0, 4.0, 7.5]))
    quick = steady(4, 1.0, first=1.1)  # to 5.1 s
    run = closed_loop([slow, quick], {})
    assert run.times == pytest.approx([1, 2, 1, 1, 3.5, 1])  # sent at 1.1, 2, 2.1, 3.1, 4, 4.1 s
    counted = 0.9 / 2 + 1 + 1.1 / 3.5 + 4  # of the slow ones, the shares within the span; and the quick ones
    assert run.facts["queries_counted"] == pytest.approx(counted)
    assert run.seconds_per_query == pytest.approx(4 / counted)
    assert run.facts["clients_waiting_share"] == pytest.approx(1)  # slow: of 0 to 2 and 4 to 6, a half each


def test_the_latencies_are_in_the_order_of_sending():
    paces, firsts, numbers = (0.5, 0.7, 0.3), (0.0, 0.13, 0.21), (100, 70, 130)
    run = closed_loop(list(map(steady, numbers, paces, firsts)), {})
    sent = np.concatenate(
        [one + pace * np.arange(n) for pace, one, n in zip(paces, firsts, numbers, strict=True)]
    )
    in_span = (sent >= 0.21) & (sent < 0.21 + 0.3 * 130 - 1e-9)
    expected = np.repeat(paces, numbers)[in_span][np.argsort(sent[in_span])]
    assert run.times == pytest.approx(expected)


def test_a_stall_over_the_end_is_seen_by_all_clients():
    """They ask for 10 s; from 9.5 to 12 s the server stands still, and then answers one after the other."""
    before = 0.01 * np.arange(950)
    clients = [
        as_told(np.append(before, 9.5), np.append(before + 0.01, 12 + 0.001 * number)) for number in range(32)
    ]
    run = closed_loop(clients, {})
    assert run.facts["active_seconds"] == pytest.approx(12)
    assert np.count_nonzero(run.times > 2) == 32
    assert run.times[-32:].min() > 2
    within = 2.5 / (2.5 + 0.001 * np.arange(32))  # of the last one of each client
    assert run.facts["queries_counted"] == pytest.approx(32 * 950 + within.sum())
    assert run.facts["clients_waiting_share"] == pytest.approx(1)


def test_clients_that_are_slow_count_their_last_query_too():
    """64 that take 0.5 s, begun one after the other, for 2 s: whole queries alone would be up to 20% less."""
    clients = [steady(5, 0.5, first=0.005 * number) for number in range(64)]
    run = closed_loop(clients, {})
    assert 1 / run.seconds_per_query == pytest.approx(64 / 0.5)
    assert run.facts["queries_counted"] == pytest.approx(64 * run.facts["active_seconds"] / 0.5)
    (remark,) = remarks(closed_loop([steady(5, 0.5), steady(5, 0.5, first=0.3)], {}).facts)
    assert remark == "only 9 queries were counted: give --max-queries or --duration"


def test_the_clients_cpu_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spans, "usable_cores", lambda: 4)
    run = closed_loop([steady(1000, 0.01, cpu=2.0), steady(1000, 0.01, cpu=1.0)], {})
    assert run.facts["client_cpu_seconds_per_query"] == pytest.approx(0.0015)
    assert run.facts["client_cpu_share"] == pytest.approx(3 / 40)


def test_the_clients_cpu_is_that_of_their_whole_time():
    # They are both active for 1 s only, and take 6 s of CPU in 19 s.
    run = closed_loop([steady(1000, 0.01, cpu=3.0), steady(1000, 0.01, first=9.0, cpu=3.0)], {})
    assert run.facts["active_seconds"] == pytest.approx(1)
    assert run.facts["client_cpu_share"] == pytest.approx(6 / 19)


@pytest.mark.parametrize(("pause", "is_limit"), [(0.001, False), (0.002, False), (0.003, True), (0.01, True)])
def test_clients_that_do_not_always_wait_were_the_limit(pause: float, is_limit: bool):
    run = closed_loop([steady(1000, 0.01, pause=pause)] * 2, {})
    assert run.facts["clients_waiting_share"] == pytest.approx(0.01 / (0.01 + pause), rel=0.01)
    assert run.facts["clients_were_limit"] == is_limit
    assert (
        any("the clients, not the server, were the limit" in text for text in remarks(run.facts)) == is_limit
    )


@pytest.mark.parametrize(
    ("busy", "cpu", "is_limit"),
    [(0.99, 5.0, True), (0.99, 1.0, False), (0.5, 5.0, False), (None, 5.0, False)],
)
def test_clients_that_take_what_cpu_there_is_were_the_limit(busy: float | None, cpu: float, is_limit: bool):
    facts = {} if busy is None else {"machine_busy_share": busy}
    run = closed_loop([steady(1000, 0.01, cpu=cpu)], facts)
    assert run.facts["clients_were_limit"] == is_limit
    (text,) = remarks(run.facts) or [""]
    assert ("they used 50% of their machine's CPU, and none was left" in text) == is_limit


def test_clients_that_never_met_are_an_error():
    with pytest.raises(
        UserError, match="the first of 2 clients was done before the last had begun: give them"
    ):
        closed_loop([steady(10, 0.01), steady(10, 0.01, first=60)], {})


def test_a_client_that_asked_nothing_is_an_error():
    with pytest.raises(UserError, match="some clients sent no query: raise --max-queries"):
        closed_loop([steady(10, 0.01), steady(0, 0.01)], {})


def test_latency_counts_from_when_a_query_was_due():
    # A stall of 1 s: the first query takes it, the others wait, and are served in 10 ms.
    due = 100 + np.arange(10) * 0.1
    sent = np.concatenate([[100.0], 101 + 0.01 * np.arange(9)])
    answered = np.concatenate([[101.0], 101.01 + 0.01 * np.arange(9)])
    run = open_loop([given(due, sent, answered)], due - 100, 1.0, {"rate": 10.0, "clients": 1})
    assert run.times == pytest.approx([1.0] + [0.91 - 0.09 * i for i in range(9)])
    assert run.facts["service_p50"] == pytest.approx(0.01)
    assert run.facts["loop"] == "open"
    assert run.facts["rate"] == 10
    assert run.facts["queries_due"] == run.facts["queries_counted"] == 10
    assert run.facts["queries_unanswered"] == 0
    assert run.facts["clients_late_seconds"] == pytest.approx(0)
    assert not run.facts["clients_were_limit"]
    assert run.seconds_per_query == pytest.approx(1.09 / 10)
    assert remarks(run.facts)[0].startswith("90% of the queries found no free client among 1: more --clients")


def test_what_is_not_asked_any_more_has_waited_so_long_at_least():
    due = np.arange(10.0)  # of which one client that takes 2 s does six until 2 s after the last was due
    sent = 50 + 2 * np.arange(6.0)
    run = open_loop([given(50 + due[:6], sent, sent + 2)], due, 2.0, {"clients": 1})
    assert run.facts["queries_unanswered"] == 4
    assert run.facts["queries_due"] == run.facts["queries_counted"] == len(run.times) == 10
    assert run.times == pytest.approx([2, 3, 4, 5, 6, 7, 5, 4, 3, 2])
    assert run.seconds_per_query == pytest.approx(12 / 6)
    assert "the rate was not kept: 4 of 10 queries were still waiting at the end" in remarks(run.facts)


def test_what_was_not_asked_is_not_what_was_due_last():
    """Of two machines, one stands still from the third second on, and leaves what it was dealt."""
    due = np.arange(20.0)
    goes, stands = due[::2], due[1::2]
    well = given(7 + goes, 7 + goes, 7.1 + goes)
    stuck = given(7 + stands[:2], 7 + stands[:2], np.array([8.1, 29.0]))  # the second from 3 s to the end
    run = open_loop([well, stuck], due, 2.0, {"clients": 2})
    waiting = stands[2:]
    assert run.facts["queries_unanswered"] == len(waiting) == 8
    assert run.facts["queries_counted"] == run.facts["queries_due"] == 20
    expected = np.full(20, 0.1)
    expected[3] = 19
    expected[5::2] = 19 + 2 - waiting
    assert run.times == pytest.approx(expected)
    assert run.seconds_per_query == pytest.approx(22 / 12)
    assert "the rate was not kept: 8 of 20 queries were still waiting at the end" in remarks(run.facts)


def test_the_order_of_the_latencies_is_that_of_the_arrivals():
    due = 1.0 * np.arange(6)
    one, other = (
        given(due[[0, 3, 4]], due[[0, 3, 4]], due[[0, 3, 4]] + 0.1),
        given(due[[1, 2, 5]], due[[1, 2, 5]], due[[1, 2, 5]] + 0.2),
    )
    assert open_loop([one, other], due, 1.0, {}).times == pytest.approx([0.1, 0.2, 0.2, 0.1, 0.1, 0.2])


@pytest.mark.parametrize(("clients", "share"), [(1, 29 / 30), (2, 10 / 30), (3, 0.0)])
def test_how_many_queries_found_all_clients_busy_is_told(clients: int, share: float):
    """Three come at nearly the same time, every 5 s, and take 2 s each."""
    due = np.repeat(5.0 * np.arange(10), 3) + np.tile([0.0, 0.001, 0.002], 10)
    free, answers = [0.0] * clients, [[] for _ in range(clients)]
    for moment in due:
        who = int(np.argmin(free))
        sent = max(moment, free[who])
        answers[who].append((moment, sent, sent + 2))
        free[who] = sent + 2
    given_by = [given(*zip(*told, strict=True)) for told in answers if told]
    run = open_loop(given_by, due, 100.0, {"clients": clients})
    assert run.facts["clients_all_busy_share"] == pytest.approx(share)
    assert any("found no free client" in text for text in remarks(run.facts)) == (share > 0)


def test_the_throughput_counts_from_the_start():
    run = open_loop([given([103.0], [103.0], [103.5])], np.array([3.0]), 1.0, {})
    assert run.facts["active_seconds"] == run.seconds_per_query == pytest.approx(3.5)


@pytest.mark.parametrize(("late", "is_limit"), [(0.001, False), (0.002, False), (0.003, True), (0.1, True)])
def test_clients_that_were_free_and_late_were_the_limit(late: float, is_limit: bool):
    due = 1.0 + np.arange(50)
    run = open_loop([given(due, due + late, due + late + 0.01)], due - 1, 1.0, {})
    assert run.facts["clients_late_seconds"] == pytest.approx(late)
    assert run.facts["clients_were_limit"] == is_limit
    assert run.times == pytest.approx(np.full(50, late + 0.01))  # which is the client's, and is told


def test_a_query_that_waits_for_its_client_is_not_sent_late():
    due = 1.0 + 0.001 * np.arange(50)
    sent = 1.0 + 0.01 * np.arange(50)
    run = open_loop([given(due, sent, sent + 0.01)], due - 1, 1.0, {})
    assert run.facts["clients_late_seconds"] == pytest.approx(0)
    assert not run.facts["clients_were_limit"]


def test_a_rate_that_clients_without_cpu_did_not_keep_tells_of_them():
    due = np.arange(10.0)
    sent = 50 + 2 * np.arange(6.0)
    facts = {"machine_busy_share": 1.0}
    run = open_loop([given(50 + due[:6], sent, sent + 2, cpu=8.0)], due, 2.0, facts)
    assert run.facts["clients_were_limit"]
    run = open_loop([given(50 + due[:6], sent, sent + 2, cpu=0.1)], due, 2.0, facts)
    assert not run.facts["clients_were_limit"]


def test_a_client_without_work_is_none():
    due = np.arange(5.0)
    run = open_loop([given(due, due, due + 0.1), given([], [], [])], due, 1.0, {})
    assert len(run.times) == 5


def test_no_answer_at_all_is_an_error():
    with pytest.raises(UserError, match="no query was answered in the whole run: request a lower rate"):
        open_loop([given([], [], [])], np.arange(5.0), 1.0, {})


# Which query is asked next, and when queries arrive that nobody waits for.


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
