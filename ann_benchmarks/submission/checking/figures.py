"""Stored answers beside the true neighbours, and stored figures beside those that follow from what is raw."""

import math
from collections.abc import Iterator

import numpy as np

from ann_benchmarks.measure.filtering import filter_figures
from ann_benchmarks.results.measurement import completeness_of_each, run_throughputs, share_of_due
from ann_benchmarks.statistics.intervals import mean_interval, share_interval
from ann_benchmarks.statistics.percentiles import PERCENTILES

from .points import CheckedPoint
from .truth import different_distances, places, repeats, tolerance

SAME = 2e-5  # relative: latencies are stored in single precision
CLOSE = 1e-6  # of shares
RECALL_APART = 0.01  # by which recall by distances may exceed that by rows without a word
BUCKET = 1e-6  # relative width about an edge, within which a latency may lie on either side
WAITING = 0.25  # of the time, by which clients of other runs may have waited longer
UNEQUAL, UNEQUAL_SECONDS = 0.9, 0.1  # share and s of the duration that runs last at least
APART = 0.01  # relative: what is interpolated, and queries at the ends of runs
LISTS = ("run_seconds", "run_started", "run_recalls", "run_p50")


def impossible_answers(point: CheckedPoint) -> list[str]:
    """Say which answers no search of this dataset can give, else where they contradict the truth."""
    rows, distances = point.stored.neighbors, point.stored.distances.astype(np.float64)
    none, count = rows < 0, int(repeats(rows).sum())
    rules = {
        f"has rows that a dataset of {point.facts.rows:,} has not": rows.max() >= point.facts.rows,
        f"has a row twice in the answers to {count:,} queries": count,
        "has rows after the end of an answer": (np.diff(none.astype(np.int8), axis=1) < 0).any(),
        "has rows without a distance, or distances without a row": (np.isposinf(distances) != none).any(),
    }
    return [text for text, is_broken in rules.items() if is_broken] or [*_contradictions(point, distances)]


def _contradictions(point: CheckedPoint, distances: np.ndarray) -> Iterator[str]:
    """Yield where answers contradict the true neighbours."""
    rows, truth = point.stored.neighbors, point.truth
    ordered = np.sort(distances, axis=1)
    width = min(ordered.shape[1], truth.distances.shape[1])
    best, last = truth.distances[:, :width], truth.distances[:, -1:]
    with np.errstate(invalid="ignore"):
        if count := int((ordered[:, :width] < best - tolerance(best)).any(axis=1).sum()):
            yield f"has answers to {count:,} queries that are nearer than the true nearest rows"
        if count := int(different_distances(rows, distances, truth).any(axis=1).sum()):
            yield f"has other distances than the truth of the same rows, for {count:,} queries"
        nearer = (places(truth.rows, rows) < 0) & (rows >= 0) & (distances < last - tolerance(last))
    if count := int(nearer.any(axis=1).sum()):
        yield f"has rows that would be among the true nearest of {count:,} queries, and are not"


def answer_remarks(point: CheckedPoint) -> Iterator[str]:
    """Yield what a reviewer should know of answers that can have been given."""
    rows, distances = point.stored.neighbors, point.stored.distances.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unsorted = (np.diff(distances, axis=1) < -tolerance(distances[:, 1:])).any(axis=1).sum()
    if unsorted:
        yield f"the answers to {int(unsorted):,} queries are not in order"
    found = places(point.truth.rows[:, : point.count], rows)
    due = point.truth.due(point.count)
    due = np.full(len(rows), point.count) if due is None else due
    hits = ((found >= 0) & (found < due[:, None])).sum(axis=1)
    by_rows = float(share_of_due(hits, due).mean())
    if point.recall - by_rows > RECALL_APART:
        yield (
            f"its recall is {point.recall:.4f} by distances and {by_rows:.4f} by rows: many rows are nearly"
            " as near as the k-th"
        )


def figure_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield which figures do not follow from the answers and times."""
    yield from _answer_figures(point)
    yield from _run_figures(point)
    yield from _latency_figures(point)
    yield from _build_figures(point)


def _answer_figures(point: CheckedPoint) -> Iterator[str]:
    computed = dict(zip(("recall_low", "recall_high"), share_interval(point.recalls), strict=True))
    due, matches = point.truth.due(point.count), point.truth.matches
    if due is not None and matches is not None:
        computed |= filter_figures(completeness_of_each(point.stored.distances, due))
        computed["queries_without_matches"] = float((matches == 0).sum())
    for name, value in computed.items():
        yield from _differs(point, name, value, CLOSE)
    run_recalls = point.numbers("run_recalls")
    if run_recalls and min(abs(one - point.recall) for one in run_recalls) > CLOSE:
        yield f"the recall by its answers is {point.recall:.6g}, which is that of none of its run_recalls"
    found = float((point.stored.neighbors >= 0).sum()) / len(point.stored.neighbors)
    candidates = point.number("candidates")
    in_one_run = "clients" not in point.attrs  # else it is the mean of all answers, repeated ones too
    if in_one_run and candidates is not None and candidates < found * (1 - SAME):
        yield f"says candidates {candidates:.6g}, and its answers have {found:.6g} rows a query"


def _run_figures(point: CheckedPoint) -> Iterator[str]:
    """Yield what does not follow from the seconds of the runs."""
    seconds, count = point.run_seconds, point.number("run_count")
    lengths = {name: len(point.numbers(name)) for name in LISTS}
    if count is None or set(lengths.values()) != {int(count)}:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        yield f"says run_count {point.attrs.get('run_count')}, and lists of runs have other lengths: {said}"
        return
    rates = run_throughputs(point.attrs)
    # Earlier versions took runs to be independent.
    former = mean_interval(rates, are_independent=True)
    is_former = abs((point.number("qps_low") or 0.0) - former.low) <= SAME * max(rates)
    bounds = former if is_former else mean_interval(rates)
    for name, value in zip(("qps_mean", "qps_low", "qps_high"), (point.qps, *bounds), strict=True):
        if math.isfinite(value):
            yield from _differs(point, name, value, SAME * max(rates))
        elif point.number(name) is not None:
            yield f"says {name} {point.attrs[name]:.6g} of one run, which has no interval"
    shown = point.number("best_search_time")
    if shown is None or min(abs(one / shown - 1) for one in seconds) > SAME:
        yield f"says best_search_time {shown}, which is that of none of its runs"
    elif not point.is_open and abs(min(seconds) / shown - 1) > SAME:
        yield f"says best_search_time {shown:.6g}, and its fastest run has {min(seconds):.6g}"


def _latency_figures(point: CheckedPoint) -> Iterator[str]:
    """Yield what does not follow from the latencies of the stored run, and the histogram of all runs."""
    times = point.stored.times.astype(np.float64)
    number, runs = point.number("latency_queries"), point.number("run_count") or 1
    edges, counts = point.stored.edges, point.stored.counts
    if number is None or not len(counts):
        yield "has no histogram of its latencies"
        return
    if len(edges) != len(counts) + 1 or (np.diff(edges) <= 0).any() or counts.min() < 0 or edges[0] <= 0:
        yield "has a histogram whose edges do not ascend from above 0, or do not fit its counts"
        return
    if counts.sum() != number or number < len(times) or (runs == 1 and number != len(times)):
        yield (
            f"says {number:,.0f} latencies, has {len(times):,} of one of {runs:.0f} runs, and its histogram"
            f" {counts.sum():,}"
        )
        return
    if exceeding := _beyond_histogram(times, edges, counts):
        yield f"has {exceeding:,} latencies that its histogram of all runs has not"
    for percentile, percent in PERCENTILES.items():
        name = f"latency_{percentile}"
        value = point.number(name)
        low, high = percentile_bounds(edges, counts, percent)
        if value is None or not low * (1 - BUCKET) <= value <= high * (1 + BUCKET):
            yield f"says {name} {value}, and its histogram says {low:.6g} to {high:.6g}"
        elif runs == 1:
            yield from _differs(point, name, float(np.percentile(times, percent)), SAME * value)
        below, above = point.number(f"{name}_low"), point.number(f"{name}_high")
        if None not in (value, below, above) and not below <= value <= above:  # type: ignore[operator]
            yield f"says {name} {value:.6g}, which is not in its own interval"
    medians, half = point.numbers("run_p50"), point.number("latency_p50")
    if medians and min(abs(float(np.median(times)) / one - 1) for one in medians if one > 0) > SAME:
        yield "its latencies have a median that is that of none of its runs (run_p50)"
    if medians and half and not min(medians) * (1 - APART) <= half <= max(medians) * (1 + APART):
        said = f"{min(medians):.6g} to {max(medians):.6g}"
        yield f"says latency_p50 {half:.6g} of all runs, which have medians (run_p50) of {said}"
    yield from _queries_of_all_runs(point, edges, counts)


def _queries_of_all_runs(point: CheckedPoint, edges: np.ndarray, counts: np.ndarray) -> Iterator[str]:
    """Yield where the histogram cannot be of so many runs with these seconds."""
    seconds, number, clients = point.run_seconds, int(counts.sum()), point.number("clients")
    said = f"has {number:,} latencies of all runs"
    if clients is None:
        queries, total = point.queries * len(seconds), math.fsum(seconds) * point.queries
        least, most = float((counts * edges[:-1]).sum()), float((counts * edges[1:]).sum())
        if number != queries:
            yield f"{said}, which sent {queries:,} queries"
        elif not point.series.batch and not least * (1 - SAME) <= total <= most * (1 + SAME):
            yield f"its runs took {total:.6g} s, and by the histogram of all runs {least:.6g} to {most:.6g} s"
    elif not point.is_open:
        asking, asked = point.number("asking_seconds") or 0.0, point.number("asked_duration")
        most = asking / min(seconds) + clients * len(seconds)
        if number > most * (1 + APART):
            yield f"{said}, which had time for {most:,.0f} ({asking:.6g} s)"
        # What clients wait for in all is what they have waited for in the stored run, or all of the time.
        waiting = min((point.number("clients_waiting_share") or 0.0) + WAITING, 1.0) * clients
        rest = clients * len(seconds) * float(edges[-1]) / number
        mean, longest = float((counts * edges[:-1]).sum()) / number, waiting * float(np.mean(seconds)) + rest
        if mean > longest * (1 + APART):
            yield f"{said} of {mean:.6g} s, and by their seconds they lasted {longest:.6g} s at most"
        if asked:
            # Clients begin and end a run of the requested duration at somewhat different times.
            active = max(UNEQUAL * min(asked, point.number("active_seconds") or 0.0) - UNEQUAL_SECONDS, 0.0)
            fewest = sum(active / one - clients for one in seconds)
        else:
            fewest = UNEQUAL * len(seconds) * len(point.stored.times) - clients * len(seconds)
        if number < fewest:
            yield f"{said}, and by their seconds more than {fewest:,.0f}"


def _build_figures(point: CheckedPoint) -> Iterator[str]:
    """Yield what cannot be of the build."""
    whole, size = point.number("build_time"), point.number("index_size")
    parts = [point.number(name) or 0.0 for name in ("load_time", "index_build_time")]
    more = point.number("attribute_index_build_time") or 0.0
    if whole is None or whole < 0 or min(parts) < 0:
        yield f"says build_time {point.attrs.get('build_time')}"
    elif sum(parts) and not sum(parts) * 0.99 - 0.05 <= whole <= (sum(parts) + more) * 1.01 + 0.05:
        said = f"load_time {parts[0]:.6g} s, index_build_time {parts[1]:.6g} s"
        yield f"says build_time {whole:.6g} s, and {said}"
    if size is not None and size < 0:
        yield f"says index_size {size:.6g}"


def percentile_bounds(edges: np.ndarray, counts: np.ndarray, percent: float) -> tuple[float, float]:
    """Return between which seconds a percentile of the latencies lies, by their histogram."""
    place = percent / 100 * (int(counts.sum()) - 1)
    ranks = [math.floor(place), math.ceil(place)]
    low, high = np.searchsorted(np.cumsum(counts), ranks, side="right")
    return float(edges[low]), float(edges[min(high, len(counts) - 1) + 1])


def _beyond_histogram(times: np.ndarray, edges: np.ndarray, counts: np.ndarray) -> int:
    """Return how many latencies have no place in a histogram that counts them among others.

    In single precision a latency may lie on the other side of an edge: up to each edge, the run may not have
    more than all runs, nor beyond it.
    """
    ordered, upto = np.sort(times), np.concatenate([[0], np.cumsum(counts)])
    surely_below = np.searchsorted(ordered, edges * (1 - BUCKET))
    perhaps_below = np.searchsorted(ordered, edges * (1 + BUCKET), side="right")
    surely_above = len(ordered) - perhaps_below
    too_many = np.maximum(surely_below - upto, surely_above - (upto[-1] - upto))
    inside = surely_below[1:] - perhaps_below[:-1] - counts
    return int(max(too_many.max(), inside.max(), 0))


def _differs(point: CheckedPoint, name: str, value: float, by: float) -> Iterator[str]:
    said = point.number(name)
    if said is None or abs(said - value) > by:
        text = "nothing" if said is None else f"{said:.6g}"
        yield f"says {name} {text}, and by what it stores it is {value:.6g}"
