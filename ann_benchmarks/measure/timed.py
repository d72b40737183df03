"""The timed part: queries are asked, their seconds and their answers kept, nothing else."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.conditions import Conditions
from ann_benchmarks.load.measured import Measured
from ann_benchmarks.load.warmup import Warmup, warm_up
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.plugin import Watch

PROGRESS_SECONDS = 0.3
FIRST_PIECE = 50  # queries


def measure_each(
    algo: Any,
    queries: Any,
    count: int,
    batch: bool,
    rows: int,
    runs: int,
    warmup: Warmup | None,
    quiet: bool | None,
    conditions: Conditions | None = None,
    monitor: Phases | None = None,
) -> list[Measured]:
    """Ask all queries `runs` times, warmed up before, or with cold caches each time.

    Where nothing is said of it, plug-ins of ann-benchmarks, which may count what they do, are not warmed up.
    """
    if warmup is None:
        warmup = Warmup("auto" if hasattr(algo, "time_queries") and not batch else "off")
        is_cold = False
    else:
        is_cold = warmup.is_off
    measured = []
    monitor = monitor or NoMonitor()
    bar = tqdm(total=runs * len(queries), desc=f"{algo}", unit="query", disable=quiet, leave=False)
    with bar, monitor.phase("measure"), watched(algo, conditions) as watch:
        with monitor.phase("warm-up"):
            facts = warm_up(warmup, *_ways_to_ask(algo, queries, count), lambda rate: len(queries) / rate)
        for number in range(runs):
            before = number * len(queries)

            def progress(done: int, before: int = before) -> None:
                bar.update(before + done - bar.n)

            if is_cold and hasattr(algo, "cool"):
                with monitor.phase("cool"):
                    algo.cool()
                    watch.close()  # what it was connected to is gone
            with watch.running():
                run = measure(algo, queries, count, batch, rows, progress)
            told = watch.facts(len(queries))
            measured.append(replace(run, facts=facts | told))
    return measured


def _ways_to_ask(algo: Any, queries: Any, count: int) -> tuple[Callable[[float], int], Callable[[int], None]]:
    """Return how to ask for so many seconds, which returns how many were asked, and how to ask so many."""
    place = 0

    def ask(number: int) -> None:
        nonlocal place
        asked = [queries[(place + i) % len(queries)] for i in range(number)]
        place += number
        if hasattr(algo, "time_queries"):
            algo.time_queries(asked, count)
        elif hasattr(algo, "prepare_query"):
            for query in asked:
                algo.prepare_query(query, count)
                algo.run_prepared_query()
        else:
            for query in asked:
                algo.query(query, count)

    def ask_for(seconds: float) -> int:
        asked, piece, end = 0, 1, time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            ask(piece)
            asked += piece
            if time.perf_counter() - now < seconds / 20:
                piece = min(2 * piece, len(queries))
        return asked

    return ask_for, ask


class NoWatch:
    """Nobody watches what a plug-in does in a run."""

    def running(self) -> AbstractContextManager[None]:
        """Go around the timed part."""
        return nullcontext()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what was seen, for each of so many queries."""
        return {}

    def close(self) -> None:
        """End it."""


@contextmanager
def watched(algo: Any, conditions: Conditions | None = None) -> Iterator[Any]:
    """Have a plug-in watch its server in runs, if it has one, and see that the conditions hold."""
    watch = algo.watch_server() if hasattr(algo, "watch_server") else NoWatch()
    if conditions is not None:
        watch = WatchedUnder(watch, conditions)
    try:
        yield watch
    finally:
        watch.close()


def measure(
    algo: BaseANN, queries: Any, count: int, batch: bool, rows: int, progress: Callable[[int], Any]
) -> Measured:
    """Ask all queries once; UserError names the query whose answer cannot be right.

    `rows` is the size of the training set. `progress` is told now and then how many queries are done.
    One by one, a query's mean is that of the times; as a batch, it is the wall time over the queries.
    """
    if batch:
        times, answers, seconds = _ask_batch(algo, queries, count)
    else:
        times, answers = _ask_each(algo, queries, count, progress)
        seconds = sum(times)
    if len(answers) != len(queries) or len(times) != len(queries):
        raise UserError(
            f"{algo} gave {len(answers)} answers and {len(times)} latencies to {len(queries)} queries"
        )
    progress(len(queries))
    return Measured(np.array(times), checked_neighbors(answers, count, rows), seconds / len(queries))


def _ask_each(
    algo: Any, queries: Sequence[Any], count: int, progress: Callable[[int], Any]
) -> tuple[list[float], list[list[int]]]:
    if hasattr(algo, "time_queries"):
        return _ask_in_pieces(algo, queries, count, progress)
    times = [0.0] * len(queries)
    answers: list[list[int]] = [[]] * len(queries)
    sizes = [0] * len(queries)
    clock = time.perf_counter
    # What happens between `stop` and the next `start` is not timed. An answer is copied at once, because a
    # plug-in may fill the same array again; it must have a length, so that no work is left for the copying.
    with _quiet_collector():
        due = clock() + PROGRESS_SECONDS
        if hasattr(algo, "prepare_query"):
            prepare, run, result = (
                algo.prepare_query,
                algo.run_prepared_query,
                algo.get_prepared_query_results,
            )
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
            ask = algo.query
            for i, query in enumerate(queries):
                start = clock()
                answer = ask(query, count)
                stop = clock()
                times[i] = stop - start
                sizes[i] = len(answer)
                answers[i] = list(answer)
                if stop > due:
                    progress(i + 1)
                    due = clock() + PROGRESS_SECONDS
    return times, answers


def _ask_in_pieces(
    algo: Any, queries: Sequence[Any], count: int, progress: Callable[[int], Any]
) -> tuple[list[float], list[list[int]]]:
    """Let the plug-in time its own queries, in pieces of about the time between two signs of progress."""
    times: list[float] = []
    answers: list[list[int]] = []
    piece = FIRST_PIECE
    with _quiet_collector():
        while len(answers) < len(queries):
            asked = queries[len(answers) : len(answers) + piece]
            seconds, found = algo.time_queries(asked, count)
            if not len(asked) == len(seconds) == len(found):
                raise UserError(f"{algo} gave {len(found)} answers to {len(asked)} queries")
            times += map(float, seconds)
            answers += found
            progress(len(answers))
            piece = max(1, round(PROGRESS_SECONDS * len(times) / max(sum(times), 1e-9)))
    return times, answers


def _ask_batch(algo: Any, queries: Any, count: int) -> tuple[list[float], list[Any], float]:
    with _quiet_collector():
        if hasattr(algo, "prepare_batch_query"):
            algo.prepare_batch_query(queries, count)
            start = time.perf_counter()
            algo.run_batch_query()
        else:
            start = time.perf_counter()
            algo.batch_query(queries, count)
        seconds = time.perf_counter() - start
    answers = list(algo.get_batch_results())
    if hasattr(algo, "get_batch_latencies"):
        return list(algo.get_batch_latencies()), answers, seconds
    return [seconds / len(queries)] * len(queries), answers, seconds


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Spare the garbage collector what exists already: a full collection would show in the latencies."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def checked_neighbors(answers: Sequence[Any], count: int, rows: int) -> np.ndarray:
    """Put answers into an array, (queries, at least count), -1 for none; UserError names a wrong one."""
    width = max(count, *map(len, answers))
    neighbors = np.full((len(answers), width), -1, dtype=np.int64)
    for row, answer in zip(neighbors, answers, strict=True):
        row[: len(answer)] = answer
    strange = (neighbors < -1) | (neighbors >= rows)
    if strange.any():
        query, place = np.argwhere(strange)[0]
        raise UserError(
            f"query {query} was answered with neighbour {neighbors[query, place]},"
            f" but the training set has the rows 0 to {rows - 1}"
        )
    in_order = np.sort(neighbors, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if repeated.any():
        query, place = np.argwhere(repeated)[0]
        raise UserError(f"query {query} was answered with neighbour {in_order[query, place]} twice")
    return neighbors


class WatchedUnder:
    """A plug-in's own watch and that of the conditions, as one."""

    def __init__(self, own: Watch, conditions: Conditions) -> None:
        """Take both."""
        self._own, self._conditions, self._theirs = own, conditions, conditions.watch()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go around the timed part."""
        with ExitStack() as stack:
            stack.enter_context(self._theirs.running())
            stack.enter_context(self._own.running())
            yield

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what both have seen; UserError where it shows that the conditions did not hold."""
        facts = self._theirs.facts(queries) | self._own.facts(queries)
        self._conditions.check(facts)
        return facts

    def close(self) -> None:
        """End both."""
        self._theirs.close()
        self._own.close()
