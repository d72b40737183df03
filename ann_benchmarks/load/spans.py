"""From what each client measured to the throughput, the latencies and their histogram."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.plugin import Answers

from .samples import row_facts


@dataclass(frozen=True)
class Measured:
    """One run: `times` (n,) in s, `neighbors` (queries, at least count), -1 for none.

    `answered` (queries,) is whether a query's neighbours are those of an answer that this run has counted;
    None: all are. `numbers` (n,) are those of the queries that took the times, -1 where that is not known;
    None: each query has one, in their order.
    """

    times: np.ndarray
    neighbors: np.ndarray
    seconds_per_query: float
    facts: dict[str, Any] = field(default_factory=dict)  # what else is stored of it
    answered: np.ndarray | None = None
    started: float = math.nan  # s since 1970
    repeats: int = 0  # times that it was measured in vain before, because others took CPU
    numbers: np.ndarray | None = None


ALWAYS_WAITING = 0.8  # share of the time that clients wait for answers, below which they are the limit
NOTHING_LEFT = 0.95  # share of the machine's CPU that is busy
LARGE_SHARE = 0.33  # of the machine's CPU that the clients take
LATE_SHARE = 0.25  # of the median latency, by which clients that were free sent their queries late
ROUNDING = 1e-6  # s, of the clocks' readings
MOST_SKIPPED = 1000  # first arrivals that may not have been sent
FEWEST = 10  # queries of a third of a run, for it to tell whether the queue grew
GROWTH = 1.5
_NOT_SENT = -1  # in place of a query's number
_NO_ANSWERS = np.empty((0, 0), dtype=np.int64)


def closed_loop(answers: Sequence[Answers], facts: Mapping[str, Any]) -> Measured:
    """Return a run of clients that sent one query after the other.

    The throughput is that of the time in which all clients were active, in which a query counts by the share
    of its own time that lies in it (what was being answered in the end would be missing otherwise, a query
    of each client). The latencies, in s and in the order of sending, are those of the queries that were sent
    in that time: of those that were answered in it, the slowest would be missing.
    """
    if not all(len(a.sent) for a in answers):
        raise UserError("some clients sent no query: raise --max-queries or --duration")
    start, end = active_span(answers)
    chosen = [(a.sent >= start) & (a.sent < end) for a in answers]
    sent = np.concatenate([a.sent[those] for a, those in zip(answers, chosen, strict=True)])
    times = np.concatenate([(a.answered - a.sent)[those] for a, those in zip(answers, chosen, strict=True)])
    numbers = np.concatenate([a.numbers[those] for a, those in zip(answers, chosen, strict=True)])
    in_order = np.argsort(sent, kind="stable")
    times, numbers = times[in_order], numbers[in_order].astype(np.int32)
    if end <= start:
        raise UserError(
            f"the first of {len(answers)} clients was done before the last had begun: "
            "give them more to do by --max-queries or --duration"
        )
    inside = [(np.minimum(a.answered, end) - np.maximum(a.sent, start)).clip(0) for a in answers]
    counted = sum(
        float((seconds / (a.answered - a.sent)).sum()) for a, seconds in zip(answers, inside, strict=True)
    )
    waiting = sum(float(seconds.sum()) for seconds in inside)
    in_all = max(a.answered[-1] for a in answers) - min(a.sent[0] for a in answers)
    stored = _client_facts(answers, facts, in_all) | {
        "loop": "closed",
        "active_seconds": end - start,
        "queries_counted": counted,
        "clients_waiting_share": waiting / (len(answers) * (end - start)),
        **row_facts(answers, chosen),
    }
    stored["clients_were_limit"] = stored["clients_waiting_share"] < ALWAYS_WAITING or _no_cpu_left(stored)
    return Measured(times, _NO_ANSWERS, (end - start) / counted, stored, numbers=numbers)


def open_loop(
    answers: Sequence[Answers], due: np.ndarray, patience: float, facts: Mapping[str, Any], lead_in: float = 0
) -> Measured:
    """Return a run in which queries came at a rate: latencies, in s, count from when each was due, in order.

    `due`, (n,) in s from the start, are all that came. What was due before `lead_in` s does not count. What
    was not sent by `patience` s after the last was due had waited so long at least, and counts with that. The
    throughput is that of the answers, from the end of the lead-in to the last answer or arrival.
    """
    sent = [a for a in answers if len(a.sent)]
    if not sent:
        raise UserError("no query was answered in the whole run: request a lower rate or a longer run")
    of_sent = [(a, np.asarray(a.due)) for a in sent]
    all_sent = np.concatenate([due_of for _, due_of in of_sent])
    start = _start(due, all_sent)
    begin = start + lead_in  # of what counts
    waiting = np.delete(due, _nearest(due, all_sent - start))
    times = np.concatenate([a.answered - due_of for a, due_of in of_sent] + [due[-1] + patience - waiting])
    came = np.concatenate([due_of for _, due_of in of_sent] + [start + waiting])
    numbers = np.concatenate([a.numbers for a in sent] + [np.full(len(waiting), _NOT_SENT)])
    in_order = np.argsort(came, kind="stable")
    in_order = in_order[came[in_order] >= begin]
    times, numbers = times[in_order], numbers[in_order].astype(np.int32)
    waiting = waiting[start + waiting >= begin]
    counted = [due_of >= begin for _, due_of in of_sent]
    if not any(chosen.any() for chosen in counted):
        raise UserError(
            "no query came after the lead-in that was answered: give a lower --rate or a --duration"
        )
    of_all = np.concatenate(counted)
    served = np.concatenate([a.answered - a.sent for a in sent])[of_all]
    late = np.concatenate([a.sent - np.maximum(due_of, free_since(a)) for a, due_of in of_sent])[of_all]
    found_none_free = np.concatenate([free_since(a) > due_of for a, due_of in of_sent])[of_all]
    end = max(max(float(a.answered[-1]) for a in sent), start + float(due[-1]))
    answered = sum(int(np.count_nonzero(a.answered >= begin)) for a in sent)
    stored = _client_facts(sent, facts, end - start) | {
        "loop": "open",
        "lead_in_seconds": lead_in,
        "steady_state": not len(waiting) and not is_growing(times),
        "active_seconds": end - begin,
        "queries_asked": len(served),
        "queries_due": len(times),
        "queries_unanswered": len(waiting),
        "queries_counted": len(times),
        "service_p50": float(np.percentile(served, 50)),
        "service_p99": float(np.percentile(served, 99)),
        "clients_late_seconds": float(np.median(late)),
        "clients_all_busy_share": float(np.mean(found_none_free)),
        **row_facts(sent, counted),
    }
    stored["clients_were_limit"] = stored["clients_late_seconds"] > LATE_SHARE * stored["service_p50"] or (
        len(waiting) > 0 and _no_cpu_left(stored)
    )
    return Measured(times, _NO_ANSWERS, (end - begin) / answered, stored, numbers=numbers)


def is_growing(times: np.ndarray) -> bool:
    """Whether a queue grew, by the latencies in the order of arrival: no query of the last third was quick.

    A queue in a steady state is nearly empty again and again. One that grows for a whole run is four times as
    long at the beginning of its last third as in the middle of its first.
    """
    first, _, last = np.array_split(times, 3)
    return len(first) >= FEWEST and float(last.min()) > GROWTH * float(np.median(first))


def active_span(answers: Sequence[Answers]) -> tuple[float, float]:
    """When all clients were active: from the last one's first query to the first one's end."""
    return max(a.sent[0] for a in answers), min(a.answered[-1] for a in answers)


def free_since(answers: Answers) -> np.ndarray:
    """When the client that sent a query had its answer to the one before."""
    return np.concatenate([[-np.inf], answers.answered[:-1]])


def _start(due: np.ndarray, sent: np.ndarray) -> float:
    """When the run began: with the first of `due` that was sent; others before it may have been left out."""
    first = float(sent.min())
    for skipped in due[:MOST_SKIPPED]:
        moved = sent - (first - skipped)
        if np.abs(due[_nearest(due, moved)] - moved).max() < ROUNDING:
            return first - float(skipped)
    return first - float(due[0])


def _nearest(due: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return the places of those of `due`, ascending, that are nearest to each of some moments."""
    after = np.searchsorted(due, moments).clip(0, len(due) - 1)
    before = (after - 1).clip(0)
    return np.where(np.abs(due[before] - moments) < np.abs(due[after] - moments), before, after)


def _client_facts(answers: Sequence[Answers], facts: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    sent = sum(len(a.numbers) for a in answers)
    cpu_seconds = sum(a.cpu_seconds for a in answers)
    return {
        **facts,
        "queries_asked": sent,
        "asking_seconds": seconds,
        "client_cpu_seconds_per_query": cpu_seconds / sent,
        "client_cpu_share": cpu_seconds / (seconds * usable_cores()),
    }


def _no_cpu_left(stored: Mapping[str, Any]) -> bool:
    """Whether the clients take a large part of the CPU of a machine that has nothing left."""
    busy = stored.get("machine_busy_share", 0)
    return bool(busy > NOTHING_LEFT and stored["client_cpu_share"] > LARGE_SHARE)


BUCKETS_PER_DECADE = 116  # each 2% wider than the one before
_SHORTEST, _LONGEST = -7, 4  # decades of s


def histogram(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of buckets, (n + 1,) in s, each 2% above the last, and the queries in each, (n,).

    The buckets reach from the shortest to the longest latency of all runs.
    """
    every = np.concatenate(runs)
    edges = np.logspace(_SHORTEST, _LONGEST, (_LONGEST - _SHORTEST) * BUCKETS_PER_DECADE + 1)
    counts, _ = np.histogram(every.clip(edges[0], edges[-1]), edges)
    used = np.flatnonzero(counts)
    first, last = used[0], used[-1] + 1
    return edges[first : last + 1], counts[first:last]
