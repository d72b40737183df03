"""What a client measured in a run, with an even sample of its answers: one to each query, for the recall."""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
