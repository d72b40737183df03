"""What one client of a plug-in does in a run: takes a query when it is due, sends it, and notes the times.

Of the answers that were counted, it keeps one to each query, drawn evenly, for the recall.
"""

import copy
import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.plugin import Answers


class AnswerSample:
    """What one client keeps of its answers: one to each query, each of them with the same probability.

    The n-th answer to a query replaces the one before with probability 1 / n (reservoir sampling, Vitter
    1985).
    """

    def __init__(self, draw: Callable[[], float] | None = None) -> None:
        """Nothing is kept yet; `draw` returns numbers from 0 to 1."""
        self._draw = draw or random.Random().random
        self._times: dict[int, int] = {}
        self._kept: dict[int, Any] = {}

    def note(self, number: int, answer: Any) -> None:
        """Keep a copy of an answer to that query, or not: a plug-in may fill the same array again."""
        times = self._times[number] = self._times.get(number, 0) + 1
        if self._draw() * times < 1:
            self._kept[number] = copy.copy(answer)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers of queries, (kept,), ids, (kept, most ids), and for how many answers each stands."""
        weights = np.array([self._times[number] for number in self._kept], dtype=float)
        return np.fromiter(self._kept, np.int64, len(self._kept)), padded([*self._kept.values()]), weights


def padded(answers: Sequence[Any] | np.ndarray, width: int = 0) -> np.ndarray:
    """Put answers into an array, (answers, at least width), -1 for none."""
    ids = np.full((len(answers), max([width, *map(len, answers)])), -1, dtype=np.int64)
    for row, answer in zip(ids, answers, strict=True):
        row[: len(answer)] = answer
    return ids


def one_each(answers: Sequence[Answers], queries: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an answer to each query, (queries, most ids), and whether there is one, (queries,).

    Between several of a query's answers their weights decide: the smallest of exponential variates, each over
    its weight, is that of the one that is drawn (Efraimidis and Spirakis 2006).
    """
    rng = np.random.default_rng(seed)
    ids = np.full((queries, max((given.ids.shape[1] for given in answers), default=0)), -1, dtype=np.int64)
    best = np.full(queries, np.inf)
    for given in answers:
        keys = rng.exponential(size=len(given.sampled)) / given.weights
        wins = np.argsort(-keys)  # of several answers to one query, the last one that is written stays
        wins = wins[keys[wins] < best[given.sampled[wins]]]
        chosen = given.sampled[wins]
        best[chosen] = keys[wins]
        ids[chosen] = -1
        ids[chosen, : given.ids.shape[1]] = given.ids[wins]
    return ids, np.isfinite(best)


def row_facts(answers: Sequence[Answers], counted: Sequence[np.ndarray]) -> Mapping[str, Any]:
    """Return what is stored of the rows of the counted answers, `counted` (n,) for each client.

    `candidates` is their mean number, `answers_shortened` the answers with fewer rows than another one to the
    same query. Nothing where a client does not know its rows.
    """
    if any(given.rows is None for given in answers):
        return {}
    rows = np.concatenate([given.rows[chosen] for given, chosen in zip(answers, counted, strict=True)])  # type: ignore[index]
    numbers = np.concatenate([given.numbers[chosen] for given, chosen in zip(answers, counted, strict=True)])
    most = np.zeros(numbers.max(initial=0) + 1, dtype=rows.dtype)
    np.maximum.at(most, numbers, rows)
    shortened = int(np.count_nonzero(rows < most[numbers]))
    return {"candidates": float(rows.mean()) if len(rows) else 0.0, "answers_shortened": shortened}


clock = time.perf_counter


@dataclass(frozen=True)
class ClientAnswers:
    """Answers of the framework's own clients."""

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    rows: np.ndarray
    sampled: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    cpu_seconds: float


_FINE_SECONDS = 0.001  # before its time, a client wakes up this long and sleeps for the rest
_COARSE_MARGIN = 0.0005


@dataclass(frozen=True)
class Task:
    """What a client does in a run.

    Closed loop: the queries of these numbers, one after the other; with `seconds`, again and again.
    Open loop, where `numbers` is None: what the others have not taken, until `seconds` after the start.
    """

    numbers: np.ndarray | None
    seconds: float | None
    keeps_ids: bool


@dataclass(frozen=True)
class Client:
    """Whoever asks: how it asks what, and what is different for a thread and for a process."""

    query: Callable[[Any, int], Any]
    queries: Sequence[Any]
    count: int
    take: Callable[[], tuple[float, int] | None]  # the next arrival: when, from the start; its number
    cpu_clock: Callable[[], float]
    pause: Callable[[float], Any] = time.sleep  # returns True when it was interrupted
    is_stopped: Callable[[], bool] = lambda: False

    def ask(self, task: Task, start: float) -> ClientAnswers:
        """Do the task from `start` on; UserError says on one line what the plug-in has raised.

        An answer must have a length, so that no work is left for who reads it.
        """
        query, queries, count, is_stopped = self.query, self.queries, self.count, self.is_stopped
        keeps_ids = task.keeps_ids
        numbers: list[int] = []
        dues: list[float] = []
        stamps: list[float] = []
        rows: list[int] = []
        sample = AnswerSample()
        self._sleep_until(start)
        before = self.cpu_clock()
        try:
            for due, number in self._upcoming(task, start):
                if is_stopped():
                    break
                vector = queries[number]
                sent = clock()
                answer = query(vector, count)
                answered = clock()
                numbers.append(number)
                dues.append(due)
                stamps.append(sent)
                stamps.append(answered)
                rows.append(len(answer))
                if keeps_ids:
                    sample.note(number, answer)
        except Exception as error:
            raise UserError(describe(error)) from error
        cpu_seconds = self.cpu_clock() - before
        times = np.array(stamps).reshape(-1, 2)
        due_times = np.array(dues) if task.numbers is None else None
        return ClientAnswers(
            np.array(numbers, dtype=np.int64),
            due_times,
            times[:, 0],
            times[:, 1],
            np.array(rows, dtype=np.int64),
            *sample.arrays(),
            cpu_seconds,
        )

    def _upcoming(self, task: Task, start: float) -> Iterator[tuple[float, int]]:
        """Each query's time and number, when it is to be sent; in a closed loop, the time means nothing."""
        if task.numbers is None:
            assert task.seconds is not None
            while (arrival := self.take()) is not None and clock() <= start + task.seconds:
                due = start + arrival[0]
                self._sleep_until(due)
                yield due, arrival[1]
        elif task.seconds is None:
            for number in task.numbers.tolist():
                yield start, number
        else:
            end = start + task.seconds
            for number in cycle(task.numbers.tolist()):
                yield start, number
                if clock() >= end:
                    return

    def _sleep_until(self, moment: float) -> None:
        while (early := moment - clock()) > 0:
            if self.pause(early if early < _FINE_SECONDS else early - _COARSE_MARGIN):
                return


_LEAD_SECONDS = 0.002  # from the word to the start: enough for it to reach every client
_LEAD_A_CLIENT = 0.0005


def common_start(clients: int) -> float:
    """Return the moment at which all of this many clients can start, by perf_counter."""
    return clock() + _LEAD_SECONDS + _LEAD_A_CLIENT * clients


@contextmanager
def no_collector() -> Iterator[None]:
    """Collect garbage now, and not before the end: a full collection would show in the latencies."""
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
