"""One result next to its truth, and what its attributes say of its runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from ann_benchmarks.distance import rounded_up, single_precision

from .file import TRUTH_ATTRIBUTE
from .percentiles import shown_percentiles
from .recall import recall_of_each
from .truth import Truth


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
        """Return an attribute as a number, or `default` where it is missing or is none."""
        return number_of(self.attrs, name, default)


def number_of(attrs: Mapping[str, Any], name: str, default: float = math.nan) -> float:
    """Return an attribute as a number, or `default` where it is missing or is none."""
    try:
        return float(attrs.get(name, default))
    except (TypeError, ValueError):
        return default


def of_runs(attrs: Mapping[str, Any], name: str) -> list[float]:
    """Return the numbers above 0 that an attribute lists, one a run; HDF5 has a list of one as a number."""
    stored_values = attrs.get(name, [])
    values = stored_values if isinstance(stored_values, list) else [stored_values]
    return [float(one) for one in values if isinstance(one, int | float) and 0 < one < math.inf]


def run_throughputs(attrs: Mapping[str, Any]) -> list[float]:
    """Return the queries/s of each run of a result, nothing where only the best run is stored."""
    return [1 / seconds for seconds in of_runs(attrs, "run_seconds")]


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
