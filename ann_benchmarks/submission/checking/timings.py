"""Times that cannot have been measured: latencies against wall time, clients, CPUs, and the time of day."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ann_benchmarks.fields.rows import OWN_DRIVER

from .points import CheckedPoint
from .rules import Findings

ADVICE = "measure the point again"
SAME = 2e-5  # relative: latencies are stored in single precision
FEW = 20  # latencies that may be equal by chance; pgbench counts microseconds
MANY = 1000
MOST_SECONDS = 1e5  # of a query
CLOCK = 2.0  # s, that a clock is set by meanwhile; times of day are stored in whole seconds
CPU_SLACK = 1.15  # of CPU time, which is counted in ticks
TICKS = 0.1  # s of CPU, by which short runs may be off
UNLIKELY = 6.0  # standard deviations of a Poisson process


def check_timings(point: CheckedPoint, cores: float | None, findings: Findings) -> None:
    """Refuse a point with times that cannot be; `cores` are those of the machine, None if not known."""
    problems = list(of_each(point))
    if not problems:
        problems = [*of_loop(point), *of_cpu(point, cores), *of_day(point)]
    for problem in problems:
        findings.refuse(point.file, "timings", problem, ADVICE)


def of_each(point: CheckedPoint) -> Iterator[str]:
    """Yield what is wrong with single latencies."""
    times = point.stored.times.astype(np.float64)
    if not np.isfinite(times).all() or times.min() <= 0 or times.max() > MOST_SECONDS:
        yield "has latencies that are no seconds above 0"
        return
    if len(times) >= FEW and len(np.unique(times)) == 1 and not point.series.batch:
        yield f"has {len(times):,} latencies that are all the same"
    elif len(times) >= MANY and not point.series.batch and len(np.unique(times)) < FEW:
        yield f"has {len(np.unique(times)):,} different latencies among {len(times):,}"


def of_loop(point: CheckedPoint) -> Iterator[str]:
    """Yield where the latencies of the stored run contradict its throughput."""
    times = point.stored.times.astype(np.float64)
    shown = point.number("best_search_time") or math.nan
    clients, active = point.number("clients"), point.number("active_seconds")
    if clients is None:
        whole = shown * point.queries
        if point.series.batch:
            yield from _of_batch(point, times, whole)
        elif abs(float(times.mean()) / shown - 1) > SAME:
            yield f"its latencies have a mean of {times.mean():.6g} s, and it says {shown:.6g} s a query"
        return
    if active is None or active <= 0:
        yield "does not say for how long its clients were active (active_seconds)"
    elif point.is_open:
        yield from _of_open_loop(point, times, active, shown)
    else:
        yield from _of_closed_loop(point, times, clients, active, shown)


def _of_batch(point: CheckedPoint, times: np.ndarray, whole: float) -> Iterator[str]:
    """A batch lasts as long as any of its queries; a database answers it by a connection for each core."""
    connections = point.number("cores")
    mean = whole / point.queries
    if times.max() > whole * (1 + SAME):
        yield f"has a latency of {times.max():.6g} s in a batch of {whole:.6g} s"
    elif times.min() == times.max() and min(abs(times[0] / one - 1) for one in (mean, whole)) > SAME:
        yield f"its latencies have a mean of {times[0]:.6g} s, and it says {mean:.6g} s a query"
    elif connections and "server" in point.attrs and times.sum() > connections * whole * (1 + SAME):
        yield (
            f"its latencies add up to {times.sum():.6g} s, and {connections:.0f} connections had"
            f" {connections * whole:.6g} s in a batch of {whole:.6g} s"
        )


def _of_closed_loop(
    point: CheckedPoint, times: np.ndarray, clients: float, active: float, shown: float
) -> Iterator[str]:
    """Each client has one query under way at a time: latencies add up to the time that clients waited."""
    longest, total = float(times.max()), float(times.sum())
    most = clients * (active + longest)
    if total > most * (1 + SAME):
        yield (
            f"its latencies add up to {total:.6g} s, and {clients:.0f} clients had {most:.6g} s in"
            f" {active:.6g} s"
        )
        return
    waiting = point.number("clients_waiting_share")
    if waiting is None or not 0 <= waiting <= 1 + 1e-3:
        yield f"says that clients waited for {waiting} of the time (clients_waiting_share)"
    elif abs(total - waiting * clients * active) > clients * longest * (1 + SAME) + 1e-3 * active:
        yield (
            f"its latencies add up to {total:.6g} s, and its clients waited for"
            f" {waiting * clients * active:.6g} s"
        )
    counted = point.number("queries_counted") or 0.0
    if abs(counted - len(times)) > clients + 0.5:
        yield f"says that {counted:,.0f} queries were counted, and has {len(times):,} latencies"
    elif point.series.driver == OWN_DRIVER and abs(counted * shown / active - 1) > SAME:
        yield (
            f"counted {counted:,.6g} queries in {active:.6g} s, {active / counted:.6g} s a query, and says"
            f" {shown:.6g} s"
        )
    asked = point.number("asked_duration")
    if asked and point.number("asked_queries") is None and active < 0.5 * asked:
        yield f"its clients were active for {active:.6g} s, and were to query for {asked:.6g} s"


def _of_open_loop(point: CheckedPoint, times: np.ndarray, active: float, shown: float) -> Iterator[str]:
    """Queries come at the rate until the last is due; the run ends with the last answer."""
    rate, due = point.number("rate"), point.number("queries_due")
    if rate is None or rate <= 0 or due is None:
        yield "does not say at which rate queries came (rate, queries_due)"
        return
    asked, unanswered = point.number("queries_asked") or 0.0, point.number("queries_unanswered") or 0.0
    if len(times) != point.number("queries_counted"):
        yield f"counted {point.attrs.get('queries_counted')} queries, and has {len(times):,} latencies"
    elif point.series.driver == OWN_DRIVER and not len(times) == due == asked + unanswered:
        yield (
            f"has {len(times):,} latencies, and says that {due:,.0f} queries came, {asked:,.0f} were sent and"
            f" {unanswered:,.0f} were not"
        )
    most, least = rate * active, rate * max(active - float(times.max()), 0.0)
    if len(times) > most + _chance(most):
        yield f"has {len(times):,} latencies, and a rate of {rate:.6g} gives {most:,.0f} in {active:.6g} s"
    elif due < least - _chance(least):
        yield f"says that {due:,.0f} queries came, and a rate of {rate:.6g} gives {least:,.0f} in its time"
    answered, early = active / shown, rate * (point.number("lead_in_seconds") or 0.0)
    if not asked * (1 - SAME) <= answered <= (asked + early + _chance(early)) * (1 + SAME):
        yield (
            f"has answers to {asked:,.0f} queries in {active:.6g} s, and says {shown:.6g} s a query, which"
            f" are {answered:,.6g}"
        )
    shortest = point.number("service_p50")
    if shortest is not None and float(np.median(times)) < shortest * 0.5:
        yield f"its median latency of {np.median(times):.6g} s is below that of the service, {shortest:.6g} s"


def _chance(arrivals: float) -> float:
    """Return by how many queries chance may miss the expected number of them."""
    return UNLIKELY * math.sqrt(max(arrivals, 0.0)) + 1


def of_cpu(point: CheckedPoint, cores: float | None) -> Iterator[str]:
    """Yield where the server would have had to use more CPUs than there are."""
    used, shown = point.number("server_cpu_seconds_per_query"), point.number("best_search_time")
    limit = point.number("tier_cpus") or cores
    is_external = point.attrs.get("server") == "external"  # which may have more CPUs than its clients
    if used is None or not shown or not limit or is_external:
        return
    seconds = shown * (point.number("queries_asked") or len(point.stored.times))
    needed = used / shown
    if needed > limit * CPU_SLACK + TICKS * limit / max(seconds, 1e-9):
        yield (
            f"a query took {used:.3g} s of CPU and there were {1 / shown:.6g} a second, for which"
            f" {needed:.1f} CPUs are needed: there are {limit:.0f}"
        )


def of_day(point: CheckedPoint) -> Iterator[str]:
    """Yield where times of day contradict each other."""
    begun, ended = point.moment("started_at"), point.moment("ended_at")
    if begun is None or ended is None:
        yield "does not say from when to when it was measured (started_at, ended_at)"
        return
    if ended < begun:
        yield f"ended at {point.attrs['ended_at']}, before it began at {point.attrs['started_at']}"
        return
    started = point.numbers("run_started")
    if any(not begun - CLOCK <= one <= ended + CLOCK for one in started):
        yield "has runs that began outside the time in which it was measured"
    elif any(later < earlier for earlier, later in pairwise(started)):
        yield "has runs that began before the run that precedes them"
    elif any(first < end - CLOCK for (_, end), (first, _) in pairwise(spans(point))):
        yield "has runs that began before the one that precedes them had ended"
    elif started and spans(point)[-1][1] > ended + CLOCK:
        yield "has a run that ended after the point"
    asking = point.number("asking_seconds")
    if asking is not None and asking > ended - begun + CLOCK:
        yield f"sent queries for {asking:.6g} s, in the {ended - begun:.0f} s from its start to its end"


def spans(point: CheckedPoint) -> list[tuple[float, float]]:
    """Return from when to when each run lasted at least, in s since 1970."""
    queries = point.number("queries_counted") if point.number("clients") is not None else None
    shown = point.number("best_search_time")
    found = []
    for start, seconds in zip(point.numbers("run_started"), point.run_seconds, strict=False):
        length = 0.0
        if queries is None:
            length = seconds * point.queries
        elif shown and abs(seconds / shown - 1) < SAME:
            length = point.number("active_seconds") or 0.0
        found.append((start, start + length))
    return found


def check_overlaps(points: Sequence[CheckedPoint], findings: Findings) -> None:
    """Refuse runs of two points that took place on one machine at the same time."""
    every = sorted((*span, point.file) for point in points for span in spans(point))
    end, holder = -math.inf, ""
    said = set()
    for start, stop, file in every:
        if start < end - CLOCK and file != holder and (file, holder) not in said:
            said.add((file, holder))
            what = f"was measured while {holder} was"
            findings.refuse(file, "timings", what, "measure one point after the other")
        if stop > end:
            end, holder = stop, file
