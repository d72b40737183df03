"""Queries before the measurement, whose times are thrown away, until they no longer get faster."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import MOST, read_whole

PIECE_SECONDS = 0.1
LEAST_SECONDS, MOST_LEAST_SECONDS = 0.6, 3.0  # of a warm-up: within these, as long as a run
MOST_SECONDS = 120.0
LOOKS_APART = 1.15  # ratio of the times of two looks
QUIET_LOOKS = 3  # one after the other, after which it is warm
QUIET_LOOKS_IN_TURN = 1
WORTH_WAITING_FOR = 0.02  # by which the last quarter of the time was faster than the one before
STANDARD_ERRORS = 0.5  # by which it was faster at least: better a look too many than one too few
MOST_EACH_SECONDS = 3.0  # in which every query is sent once
SENT_ONCE = "sent_once"  # fact: the share of the queries that were sent once, where caches were unused
WARMUP_RUN = 1_000_000  # numbers of runs from here on are those of the warm-up


class Caches(Enum):
    """What a warm-up finds, and so what it takes."""

    UNKNOWN = auto()  # it takes as long as the throughput rises
    UNUSED = auto()  # a turn begins, with no query since the caches were filled, or others used them
    WARM = auto()  # queries to the same index were the last ones


@dataclass(frozen=True)
class Warmup:
    """Kinds: "auto", until the throughput no longer rises; "off"; "queries", a number of them."""

    kind: str = "auto"
    queries: int = 0

    @classmethod
    def parse(cls, text: str) -> "Warmup":
        """Read "auto", "off" or a number; UserError says what is allowed."""
        if text in ("auto", "off"):
            return cls(text)
        number = read_whole(text)
        if number is not None and 0 < number <= MOST:
            return cls("queries", number)
        raise UserError(f"'{shown(text)}' is not a warm-up: give auto, off, or a number of queries")

    @property
    def is_off(self) -> bool:
        """Whether the start is to be measured cold."""
        return self.kind == "off"

    def __str__(self) -> str:
        return str(self.queries) if self.kind == "queries" else self.kind


def warm_up(
    warmup: Warmup,
    send_for: Callable[[float], int],
    send: Callable[[int], Any],
    run_seconds: Callable[[float], float],
    caches: Caches = Caches.UNKNOWN,
    send_each: Callable[[], tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Warm up and return what is stored of it.

    `send_for` sends queries for a number of seconds and returns how many were answered; `send` sends a
    number of queries; `run_seconds` gives the seconds of a run at a number of queries a second; `send_each`
    sends every query once, as far as its time allows, and returns how many it has sent, and of how many.

    In turns, the first look that sees no rise is the end of it. Where caches are unused, every query is sent
    once before that: while each of them reads pages of its own, nothing rises.
    """
    began = time.perf_counter()
    facts: dict[str, Any] = {"warmup": str(warmup)}
    if warmup.is_off:
        return facts
    if warmup.kind == "queries":
        send(warmup.queries)
        return facts | {"warmup_queries": warmup.queries, "warmup_seconds": time.perf_counter() - began}
    rates: list[float] = []
    is_turn = caches is not Caches.UNKNOWN
    sent, passed, quiet = 0, 0.0, 0
    if caches is Caches.UNUSED and send_each is not None:
        sent, distinct = send_each()
        facts[SENT_ONCE] = sent / distinct
    look, needed = (0.0, QUIET_LOOKS_IN_TURN) if is_turn else (LEAST_SECONDS, QUIET_LOOKS)
    while passed < MOST_SECONDS and quiet < needed:
        started = time.perf_counter()
        answered = send_for(PIECE_SECONDS)
        ended = time.perf_counter()
        rates.append(answered / (ended - started))
        sent, passed = sent + answered, ended - began
        if len(rates) < 4 or passed < look:
            continue
        look = LOOKS_APART * passed
        least = 0.0 if is_turn else min(run_seconds(float(np.mean(rates))), MOST_LEAST_SECONDS)
        quiet = 0 if is_rising(rates) else quiet + (passed >= least)
    return facts | {
        "warmup_queries": sent,
        "warmup_seconds": passed,
        "warmup_settled": quiet == needed,
    }


def send_in_pieces(numbers: np.ndarray, least: int, send: Callable[[np.ndarray], Any]) -> tuple[int, int]:
    """Send queries, by their numbers, (queries,), for `MOST_EACH_SECONDS` at most.

    Returns how many were sent, and of how many. A piece has `least` of them at first, and more as soon as
    that takes little time.
    """
    sent, piece, ends = 0, least, time.perf_counter() + MOST_EACH_SECONDS
    while sent < len(numbers) and (now := time.perf_counter()) < ends:
        part = numbers[sent : sent + piece]
        send(part)
        sent += len(part)
        if time.perf_counter() - now < PIECE_SECONDS:
            piece *= 2
    return sent, len(numbers)


def is_rising(rates: Sequence[float]) -> bool:
    """Whether the throughput of equally long pieces still rises, by more than is worth waiting for.

    The last quarter of them is compared with the one before. A slow rise shows once the quarters are long
    enough, which is why it is looked for more than once.
    """
    n = len(rates)
    before, last = np.array(rates[n // 2 : 3 * n // 4]), np.array(rates[3 * n // 4 :])
    rise = float(last.mean() - before.mean())
    error = float(np.std(rates[n // 2 :], ddof=1)) * math.sqrt(1 / len(before) + 1 / len(last))
    return rise > WORTH_WAITING_FOR * float(before.mean()) and rise > STANDARD_ERRORS * error
