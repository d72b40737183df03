"""Queries with a filter by the plan that the server chooses, and by others that it can be made to choose."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from psycopg import pq

from .session import QuerySession
from .statement import CUSTOM_FIRST, blocks, rows_removed

OWN, CUSTOM = "own", "custom"
_MODES = {"generic": "force_generic_plan", CUSTOM: "force_custom_plan"}
_STEPS = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_sort")
# What is off for each kind of plan: a scan of all rows; a bitmap of the rows that pass; an index scan, with
# or without a sort; an index scan without a sort.
_OFF = (
    ("enable_indexscan", "enable_bitmapscan"),
    ("enable_seqscan", "enable_indexscan"),
    ("enable_seqscan", "enable_bitmapscan"),
    ("enable_seqscan", "enable_bitmapscan", "enable_sort"),
)
# Shares of the time that each part has.
_ANALYSED, _PLANNED, _ANSWERED, _TIMED = 0.2, 0.2, 0.3, 0.3
_FEWEST_PLANNED = 20  # queries, for which it may take longer
_HOPELESS = 4  # times the time of the server's choice
_SHORTEST_LIMIT = 0.1  # s
_CANCELLED = b"57014"  # the SQLSTATE of a statement that took longer than it may
_SEED = 0


@dataclass
class PlannedWay:
    """One way to have queries planned, in a session of its own, and what it gave to each query so far."""

    way: str
    session: QuerySession
    names: list[str] = field(default_factory=list)  # of the plans
    ids: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    longest: float = 0.0  # s, of a query, as the server counts it
    is_given_up: bool = False  # after the queries that it has answered

    @property
    def plan(self) -> str:
        """The plans, the most frequent one first."""
        by_count = sorted(set(self.names), key=lambda name: (-self.names.count(name), name))
        return " or ".join(by_count)

    def answer(self, query: Any) -> None:
        """Have a query answered; keep its ids, and the seconds that an application would wait."""
        parameters = self.session.encode(query)
        start = time.perf_counter()
        result = self.session.run(parameters)
        seconds = time.perf_counter() - start
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _CANCELLED and self.way != OWN:
            self.is_given_up = True
            return
        self.ids.append(self.session.ids(result))
        self.seconds.append(seconds)


@dataclass(frozen=True)
class ComparedPlans:
    """What each way has answered, the server's own choice first, and what else is stored of the plans."""

    answers: Sequence[PlannedWay]
    facts: Mapping[str, Any]


def ways() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and the settings of each way that can lead to another plan than the server's choice."""
    for mode, value in _MODES.items():
        yield mode, {"plan_cache_mode": value}
    for off in _OFF:
        for mode, value in _MODES.items():
            switches = {step: "off" if step in off else "on" for step in _STEPS}
            yield f"{mode} {' '.join(f'{step}=off' for step in off)}", {"plan_cache_mode": value, **switches}


def compare_plans(
    open_session: Callable[[Mapping[str, str]], QuerySession], queries: Sequence[Any], seconds: float
) -> ComparedPlans:
    """Have queries answered by each plan for about `seconds`: the first of them, or all.

    `open_session` gives a session with some more settings. Ways that lead to the same plans are one. Every
    query is answered once by each way to warm the caches, and once more, in random order, to be timed. The
    time is what the client waits, so that planning is in it. A way whose query takes more than four times as
    long as the longest of the server's choice is given up, and so is one that takes that in all.
    """

    def part(share: float) -> Callable[[], bool]:
        start = time.monotonic()
        return lambda: time.monotonic() - start > share * seconds

    limit = {"statement_timeout": str(round(1000 * seconds))}
    with ExitStack() as stack:

        def opened(name: str, settings: Mapping[str, str]) -> PlannedWay:
            return PlannedWay(name, stack.enter_context(closing(open_session({**settings, **limit}))))

        own = opened(OWN, {})
        facts = _analyse(own, queries, part(_ANALYSED))
        count, found = len(own.names), [own]
        others = list(ways())
        for name, settings in others:
            other = opened(name, settings)
            planning = _plan(other, queries[:count], part(_PLANNED / len(others)))
            count = min(count, len(other.names))
            if name == CUSTOM:
                facts["planning_time"] = planning
            if all(other.names[:count] != known.names[:count] for known in found):
                found.append(other)
            else:
                other.session.close()
        for way in found[1:]:
            way.session.limit(max(_HOPELESS * own.longest, _SHORTEST_LIMIT) + facts["planning_time"])
        most = _ANSWERED * seconds / len(found)
        count = answer_all(found, queries[:count], part(_ANSWERED), most)
        found = [
            way
            for place, way in enumerate(found)
            if all(way.names[:count] != known.names[:count] for known in found[:place])
        ]
        time_all(found, queries[:count], part(_TIMED))
    for way in found:
        way.names = way.names[: len(own.seconds)]
    return ComparedPlans(found, facts)


def _analyse(own: PlannedWay, queries: Sequence[Any], is_time: Callable[[], bool]) -> dict[str, Any]:
    """Find the plans that the server chooses; return what their queries lock, remove and read, on average.

    The first executions in a session, which are planned anew, count in the locks alone.
    """
    most = 0
    for place in range(CUSTOM_FIRST):
        most = max(most, own.session.explain_and_lock(queries[place % len(queries)])[1])
    plans = []
    for query in queries:
        found, locks = own.session.explain_and_lock(query, "ANALYZE", "TIMING OFF", "BUFFERS")
        plans.append(found["Plan"])
        most = max(most, locks)
        own.longest = max(own.longest, found["Execution Time"] / 1000)
        if is_time():
            break
    own.names = own.session.plan_names(plans)
    return {
        "locks": most,
        "rows_removed": sum(map(rows_removed, plans)) / len(plans),
        "blocks": sum(map(blocks, plans)) / len(plans),
    }


def _plan(way: PlannedWay, queries: Sequence[Any], is_time: Callable[[], bool]) -> float:
    """Find the plans of a way; return the mean seconds that the server took to plan."""
    found = []
    for query in queries:
        found.append(way.session.explain(query, "SUMMARY"))
        if len(found) >= _FEWEST_PLANNED and is_time():
            break
    way.names = way.session.plan_names([each["Plan"] for each in found])
    return sum(float(each["Planning Time"]) for each in found) / len(found) / 1000


def answer_all(
    found: Sequence[PlannedWay], queries: Sequence[Any], is_time: Callable[[], bool], most: float
) -> int:
    """Have the queries answered once by each way; return how many of them were.

    A way that takes much longer than the server's choice, and more than `most` s in all, is given up.
    """
    own, count = found[0], 0
    for query in queries:
        for way in found:
            if not way.is_given_up:
                way.answer(query)
                way.is_given_up |= sum(way.seconds) > max(most, _HOPELESS * sum(own.seconds))
        count += 1
        if is_time():
            break
    return count


def time_all(found: Sequence[PlannedWay], queries: Sequence[Any], is_time: Callable[[], bool]) -> None:
    """Time the queries by each way that was not given up. Their answers are known by then."""
    timed = [way for way in found if not way.is_given_up]
    for way in timed:
        way.seconds, way.ids = [], []
    order = random.Random(_SEED)
    for query in queries:
        for way in order.sample(timed, len(timed)):
            if not way.is_given_up:
                way.answer(query)
        if is_time():
            break
