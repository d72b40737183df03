"""The warm-up ends when the throughput no longer rises: on a clock that only the queries move."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load import warmup
from ann_benchmarks.load.request import Load, Objective
from ann_benchmarks.load.warmup import (
    LEAST_SECONDS,
    LOOKS_APART,
    MOST_EACH_SECONDS,
    MOST_LEAST_SECONDS,
    MOST_SECONDS,
    PIECE_SECONDS,
    QUIET_LOOKS,
    SENT_ONCE,
    Caches,
    Warmup,
    is_rising,
    send_in_pieces,
    warm_up,
)
from ann_benchmarks.results.remarks import remarks

FULL = 10_000  # queries a second
SIMULATIONS = 50


class Server:
    """A test double of the clock and of a server with a known throughput at each time, with noise."""

    def __init__(self, rate_at: Callable[[float], float], noise: float = 0.01, seed: int = 0) -> None:
        self.now, self.rate_at, self.asked = 1000.0, rate_at, 0
        self.rates_told: list[float] = []
        self.took = PIECE_SECONDS  # for a piece
        self._noise = iter(np.random.default_rng(seed).normal(1, noise, 2000).clip(0.01).tolist())

    def perf_counter(self) -> float:
        return self.now

    def ask_for(self, seconds: float) -> int:
        assert seconds == PIECE_SECONDS
        answered = max(1, round(self.took * self.rate_at(self.now - 1000) * next(self._noise)))
        self.now += self.took
        self.asked += answered
        return answered

    def ask(self, number: int) -> None:
        self.asked += number
        self.now += 2.5


@pytest.fixture(autouse=True)
def warmups_are_short() -> None:
    """Not here, where it is what is tested."""


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> Callable:
    def warmed(how: Warmup, server: Server, run_seconds: float = 0.1) -> dict[str, Any]:
        def seconds_at(rate: float) -> float:
            server.rates_told.append(rate)
            return run_seconds

        monkeypatch.setattr(warmup, "time", server)
        return warm_up(how, server.ask_for, server.ask, seconds_at)

    return warmed


def steady(at: float) -> float:
    return FULL


def rising(tau: float) -> Callable[[float], float]:
    """As caches fill: 0.3 of the speed first."""
    return lambda at: FULL * (1 - 0.7 * math.exp(-at / tau))


@pytest.mark.parametrize(
    ("run_seconds", "least"), [(0.01, LEAST_SECONDS), (1.2, 1.2), (3.0, 3.0), (600.0, MOST_LEAST_SECONDS)]
)
def test_it_takes_as_long_as_a_run_and_some_looks(warmed: Callable, run_seconds: float, least: float):
    server = Server(steady, noise=0)
    facts = warmed(Warmup(), server, run_seconds)
    # Some looks, of which the first is within one step after the least.
    earliest = least * LOOKS_APART ** (QUIET_LOOKS - 1)
    latest = (least + PIECE_SECONDS) * (LOOKS_APART * (1 + PIECE_SECONDS / least)) ** QUIET_LOOKS
    assert earliest <= facts["warmup_seconds"] <= latest
    assert facts["warmup_seconds"] == pytest.approx(server.now - 1000)
    assert facts["warmup_queries"] == server.asked
    assert facts["warmup_settled"] is True
    assert facts["warmup"] == "auto"
    assert server.rates_told == pytest.approx([FULL] * len(server.rates_told))


@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("run_seconds", [0.1, 3.0])
def test_a_steady_server_is_warm_soon(warmed: Callable, run_seconds: float, noise: float):
    seconds = []
    for seed in range(SIMULATIONS):
        facts = warmed(Warmup(), Server(steady, noise, seed), run_seconds)
        assert facts["warmup_settled"] is True
        seconds.append(facts["warmup_seconds"])
    least = max(run_seconds, LEAST_SECONDS)
    assert np.median(seconds) < 3 * least
    assert max(seconds) < 8 * least


@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("tau", [1, 5, 20])
def test_a_server_that_comes_to_speed_is_waited_for(warmed: Callable, tau: float, noise: float):
    """Where runs take some seconds, so that it warms up for long enough to see a slow rise."""
    reached = []
    for seed in range(SIMULATIONS):
        server = Server(rising(tau), noise, seed)
        facts = warmed(Warmup(), server, 3.0)
        reached.append(server.rate_at(facts["warmup_seconds"]) / FULL)
        assert facts["warmup_seconds"] < MOST_SECONDS + 1
    assert np.mean(np.array(reached) >= 0.9) >= 0.96
    assert np.mean(reached) > 0.95


def test_a_short_look_at_a_short_run_sees_most_of_a_slow_rise(warmed: Callable):
    """With runs of 0.1 s it may end early, which is told by nothing: it is to be rare."""
    reached = []
    for seed in range(SIMULATIONS):
        server = Server(rising(5), 0.05, seed)
        facts = warmed(Warmup(), server, 0.1)
        reached.append(server.rate_at(facts["warmup_seconds"]) / FULL)
    assert np.mean(np.array(reached) >= 0.9) >= 0.94


@pytest.mark.parametrize("clients", [1, 16])
@pytest.mark.parametrize("pages", [100, 1_000, 100_000])
def test_where_caches_are_unused_every_query_is_sent_once(
    clients: int, pages: int, monkeypatch: pytest.MonkeyPatch
):
    """Each query reads pages of its own: its first time is slow, and until the second nothing rises."""
    seen = np.zeros(pages, dtype=bool)
    rng = np.random.default_rng(1)
    server = Server(steady)
    monkeypatch.setattr(warmup, "time", server)

    def send(numbers: np.ndarray) -> None:
        server.now += float(np.where(seen[numbers], 0.0002, 0.002).sum())
        seen[numbers] = True

    def send_for(seconds: float) -> int:
        ends, sent = server.now + seconds, 0
        while server.now < ends:
            send(rng.integers(pages, size=1))
            sent += 1
        return sent

    def warmed(caches: Caches) -> dict[str, Any]:
        seen[:] = False
        return warm_up(
            Warmup(), send_for, lambda number: None, lambda rate: 1.0, caches,
            lambda: send_in_pieces(np.arange(pages), clients, send),
        )  # fmt: skip

    facts = warmed(Caches.UNUSED)
    whole = 0.002 * pages
    assert seen.all() if whole < MOST_EACH_SECONDS else seen.sum() >= MOST_EACH_SECONDS / 0.002
    least = min(whole, MOST_EACH_SECONDS)
    assert least < facts["warmup_seconds"] < 1.3 * least + 1
    assert facts["warmup_queries"] >= seen.sum()
    sent = min(whole, MOST_EACH_SECONDS) / whole
    assert sent <= facts[SENT_ONCE] <= 1.1 * sent
    assert SENT_ONCE not in warmed(Caches.WARM)
    assert seen.mean() < 0.9 or pages == 100  # it would have measured the reading


def test_caches_that_were_not_filled_in_time_are_remarked():
    (text,) = remarks({"run_sent_once": [1.0, 0.0, 0.296, 0.4]})
    assert text.startswith("caches had to be filled before 3 of 4 runs, and only 30% of the queries could")
    # Where memory suffices, they are filled once; else, all queries were sent.
    for enough in ([0.3, 0.0, 0.0], [1.0, 1.0, 0.0], [], None):
        assert not remarks({"run_sent_once": enough})


def test_a_piece_of_one_slow_query_is_enough_to_go_by(warmed: Callable):
    server = Server(lambda at: 1.0, noise=0)
    server.took = 1.0
    facts = warmed(Warmup(), server, 100.0)
    assert facts["warmup_settled"] is True
    assert facts["warmup_queries"] < 12


def test_one_that_rises_forever_ends_at_the_cap(warmed: Callable):
    server = Server(lambda at: 1000 * 1.1**at)
    facts = warmed(Warmup(), server)
    assert MOST_SECONDS <= facts["warmup_seconds"] < MOST_SECONDS + 2 * PIECE_SECONDS
    assert facts["warmup_settled"] is False
    assert facts["warmup_queries"] == server.asked
    (text,) = remarks(facts)
    assert (
        text == f"the throughput was still rising after {facts['warmup_seconds']:.0f} s of warm-up: give"
        " --warmup N"
    )


def test_a_server_that_gets_slower_is_not_waited_for(warmed: Callable):
    facts = warmed(Warmup(), Server(lambda at: FULL * 0.9**at))
    assert facts["warmup_seconds"] < 2 * LEAST_SECONDS
    assert facts["warmup_settled"] is True


def test_a_look_that_finds_a_rise_makes_those_before_it_count_for_nothing(warmed: Callable):
    """It was quiet twice, and then a cache was full at last."""
    server = Server(
        lambda at: FULL if at < LEAST_SECONDS * LOOKS_APART + PIECE_SECONDS else 2 * FULL, noise=0
    )
    facts = warmed(Warmup(), server)
    quiet = warmed(Warmup(), Server(steady, noise=0))
    assert facts["warmup_seconds"] > 1.5 * quiet["warmup_seconds"]
    assert facts["warmup_settled"] is True


def test_so_many_queries_are_asked_as_are_wanted(warmed: Callable):
    server = Server(steady)
    facts = warmed(Warmup("queries", 321), server)
    assert server.asked == 321
    assert facts == {"warmup": "321", "warmup_queries": 321, "warmup_seconds": 2.5}


def test_off_asks_nothing(warmed: Callable):
    server = Server(steady)
    assert warmed(Warmup("off"), server) == {"warmup": "off"}
    assert server.asked == 0


@pytest.mark.parametrize(
    ("rates", "rises"),
    [
        ([100] * 8, False),
        ([100, 110, 120, 130, 140, 150, 160, 170], True),
        ([170, 160, 150, 140, 130, 120, 110, 100], False),
        ([100, 100.2, 100.4, 100.6, 100.8, 101, 101.2, 101.4], False),  # not worth waiting for
        ([10, 40, 60, 75, 85, 91, 95, 97], True),  # still on its way
        ([10, 40, 60, 75, 97, 98, 98, 98], False),  # there
        ([100, 99, 101, 100, 99, 101, 100, 99], False),
        ([100, 130, 120, 150, 140, 150, 170, 165], True),  # in spite of steps back
        ([50, 100, 100, 100, 100, 100, 100, 100], False),  # one cold piece is long gone
        ([100, 100, 100, 100, 100, 140, 110, 141], False),  # less than the noise
        ([100, 100, 100, 110], True),
        ([100, 100, 110, 100], False),
    ],
)
def test_a_rise_is_one_of_the_last_quarter_over_the_one_before(rates: list[float], rises: bool):
    assert is_rising(rates) == rises


@pytest.mark.parametrize(
    ("load", "seconds"),
    [
        (Load(2), 20.0),  # 1,000 queries
        (Load(32), 64.0),  # 100 a client
        (Load(2, max_queries=400), 8.0),
        (Load(2, seconds=7), 7.0),
        (Load(2, rate=10), 10.0),
        (Load(2, rate=10, seconds=3), 3.0),
        (Load(2, rate=10, max_queries=400), 40.0),
        (Load(2, objective=Objective.parse("p50:5ms")), 10.0),
        (Load(2, objective=Objective.parse("p50:5ms"), seconds=4), 4.0),
    ],
)
def test_a_run_takes_as_long_as_its_load_says(load: Load, seconds: float):
    """Of 1,000 queries, where 50 a second are answered: an open loop's time is not that of the answers."""
    assert load.run_seconds(1000, 50) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["auto", "off", "1", "5000"])
def test_a_warm_up_is_read_and_written(text: str):
    assert str(Warmup.parse(text)) == text
    assert Warmup.parse(text).is_off == (text == "off")


@pytest.mark.parametrize("text", ["", "0", "-1", "on", "1.5", "none", "1e3", "²"])
def test_what_is_no_warm_up_is_an_error(text: str):
    with pytest.raises(UserError, match="is not a warm-up: give auto, off, or a number of queries"):
        Warmup.parse(text)
