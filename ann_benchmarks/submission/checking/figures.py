"""Stored figures beside those that follow from the stored answers and times."""

import math
from collections.abc import Iterator

import numpy as np

from ann_benchmarks.fields.rows import OWN_DRIVER

from .arithmetic import Neighborhood, completeness, percentile_bounds, recalls, student, wilson
from .points import CheckedPoint
from .rules import Findings

ADVICE = "measure the point again"
SAME = 2e-5  # relative: latencies are stored in single precision
CLOSE = 1e-6  # of shares
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
BUCKET = 1e-6  # relative width about an edge, within which a latency may lie on either side
UNEQUAL, UNEQUAL_SECONDS = 0.9, 0.1  # share and s of the duration that runs last at least
APART = 0.01  # relative: what is interpolated, and queries at the ends of runs


def check_figures(point: CheckedPoint, truth: Neighborhood, findings: Findings) -> None:
    """Refuse a point whose figures do not follow from its answers and times."""
    for problem in (*of_answers(point, truth), *of_runs(point), *of_latencies(point), *of_build(point)):
        findings.refuse(point.file, "figures", problem, ADVICE)


def of_answers(point: CheckedPoint, truth: Neighborhood) -> Iterator[str]:
    """Yield what does not follow from the answers."""
    each = recalls(point.stored.distances, truth, point.has_slack)
    computed = dict(zip(("recall_low", "recall_high"), wilson(each), strict=True))
    if truth.matches is not None:
        complete = completeness(point.stored.neighbors, truth)
        short = (complete < 1).astype(float)
        for name, values in (("completeness", complete), ("short_answers", short)):
            computed[name] = float(values.mean())
            computed[f"{name}_low"], computed[f"{name}_high"] = wilson(values)
        computed["queries_without_matches"] = float((truth.matches == 0).sum())
    for name, value in computed.items():
        yield from _differs(point, name, value, CLOSE)
    of_runs = point.numbers("run_recalls")
    if of_runs and min(abs(one - point.recall) for one in of_runs) > CLOSE:
        yield f"the recall by its answers is {point.recall:.6g}, which is that of none of its run_recalls"
    found = float((point.stored.neighbors >= 0).sum()) / len(each)
    candidates = point.number("candidates")
    in_one_run = "clients" not in point.attrs  # else it is the mean of all answers, repeated ones too
    if in_one_run and candidates is not None and candidates < found * (1 - SAME):
        yield f"says candidates {candidates:.6g}, and its answers have {found:.6g} rows a query"


def of_runs(point: CheckedPoint) -> Iterator[str]:
    """Yield what does not follow from the seconds of the runs."""
    seconds, count = point.run_seconds, point.number("run_count")
    lists = ("run_seconds", "run_started", "run_recalls", "run_p50")
    lengths = {name: len(point.numbers(name)) for name in lists}
    if count is None or set(lengths.values()) != {int(count)}:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        yield f"says run_count {point.attrs.get('run_count')}, and lists of runs have other lengths: {said}"
        return
    rates = [1 / one for one in seconds]
    low, high = student(rates)
    computed = {"qps_mean": point.qps, "qps_low": low, "qps_high": high}
    for name, value in computed.items():
        if math.isfinite(value):
            yield from _differs(point, name, value, SAME * max(rates))
        elif point.number(name) is not None:
            yield f"says {name} {point.attrs[name]:.6g} of one run, which has no interval"
    shown = point.number("best_search_time")
    if shown is None or min(abs(one / shown - 1) for one in seconds) > SAME:
        yield f"says best_search_time {shown}, which is that of none of its runs"
    elif not point.is_open and abs(min(seconds) / shown - 1) > SAME:
        yield f"says best_search_time {shown:.6g}, and its fastest run has {min(seconds):.6g}"


def of_latencies(point: CheckedPoint) -> Iterator[str]:
    """Yield what does not follow from the latencies of the stored run, and the histogram of all runs."""
    times = point.stored.times.astype(np.float64)
    number, runs = point.number("latency_queries"), point.number("run_count") or 1
    edges, counts = point.stored.edges, point.stored.counts
    if number is None or not len(counts):
        yield "has no histogram of its latencies"
        return
    if len(edges) != len(counts) + 1 or (np.diff(edges) <= 0).any() or counts.min() < 0 or edges[0] <= 0:
        yield "has a histogram that is none"
        return
    if counts.sum() != number or number < len(times) or (runs == 1 and number != len(times)):
        yield (
            f"says {number:,.0f} latencies, has {len(times):,} of one of {runs:.0f} runs, and its histogram"
            f" {counts.sum():,}"
        )
        return
    if exceeding := _beyond_histogram(times, edges, counts):
        yield f"has {exceeding:,} latencies that its histogram of all runs has not"
    for name, percent in PERCENTILES.items():
        value = point.number(f"latency_{name}")
        low, high = percentile_bounds(edges, counts, percent)
        if value is None or not low * (1 - BUCKET) <= value <= high * (1 + BUCKET):
            yield f"says latency_{name} {value}, and its histogram says {low:.6g} to {high:.6g}"
        elif runs == 1:
            yield from _differs(point, f"latency_{name}", float(np.percentile(times, percent)), SAME * value)
        ends = [point.number(f"latency_{name}_{end}") for end in ("low", "high")]
        if value is not None and None not in ends and not ends[0] <= value <= ends[1]:  # type: ignore[operator]
            yield f"says latency_{name} {value:.6g}, which is not in its own interval"
    medians = point.numbers("run_p50")
    if medians and min(abs(float(np.median(times)) / one - 1) for one in medians if one > 0) > SAME:
        yield "its latencies have a median that is that of none of its runs (run_p50)"
    yield from _of_all_runs(point, edges, counts)


def _of_all_runs(point: CheckedPoint, edges: np.ndarray, counts: np.ndarray) -> Iterator[str]:
    """Yield where the histogram cannot be of so many runs with these medians and seconds."""
    medians, half = point.numbers("run_p50"), point.number("latency_p50")
    if medians and half and not min(medians) * (1 - APART) <= half <= max(medians) * (1 + APART):
        said = f"{min(medians):.6g} to {max(medians):.6g}"
        yield f"says latency_p50 {half:.6g} of all runs, which have medians (run_p50) of {said}"
    number, clients = int(counts.sum()), point.number("clients")
    if clients is None:
        queries = point.queries * len(point.run_seconds)
        total = math.fsum(point.run_seconds) * point.queries
        least, most = float((counts * edges[:-1]).sum()), float((counts * edges[1:]).sum())
        if number != queries:
            yield f"has {number:,} latencies of all runs, which sent {queries:,} queries"
        elif not point.series.batch and not least * (1 - SAME) <= total <= most * (1 + SAME):
            yield f"its runs took {total:.6g} s, and by the histogram of all runs {least:.6g} to {most:.6g} s"
    elif not point.is_open and point.series.driver == OWN_DRIVER:
        asking = point.number("asking_seconds") or 0.0
        most = asking / min(point.run_seconds) + clients * len(point.run_seconds)
        if number > most * (1 + APART):
            yield f"has {number:,} latencies of all runs, which had time for {most:,.0f} ({asking:.6g} s)"
        yield from _of_equal_runs(point, number)


def _of_equal_runs(point: CheckedPoint, number: int) -> Iterator[str]:
    """Yield where runs of the same requested duration have answered more by their throughput than they have.

    `number` is that of the latencies of all runs. Clients begin and end a run at somewhat different times.
    """
    asked, clients = point.number("asked_duration"), point.number("clients") or 1.0
    if not asked or point.number("asked_queries") is not None:
        return
    active = min(asked, point.number("active_seconds") or 0.0)
    queries = sum(max(UNEQUAL * active - UNEQUAL_SECONDS, 0.0) / one - clients for one in point.run_seconds)
    if number < queries:
        yield f"has {number:,} latencies of all runs, and by their seconds more than {queries:,.0f}"


def of_build(point: CheckedPoint) -> Iterator[str]:
    """Yield what cannot be of the build."""
    whole = point.number("build_time")
    parts = [point.number(name) or 0.0 for name in ("load_time", "index_build_time")]
    more = point.number("attribute_index_build_time") or 0.0
    if whole is None or whole < 0 or min(parts) < 0:
        yield f"says build_time {point.attrs.get('build_time')}"
    elif sum(parts) and not sum(parts) * 0.99 - 0.05 <= whole <= (sum(parts) + more) * 1.01 + 0.05:
        said = f"load_time {parts[0]:.6g} s, index_build_time {parts[1]:.6g} s"
        yield f"says build_time {whole:.6g} s, and {said}"
    size = point.number("index_size")
    if size is not None and size < 0:
        yield f"says index_size {size:.6g}"


def _beyond_histogram(times: np.ndarray, edges: np.ndarray, counts: np.ndarray) -> int:
    """Return how many latencies have no place in a histogram that counts them among others.

    In single precision a latency may lie on the other side of an edge: up to each edge, the run may not have
    more than all runs, nor beyond it.
    """
    ordered, upto = np.sort(times), np.concatenate([[0], np.cumsum(counts)])
    surely_below = np.searchsorted(ordered, edges * (1 - BUCKET))
    surely_above = len(ordered) - np.searchsorted(ordered, edges * (1 + BUCKET), side="right")
    too_many = np.maximum(surely_below - upto, surely_above - (upto[-1] - upto))
    inside = (
        np.searchsorted(ordered, edges[1:] * (1 - BUCKET))
        - np.searchsorted(ordered, edges[:-1] * (1 + BUCKET), side="right")
        - counts
    )
    return int(max(too_many.max(), inside.max(), 0))


def _differs(point: CheckedPoint, name: str, value: float, by: float) -> Iterator[str]:
    said = point.number(name)
    if said is None or abs(said - value) > by:
        text = "nothing" if said is None else f"{said:.6g}"
        yield f"says {name} {text}, and by what it stores it is {value:.6g}"
