"""The points of a bundle: result files, with the metrics that follow from what is stored raw."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.series import Series, stored_series
from ann_benchmarks.results.measurement import RECALL_SLACK, Measurement, recall_of_each
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.statistics.intervals import fifth_percentile, share_interval

from ..manifest import BundledDataset, Manifest
from .reading import array_of, opened_file, own_attributes

MOST_ANSWERS = 1 << 28  # numbers in one file
ARRAYS = {"times": "f", "neighbors": "iu", "distances": "f"}
HISTOGRAM = ("latency_histogram_edges", "latency_histogram")
RECORD = ".workload.json"
SECONDS = 1e-12, 1e9  # between which those of a query are, so that their squares are numbers
# By the functions that reports have them from.
RECOMPUTED = ("k-nn", "recall", "recall-p5", "recall-worst", "qps", "qps-best", "build", "indexsize")
STATED = ("qps_mean",)  # attributes that metrics take in place of the raw data
_PLACE = re.compile(r"results/([^/]+)/([1-9][0-9]{0,5})/([^/]+)/([^/]+)\.hdf5")


class UnjudgedError(Exception):
    """A result cannot be judged: the rule that refuses it, what is wrong, and what to do."""


@dataclass(frozen=True)
class Neighborhood(Truth):
    """The true neighbours of every query: `rows` and `distances` (queries, k_truth).

    Under a filter rows are -1 and distances inf beyond the rows that pass; `matches` (queries,) is their
    number.
    """

    rows: np.ndarray = field(default_factory=lambda: np.empty((0, 0), int))
    matches: np.ndarray | None = None


@dataclass(frozen=True)
class StoredPoint:
    """A result file: `times` (n,) in s, `neighbors` (queries, k), -1 for none, `distances` alike.

    `contradictions` are attributes that the file holds twice, with two values. `edges` (n + 1,) in s and
    `counts` (n,) are the histogram of the latencies of all runs; empty where there is none.
    """

    attrs: dict[str, Any]
    times: np.ndarray
    neighbors: np.ndarray
    distances: np.ndarray
    edges: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CheckedPoint:
    """A result file in results/DATASET/COUNT/FOLDER/; `file` is its path in the bundle.

    `figures` are metrics by their names, made of what is stored raw. `figures_with_slack` are those of
    recall with the slack of ann-benchmarks, which earlier versions had: `has_slack` for a point of these.
    """

    file: str
    dataset: str
    count: int
    folder: str
    name: str  # of the file, without its end
    series: Series
    stored: StoredPoint
    facts: BundledDataset
    truth: Neighborhood
    recalls: np.ndarray  # of each query, (queries,)
    figures: Mapping[str, float]
    figures_with_slack: Mapping[str, float]
    has_slack: bool = False

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes, as plain values."""
        return self.stored.attrs

    @property
    def queries(self) -> int:
        """How many the dataset has."""
        return self.facts.queries

    @property
    def curve(self) -> tuple[str, int, str]:
        """What the points of one curve share."""
        return self.dataset, self.count, self.folder

    @property
    def is_open(self) -> bool:
        """Whether queries came at a rate."""
        return self.attrs.get("loop") == "open"

    @property
    def recall(self) -> float:
        """The recall by the answers and the truth, as the version that measured it defines recall."""
        return self.figures["k-nn" if self.has_slack else "recall"]

    @property
    def qps(self) -> float:
        """The mean of the runs' queries/s, by the seconds of each run."""
        return self.figures["qps"]

    @cached_property
    def run_seconds(self) -> list[float]:
        """The seconds per query of each run."""
        return self.numbers("run_seconds")

    @property
    def target(self) -> float | None:
        """The recall that its arguments were searched for, None where they were given."""
        return self.number("target_recall") or self.number("target_missed")

    @cached_property
    def build_arguments(self) -> list[Any] | None:
        """The arguments of the index, None where they are not stored; of numbers alone, HDF5 has an array."""
        stored = self.attrs.get("build_arguments")
        if stored == "[]" or isinstance(stored, list):
            return stored if isinstance(stored, list) else []
        return from_json(stored, list[Any]()) or None

    def number(self, name: str) -> float | None:
        """Return an attribute that is a number, else None."""
        value = self.attrs.get(name)
        return float(value) if isinstance(value, int | float) else None

    def numbers(self, name: str) -> list[float]:
        """Return an attribute that lists numbers; HDF5 may have a list of one as a number."""
        value = self.attrs.get(name, [])
        values = value if isinstance(value, list) else [value]
        return [float(one) for one in values if isinstance(one, int | float)]

    def moment(self, name: str) -> float | None:
        """Return an attribute that is a time of day in seconds since 1970, None where it is none."""
        try:
            return datetime.fromisoformat(str(self.attrs.get(name))).timestamp()
        except (ValueError, OverflowError):
            return None

    def without_arrays(self) -> "CheckedPoint":
        """Return the same with the attributes alone, so that thousands fit into memory."""
        none = np.empty(0)
        return replace(self, stored=StoredPoint(self.attrs, none, none, none), recalls=none)


def open_point(
    folder: Path, file: str, manifest: Manifest, truths: Mapping[tuple[str, str], Neighborhood]
) -> CheckedPoint | None:
    """Read a result file; UnjudgedError where it cannot be judged, None where its truth was refused."""
    place = _PLACE.fullmatch(file)
    if place is None:
        advice = "results lie in results/DATASET/COUNT/SERIES/FILE.hdf5"
        raise UnjudgedError("series", "lies where no result lies", advice)
    name, count, again = place[1], int(place[2]), "write the bundle again"
    facts = manifest.datasets.get(name)
    if facts is None:
        raise UnjudgedError("dataset", f"the manifest has no dataset '{name}'", again)
    if facts.queries * count > MOST_ANSWERS:
        raise UnjudgedError("readable", "promises more answers than are read", "hand in fewer queries")
    try:
        stored, series = _read_point(folder / file, facts.queries, count)
    except UserError as error:
        raise UnjudgedError("readable", str(error), "measure the point again") from None
    truth = truths.get((name, series.filter))
    if truth is None:
        if series.filter and series.filter not in facts.filters:
            what = f"was measured under the filters '{series.filter}', which the manifest does not name"
            raise UnjudgedError("dataset", what, again)
        return None
    if not 1 <= count <= truth.rows.shape[1]:
        what = f"has {count} neighbours a query, and the truth {truth.rows.shape[1]}"
        raise UnjudgedError("dataset", what, again)
    raw = {key: value for key, value in stored.attrs.items() if key not in STATED}
    m = Measurement(
        truth, stored.distances, stored.times, raw | {"count": count, "distance": facts.metric, "truth": ""}
    )  # with a mark of the truth, so that distances are taken to be exact
    figures = {metric: compute(m) for metric in RECOMPUTED if (compute := all_metrics[metric].function)}
    slack = recall_of_each(m.found, m.kth + RECALL_SLACK, count, m.due)
    tail = {"recall-p5": fifth_percentile(slack), "recall-worst": float(slack.min())}
    low = stored.attrs.get("recall_low")
    lows = share_interval(m.recalls).low, share_interval(slack).low
    has_slack = isinstance(low, float) and abs(lows[1] - low) < abs(lows[0] - low)
    recalls = slack if has_slack else m.recalls
    where = (file, name, count, place[3], place[4])
    return CheckedPoint(*where, series, stored, facts, truth, recalls, figures, tail, has_slack)


def _read_point(path: Path, queries: int, count: int) -> tuple[StoredPoint, Series]:
    """Read a result with answers of this shape, (queries, neighbours); UserError if it is none."""
    with opened_file(path) as file:
        attrs, contradictions = own_attributes(file)
        shapes = {"times": None, "neighbors": (queries, count), "distances": (queries, count)}
        found = {name: array_of(file, name, kinds, shapes[name]) for name, kinds in ARRAYS.items()}
        if found["times"].ndim != 1 or not len(found["times"]):
            raise UserError("has no times of queries")
        edges, counts = np.empty(0), np.empty(0)
        if any(name in file for name in HISTOGRAM):
            edges, counts = array_of(file, HISTOGRAM[0], "f"), array_of(file, HISTOGRAM[1], "iu")
    series = stored_series(attrs)
    if series is None:
        raise UserError(
            "has no series, as of an earlier version or of ann-benchmarks, to say how it was measured"
        )
    if not are_seconds(attrs.get("run_seconds")):
        raise UserError("has no seconds of its runs (run_seconds)")
    if not are_seconds(attrs.get("best_search_time")):
        raise UserError("does not say the seconds of a query (best_search_time)")
    return StoredPoint(attrs, **found, edges=edges, counts=counts, contradictions=contradictions), series


def are_seconds(value: Any) -> bool:
    """Whether a number, or each in a list that is not empty, can be the seconds of a query."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(
        isinstance(one, int | float) and SECONDS[0] < one < SECONDS[1] for one in values
    )
