"""The timed part: queries are sent, their seconds and their answers kept, nothing else."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.job import Conditions, Procedure
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Caches, Warmup, send_in_pieces, warm_up
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.plugin import Plugin

from .answers import checked_neighbors
from .observed import RunWatch, UndisturbedRuns

PROGRESS_SECONDS = 0.3
FIRST_PIECE = 50  # queries


@dataclass(frozen=True, eq=False)
class Subject:
    """What is measured: a built index, the queries that are sent to it, and who observes that."""

    plugin: Plugin
    queries: Any  # a vector a row, or a list: of sets, or of FilteredVector
    count: int  # neighbours
    rows: int  # of the training set
    conditions: Conditions | None = None
    monitor: Phases = field(default_factory=NoMonitor)
    quiet: bool | None = True  # `disable` of progress bars
    all_repeats: UndisturbedRuns | None = (
        None  # of disturbed runs, in all that is measured; None: of each point
    )
    capacities: dict[str, float] = field(default_factory=dict)  # of closed loops, for runs in rounds
    # Neighbours for all queries, (queries, at least count), by the query arguments; None: they are not kept.
    known_answers: dict[str, np.ndarray] | None = None
    check: Callable[[np.ndarray], None] | None = None  # of answers, (queries, n), where queries have filters

    @contextmanager
    def watched(self) -> Iterator[RunWatch]:
        """Have the plug-in observe its server in runs, and see that the conditions hold."""
        watch = RunWatch(self.plugin.watch_server(), self.conditions)
        try:
            yield watch
        finally:
            watch.close()

    def checked(self, answers: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Return answers as an array, (queries, at least count), -1 for none; UserError names a wrong one."""
        neighbors = checked_neighbors(answers, self.count, self.rows)
        if self.check is not None:
            self.check(neighbors)
        return neighbors

    def repeats(self, most: int) -> UndisturbedRuns:
        """Allow this many repeats of disturbed runs, or what is left of `all_repeats`."""
        return self.all_repeats or self.new_repeats(most)

    def new_repeats(self, most: int) -> UndisturbedRuns:
        """Allow this many repeats; none of cold runs where caches cannot be emptied."""
        return UndisturbedRuns(most, lambda: self.plugin.get_additional().get("caches_dropped") is not False)


def measure_each(
    subject: Subject, procedure: Procedure, runs: int, caches: Caches = Caches.UNKNOWN
) -> list[Measured]:
    """Send all queries once a run, warmed up before, or with cold caches each time.

    Without a requested warm-up, plug-ins of ann-benchmarks, which may count what they do, get none.
    """
    plugin, queries, monitor = subject.plugin, subject.queries, subject.monitor
    warmup, is_cold = procedure.warmup, procedure.is_cold
    if warmup is None:
        warmup = Warmup("auto" if plugin.has("time_queries") and not procedure.batch else "off")
    total = runs * len(queries)
    bar = tqdm(total=total, desc=f"{plugin}", unit="query", disable=subject.quiet, leave=False)
    with bar, monitor.phase("measure"), subject.watched() as watch:
        with monitor.phase("warm-up"):
            send_for, send = _warmup_queries(subject)
            numbers = np.arange(len(queries))
            send_each = partial(send_in_pieces, numbers, 1, lambda part: send(len(part)))
            facts = warm_up(warmup, send_for, send, lambda rate: len(queries) / rate, caches, send_each)
        repeats = subject.repeats(runs)

        def measured_once(number: int) -> Measured:
            def progress(done: int) -> None:
                bar.update(number * len(queries) + done - bar.n)

            if is_cold:
                with monitor.phase("cool"):
                    if plugin.cool():
                        watch.close()  # what it was connected to is gone
            started = time.time()
            with watch.running():
                run = measure(subject, procedure.batch, progress)
            return replace(run, facts=facts | watch.facts(len(queries)), started=started)

        return [repeats.least_disturbed(partial(measured_once, number)) for number in range(runs)]


def _warmup_queries(subject: Subject) -> tuple[Callable[[float], int], Callable[[int], None]]:
    """Return what sends queries for a number of seconds, and returns how many, and what sends a number."""
    plugin, queries, count = subject.plugin, subject.queries, subject.count
    place = 0

    def send(number: int) -> None:
        nonlocal place
        chosen = [queries[(place + i) % len(queries)] for i in range(number)]
        place += number
        if plugin.time_queries:
            plugin.time_queries(chosen, count)
        elif prepared := plugin.prepared:
            for query in chosen:
                prepared.prepare(query, count)
                prepared.run()
        else:
            for query in chosen:
                plugin.query(query, count)

    def send_for(seconds: float) -> int:
        sent, piece, end = 0, 1, time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            send(piece)
            sent += piece
            if time.perf_counter() - now < seconds / 20:
                piece = min(2 * piece, len(queries))
        return sent

    return send_for, send


def measure(subject: Subject, batch: bool, progress: Callable[[int], Any] = lambda done: None) -> Measured:
    """Send all queries once; UserError names the query whose answer cannot be right.

    `progress` is given now and then how many queries are done. One by one, a query's mean is that of the
    times; as a batch, it is the wall time over the queries.
    """
    plugin, queries = subject.plugin, subject.queries
    if batch:
        times, answers, seconds = _send_batch(plugin, queries, subject.count)
    elif plugin.time_queries:
        times, answers = _send_in_pieces(plugin, queries, subject.count, progress)
        seconds = sum(times)
    else:
        times, answers = _send_each(plugin, queries, subject.count, progress)
        seconds = sum(times)
    if len(answers) != len(queries) or len(times) != len(queries):
        raise UserError(
            f"{plugin} gave {len(answers)} answers and {len(times)} latencies to {len(queries)} queries"
        )
    progress(len(queries))
    neighbors = subject.checked(answers)
    return Measured(np.array(times), neighbors, seconds / len(queries))


def _send_each(
    plugin: Plugin, queries: Sequence[Any], count: int, progress: Callable[[int], Any]
) -> tuple[list[float], list[list[int]]]:
    times = [0.0] * len(queries)
    answers: list[list[int]] = [[]] * len(queries)
    sizes = [0] * len(queries)
    clock = time.perf_counter
    # What happens between `stop` and the next `start` is not timed. An answer is copied at once, because a
    # plug-in may fill the same array again; it must have a length, so that no work is left for the copying.
    with _quiet_collector():
        due = clock() + PROGRESS_SECONDS
        if prepared := plugin.prepared:
            prepare, run, result = prepared.prepare, prepared.run, prepared.results
            for i, query in enumerate(queries):
                prepare(query, count)
                start = clock()
                run()
                stop = clock()
                answer = result()
                times[i] = stop - start
                sizes[i] = len(answer)
                answers[i] = list(answer)
                if stop > due:
                    progress(i + 1)
                    due = clock() + PROGRESS_SECONDS
        else:
            send = plugin.query
            for i, query in enumerate(queries):
                start = clock()
                answer = send(query, count)
                stop = clock()
                times[i] = stop - start
                sizes[i] = len(answer)
                answers[i] = list(answer)
                if stop > due:
                    progress(i + 1)
                    due = clock() + PROGRESS_SECONDS
    return times, answers


def _send_in_pieces(
    plugin: Plugin, queries: Sequence[Any], count: int, progress: Callable[[int], Any]
) -> tuple[list[float], list[list[int]]]:
    """Let the plug-in time its own queries, in pieces of about the time between two signs of progress."""
    time_queries = plugin.time_queries
    assert time_queries is not None
    times: list[float] = []
    answers: list[list[int]] = []
    piece = FIRST_PIECE
    with _quiet_collector():
        while len(answers) < len(queries):
            chosen = queries[len(answers) : len(answers) + piece]
            seconds, found = time_queries(chosen, count)
            if not len(chosen) == len(seconds) == len(found):
                raise UserError(f"{plugin} gave {len(found)} answers to {len(chosen)} queries")
            times += map(float, seconds)
            answers += found
            progress(len(answers))
            piece = max(1, round(PROGRESS_SECONDS * len(times) / max(sum(times), 1e-9)))
    return times, answers


def _send_batch(plugin: Plugin, queries: Any, count: int) -> tuple[list[float], list[Any], float]:
    with _quiet_collector():
        run = plugin.prepare_batch(queries, count)
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
    answers = list(plugin.get_batch_results())
    return plugin.batch_latencies(seconds, len(queries)), answers, seconds


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Spare the garbage collector what exists already: a full collection would show in the latencies."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
