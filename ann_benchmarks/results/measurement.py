"""One result next to its truth: recall and completeness of each query, and what its runs were like."""

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from statistics import fmean
from typing import Any

import numpy as np

from ann_benchmarks.distance import rounded_up, single_precision
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.statistics.percentiles import shown_percentiles
from ann_benchmarks.statistics.speeds import Speed

from .file import TRUTH_ATTRIBUTE
from .truth import Truth

RECALL_SLACK = 1e-3  # absolute, in the recall of ann-benchmarks alone
MOST_STEPS = 100  # of recall, by which queries are counted
MOST_PARTS = 50
_ROUNDING = 1e-9
# Attributes.
MARK, ROUNDS = "rounds", "run_rounds"  # what was measured in turn, and the round of each run
CHAIN, TURNS = "rounds_chain", "rounds_turns"  # a link for each round, and how many had a turn
PARTS = "recall_parts"  # the mean recall of every n-th query, from the first, the second...
COUNTS = "recall_counts"  # how many queries have a recall of 0, 1/steps ... 1
EXACT_SEARCH = "is_exact"  # all answers are the true ones, by the algorithm
NOT_INSTALLED = "not_installed"  # JSON: algorithms that were requested, each with what installs it
TIERS_LEFT_OUT = "tiers_left_out"  # why no smaller servers were simulated, though they were requested
OVERSTATED = "target_overstated"  # by how much a recall exceeds that of other queries


def chain_of(mark: str, contenders: Iterable[Iterable[float]]) -> dict[str, Any]:
    """Return the chain of a race as attributes, by the seconds per query in each round of each contender.

    The link of a round is made of the link before it, and of all who had a turn.
    """
    links, turns = [mark], list[int]()
    for row in zip_longest(*contenders):
        seconds = sorted(float(one) for one in row if one is not None)
        content = " ".join([links[-1], *map(repr, seconds)])
        links.append(hashlib.sha256(content.encode()).hexdigest()[:16])
        turns.append(len(seconds))
    return {CHAIN: " ".join(links[1:]), TURNS: turns}


def recall(found: np.ndarray, threshold: np.ndarray, count: int, due: np.ndarray | None = None) -> float:
    """Return the mean share of each query's first `count` found distances within its threshold.

    `due`, (queries,), is how many there are to be found of each query under its filter; None: `count`.
    """
    if due is not None:
        return float(recall_of_each(found, threshold, count, due).mean()) if len(found) else math.nan
    hits = int(np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis]))
    return hits / len(found) / count if len(found) else math.nan


def recall_of_each(
    found: np.ndarray, threshold: np.ndarray, count: int, due: np.ndarray | None = None
) -> np.ndarray:
    """Return each query's share; `recall` is their mean. That of a query without matches is 1."""
    hits = np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis], axis=1)
    return hits / count if due is None else share_of_due(hits, due)


def share_of_due(found: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return the share that was found of what there is to find, both (queries,); 1 where that is nothing."""
    share: np.ndarray = np.where(due > 0, np.minimum(found / np.maximum(due, 1), 1), 1.0)
    return share


def completeness_of_each(found: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return the share of the rows that each query was to return, by the found distances, (queries, k)."""
    return share_of_due(np.count_nonzero(np.isfinite(found), axis=1), due)


def recall_parts(recalls: np.ndarray) -> list[float]:
    """Return the mean recall of each part of the queries, (queries,): a part has every n-th of them."""
    parts = min(MOST_PARTS, len(recalls))
    return [float(recalls[first::parts].mean().round(6)) for first in range(parts)]


def recall_counts(recalls: np.ndarray, count: int) -> list[int]:
    """Return how many queries, (queries,), have each recall: 0, 1/k ... 1, where k is `count`.

    Beyond 100 neighbours these are steps of 1/100, and what lies between two counts to the lower one, as it
    does under a filter that fewer than k rows match.
    """
    steps = min(count, MOST_STEPS)
    places = np.floor(recalls * steps + _ROUNDING).astype(np.int64)
    found: list[int] = np.bincount(places, minlength=steps + 1).tolist()
    return found


@dataclass(frozen=True)
class Measurement:
    """One result and the truth that it is judged by.

    `found` is (queries, k), distances in ascending order and inf where nothing was found; `times` are
    seconds, one per query; `attrs` are the attributes of the result file.
    """

    truth: Truth
    found: np.ndarray
    times: np.ndarray
    attrs: Mapping[str, Any]

    @property
    def count(self) -> int:
        """k, the number of neighbours requested."""
        return int(self.attrs["count"])

    @property
    def kth(self) -> np.ndarray:
        """Each query's true distance to its k-th neighbour."""
        return self.truth.nth(self.count)[: len(self.found)]

    @cached_property
    def due(self) -> np.ndarray | None:
        """How many rows there were to return to each query under its filter; None: k each."""
        due = self.truth.due(self.count)
        return None if due is None else due[: len(self.found)]

    @property
    def farthest(self) -> np.ndarray:
        """Up to which distance a row counts as found, (queries,): the k-th true one, but for rounding.

        ann-benchmarks computes the distances of its own results, which have no mark, in single precision.
        """
        limits = rounded_up(self.kth)
        if TRUTH_ATTRIBUTE in self.attrs:
            return limits
        return limits + single_precision(str(self.attrs.get("distance")), self.kth)

    @cached_property
    def recalls(self) -> np.ndarray:
        """Each query's recall, (queries,), whose mean is the recall."""
        return recall_of_each(self.found, self.farthest, self.count, self.due)

    @cached_property
    def percentiles(self) -> dict[str, float]:
        """Percentiles of the latencies by name, in s."""
        return shown_percentiles(self.attrs, self.times)

    def number(self, name: str, default: float = math.nan) -> float:
        """Return an attribute as a number, or `default` where it is missing or not a number."""
        return number_of(self.attrs, name, default)


def number_of(attrs: Mapping[str, Any], name: str, default: float = math.nan) -> float:
    """Return an attribute as a number, or `default` where it is missing or not a number."""
    try:
        return float(attrs.get(name, default))
    except (TypeError, ValueError):
        return default


def numbers(value: Any) -> list[float]:
    """Return the finite numbers of an attribute that is a number or a list of them."""
    stored = value if isinstance(value, list) else [value]
    return [float(one) for one in stored if isinstance(one, (int, float)) and math.isfinite(one)]


def run_throughputs(attrs: Mapping[str, Any]) -> list[float]:
    """Return the queries/s of each run of a result, nothing where only the best run is stored."""
    return [1 / seconds for seconds in numbers(attrs.get("run_seconds")) if seconds > 0]


def throughput(attrs: Mapping[str, Any]) -> float:
    """Return the mean of the runs' queries/s, which its interval is of.

    ann-benchmarks stores the best run only: of its files it is that.
    """
    mean = number_of(attrs, "qps_mean")
    return fmean(run_throughputs(attrs) or [best_throughput(attrs)]) if math.isnan(mean) else mean


def has_mean_throughput(attrs: Mapping[str, Any]) -> bool:
    """Whether more than the best run is known, or there was no other."""
    return number_of(attrs, "run_count", 1) == 1 or "qps_mean" in attrs or bool(run_throughputs(attrs))


def best_throughput(attrs: Mapping[str, Any]) -> float:
    """Inverse of the mean seconds per query of the best run: what ann-benchmarks calls queries per second."""
    seconds = number_of(attrs, "best_search_time")
    return 1.0 / seconds if seconds > 0 else math.nan


def speed_of(attrs: Mapping[str, Any], recall: float, qps: float, index: Hashable = None) -> Speed:
    """Return the speed of a point by its attributes; `qps` is that of the only run where none are stored."""
    low, high = number_of(attrs, "recall_low"), number_of(attrs, "recall_high")
    rates, rounds = run_throughputs(attrs), numbers(attrs.get(ROUNDS))
    is_whole = len(rates) == len(rounds) == len(set(rounds))
    return Speed(
        index,
        recall,
        Interval(low, high) if low <= recall <= high else None,
        rates or [qps],
        str(attrs.get(MARK, "")) if is_whole else "",
        [int(number) for number in rounds] if is_whole else (),
        numbers(attrs.get(PARTS)),
        bool(attrs.get(EXACT_SEARCH)),
        number_of(attrs, "build_time"),
    )
