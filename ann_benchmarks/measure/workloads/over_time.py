"""What happened over time: segments, rates of phases, and windows."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ann_benchmarks.load.clients import common_start
from ann_benchmarks.plugin import Answers, Writes
from ann_benchmarks.results.records import Rate
from ann_benchmarks.statistics.intervals import mean_interval
from ann_benchmarks.statistics.percentiles import PERCENTILES

TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Times:
    """Operations of one kind: when each ended, in s from the start of its segment, and how long it took."""

    ends: np.ndarray
    seconds: np.ndarray
    failed: int = 0


def run_together(members: Sequence[Any], tick: Callable[[float], object]) -> float:
    """Run clients and writers that are prepared; return when they started, by perf_counter.

    `tick` is given now and then the seconds that have passed. Whatever fails ends all of them.
    """
    with ThreadPoolExecutor(max(len(members), 1)) as pool:
        start = common_start(sum(map(len, members)))
        running = [pool.submit(member.run, start) for member in members]
        try:
            while wait(running, TICK_SECONDS, FIRST_EXCEPTION).not_done:
                for done in running:
                    if done.done():
                        done.result()
                tick(time.perf_counter() - start)
            for done in running:
                done.result()
        except BaseException:
            for member in members:
                member.abort()  # this wakes whoever waits for one
            raise
    return start


def times_of(answers: Sequence[Answers], start: float) -> Times:
    """Put together what clients or writers have measured; latency counts from when something was due."""
    ends = np.concatenate([given.answered for given in answers]) - start
    begun = [given.sent if given.due is None else given.due for given in answers]
    seconds = np.concatenate([given.answered for given in answers]) - np.concatenate(begun)
    return Times(ends, seconds)


def writes_of(written: Sequence[Writes], start: float) -> Times:
    """Put together what writers have done: a change that did not find its row has failed."""
    return replace(times_of(written, start), failed=sum(int(np.count_nonzero(~w.done)) for w in written))


PIECES = 20  # of a phase, about: the spread of their rates makes the interval


@dataclass(frozen=True)
class Span:
    """A segment in which operations were measured, and how many of them a second."""

    seconds: float
    times: Times
    per_second: float


def rate_of(spans: Sequence[Span], waited: np.ndarray | None = None) -> Rate:
    """Put together what a phase has measured.

    The interval is Student's, of the rates in equal pieces of the time, about 20 in all. Percentiles are of
    all operations, and of the seconds that those which were late have `waited`.
    """
    late = np.empty(0) if waited is None else waited
    latencies = np.concatenate([span.times.seconds for span in spans] + [late])
    seconds = sum(span.seconds for span in spans)
    per_second = sum(span.per_second * span.seconds for span in spans) / seconds
    pieces = [rate for span in spans for rate in _pieces(span, max(PIECES // len(spans), 2))]
    interval = mean_interval(pieces)
    names = [field.name for field in fields(Rate) if field.name in PERCENTILES]
    percents = [PERCENTILES[name] for name in names]
    found = np.percentile(latencies, percents) if len(latencies) else np.zeros(len(names))
    return Rate(
        count=sum(len(span.times.seconds) for span in spans),
        per_second=per_second,
        low=min(interval.low, per_second),
        high=max(interval.high, per_second),
        **{name: float(value) for name, value in zip(names, found, strict=True)},
        failed=sum(span.times.failed for span in spans),
        late=len(late),
    )


def _pieces(span: Span, number: int) -> list[float]:
    counts, _ = np.histogram(span.times.ends, number, (0, span.seconds))
    return [float(count) * number / span.seconds for count in counts]


LEAST_SECONDS = 1.0
WINDOWS = 60  # of the writing
COLUMNS = ("start", "seconds", "queries", "query_p50", "query_p99", "writes", "write_p50", "write_p99",
           "index_size", "recall")  # fmt: skip


class Timeline:
    """Windows of all segments, one after the other."""

    def __init__(self, seconds: float) -> None:
        """Take how long the writing lasts: a window is a sixtieth of it, and a second at least."""
        self.window = max(seconds / WINDOWS, LEAST_SECONDS)
        self.now = 0.0
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def add(
        self,
        seconds: float,
        queries: Times | None,
        writes: Times | None,
        sizes: Sequence[tuple[float, float]],
    ) -> None:
        """Cut a segment into windows; `sizes` are (s from its start, KiB), ascending, one at its end."""
        number = max(round(seconds / self.window), 1)
        edges = np.linspace(0, seconds, number + 1)
        for begin, end in pairwise(edges):
            is_last = end == edges[-1]
            known = [size for moment, size in sizes if moment <= end or is_last]
            row: dict[str, Any] = {"start": self.now + float(begin), "seconds": float(end - begin)}
            for name, one, times in (("queries", "query", queries), ("writes", "write", writes)):
                row[name], row[f"{one}_p50"], row[f"{one}_p99"] = _window_figures(times, begin, end, is_last)
            row["index_size"] = known[-1] if known else None
            row["recall"] = None
            for name, value in row.items():
                self.columns[name].append(value)
        self.now += seconds

    def tell_recall(self, recall: float) -> None:
        """Say what it was at the end of the last segment."""
        self.columns["recall"][-1] = recall


def _window_figures(
    times: Times | None, begin: float, end: float, is_last: bool
) -> tuple[int, float | None, float | None]:
    if times is None:
        return 0, None, None
    inside = times.seconds[(times.ends > begin) & ((times.ends <= end) | is_last)]
    if not len(inside):
        return 0, None, None
    p50, p99 = np.percentile(inside, (50, 99))
    return len(inside), float(p50), float(p99)
