"""Times that cannot have been measured: latencies against wall time, clients, CPUs, and the time of day."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ann_benchmarks.fields.rows import OWN_DRIVER

from .points import CheckedPoint

SAME = 2e-5  # relative: latencies are stored in single precision
FEW = 20  # latencies that may be equal by chance; pgbench counts microseconds
MANY = 1000
MOST_SECONDS = 1e5  # of a query
CLOCK = 2.0  # s, that a clock is set by meanwhile; times of day are stored in whole seconds
CPU_SLACK = 1.15  # of CPU time, which is counted in ticks
SHARE_SLACK = 1.5  # of a share of CPU in one run, of the time of all runs
TICKS = 0.1  # s of CPU, by which short runs may be off
UNLIKELY = 6.0  # standard deviations of a Poisson process


def timing_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield what is wrong with single latencies, else what they contradict."""
    times = point.stored.times.astype(np.float64)
    different = len(np.unique(times))
    if times.min() <= 0 or times.max() > MOST_SECONDS:
        yield "has latencies of 0 s, or of more than a day"
    elif len(times) >= FEW and different == 1 and not point.series.batch:
        yield f"has {len(times):,} latencies that are all the same"
    elif len(times) >= MANY and different < FEW and not point.series.batch:
        yield f"has {different:,} different latencies among {len(times):,}"
    else:
        yield from loop_problems(point)
        yield from _cpu_problems(point)
        yield from _clock_problems(point)


def loop_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield where the latencies of the stored run contradict its throughput."""
    times = point.stored.times.astype(np.float64)
    shown = point.number("best_search_time") or math.nan
    active = point.number("active_seconds")
    if point.number("clients") is None:
        if point.series.batch:
            yield from _batch_problems(point, times, shown)
        elif abs(float(times.mean()) / shown - 1) > SAME:
            yield f"its latencies have a mean of {times.mean():.6g} s, and it says {shown:.6g} s a query"
    elif active is None or active <= 0:
        yield "does not say for how long its clients were active (active_seconds)"
    else:
        problems = _open_loop_problems if point.is_open else _closed_loop_problems
        yield from problems(point, times, active, shown)


def _batch_problems(point: CheckedPoint, times: np.ndarray, mean: float) -> Iterator[str]:
    """A batch lasts as long as any of its queries; a database answers it by a connection for each core."""
    connections, whole = point.number("cores"), mean * point.queries
    if times.max() > whole * (1 + SAME):
        yield f"has a latency of {times.max():.6g} s in a batch of {whole:.6g} s"
    elif times.min() == times.max() and min(abs(times[0] / one - 1) for one in (mean, whole)) > SAME:
        yield f"its latencies have a mean of {times[0]:.6g} s, and it says {mean:.6g} s a query"
    elif connections and "server" in point.attrs and times.sum() > connections * whole * (1 + SAME):
        yield (
            f"its latencies add up to {times.sum():.6g} s, and {connections:.0f} connections had"
            f" {connections * whole:.6g} s in a batch of {whole:.6g} s"
        )


def _closed_loop_problems(
    point: CheckedPoint, times: np.ndarray, active: float, shown: float
) -> Iterator[str]:
    """Each client has one query under way at a time: latencies add up to the time that clients waited."""
    clients = point.number("clients") or 1.0
    longest, total = float(times.max()), float(times.sum())
    added = f"its latencies add up to {total:.6g} s"
    most = clients * (active + longest)
    if total > most * (1 + SAME):
        yield f"{added}, and {clients:.0f} clients had {most:.6g} s in {active:.6g} s"
        return
    waiting = point.number("clients_waiting_share")
    if waiting is None or not 0 <= waiting <= 1 + 1e-3:
        yield f"says that clients waited for {waiting} of the time (clients_waiting_share)"
    elif abs(total - waiting * clients * active) > clients * longest * (1 + SAME) + 1e-3 * active:
        yield f"{added}, and its clients waited for {waiting * clients * active:.6g} s"
    counted = point.number("queries_counted") or 0.0
    if abs(counted - len(times)) > clients + 0.5:
        yield f"says that {counted:,.0f} queries were counted, and has {len(times):,} latencies"
    elif abs(counted * shown / active - 1) > SAME:
        yield (
            f"counted {counted:,.6g} queries in {active:.6g} s, {active / counted:.6g} s a query, and says"
            f" {shown:.6g} s"
        )
    sent, asked = point.number("queries_asked") or 0.0, point.number("asked_duration")
    if sent < len(times):
        yield f"says that {sent:,.0f} queries were sent, and has {len(times):,} latencies"
    if asked and active < 0.5 * asked:
        yield f"its clients were active for {active:.6g} s, and were to query for {asked:.6g} s"


def _open_loop_problems(point: CheckedPoint, times: np.ndarray, active: float, shown: float) -> Iterator[str]:
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


def _cpu_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield where the server would have had to use more CPUs than there are."""
    used, shown = point.number("server_cpu_seconds_per_query"), point.number("best_search_time")
    limit = point.number("tier_cpus") or point.number("cores")
    if point.number("result_format") and point.number("clients") is not None:
        yield from _client_cpu_problems(point)
    if used is None or not shown or not limit:
        return
    seconds = shown * len(point.stored.times)
    needed = used / shown
    if needed > limit * CPU_SLACK + TICKS * limit / max(seconds, 1e-9):
        yield (
            f"a query took {used:.3g} s of CPU and there were {1 / shown:.6g} a second, for which"
            f" {needed:.1f} CPUs are needed: there are {limit:.0f}"
        )


def _client_cpu_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield that the CPU time of clients is not that of their share, of the time for which they sent."""
    cores = point.number("client_cores") or point.number("cores") or 0.0
    share = (point.number("client_cpu_share") or 0.0) * cores
    spent = (point.number("client_cpu_seconds_per_query") or 0.0) * (point.number("queries_asked") or 0.0)
    least, most = (share * (point.number(name) or 0.0) for name in ("active_seconds", "asking_seconds"))
    if not least / SHARE_SLACK <= spent <= most * SHARE_SLACK:
        said = f"{least:.3g} to {most:.3g} s"
        yield f"its clients took {spent:.3g} s of CPU, and by their share (client_cpu_share) {said}"


def _clock_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield where times of day contradict each other."""
    begun, ended = point.moment("started_at"), point.moment("ended_at")
    if begun is None or ended is None:
        yield "does not say from when to when it was measured (started_at, ended_at)"
        return
    if ended < begun:
        yield f"ended at {point.attrs['ended_at']}, before it began at {point.attrs['started_at']}"
        return
    started, lasted = point.numbers("run_started"), spans(point)
    if any(not begun - CLOCK <= one <= ended + CLOCK for one in started):
        yield "has runs that began outside the time in which it was measured"
    elif any(later < earlier for earlier, later in pairwise(started)):
        yield "has runs that began before the run that precedes them"
    elif any(first < end - CLOCK for (_, end), (first, _) in pairwise(lasted)):
        yield "has runs that began before the one that precedes them had ended"
    elif started and lasted[-1][1] > ended + CLOCK:
        yield "has a run that ended after the point"
    asking = point.number("asking_seconds")
    if asking is not None and asking > ended - begun + CLOCK:
        yield f"sent queries for {asking:.6g} s, in the {ended - begun:.0f} s from its start to its end"


def spans(point: CheckedPoint) -> list[tuple[float, float]]:
    """Return from when to when each run lasted at least, in s since 1970."""
    has_clients = point.number("clients") is not None and point.number("queries_counted") is not None
    shown = point.number("best_search_time")
    found = []
    for start, seconds in zip(point.numbers("run_started"), point.run_seconds, strict=False):
        length = 0.0
        if not has_clients:
            length = seconds * point.queries
        elif shown and abs(seconds / shown - 1) < SAME:
            length = point.number("active_seconds") or 0.0
        found.append((start, start + length))
    return found
