"""The points of a bundle: result files with what follows from their answers and times."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.series import Series, stored_series

from ..manifest import Manifest
from .arithmetic import Neighborhood, recalls, tail_of, wilson
from .reading import StoredPoint, read_point
from .rules import Findings

_PLACE = re.compile(r"results/([^/]+)/([1-9][0-9]{0,5})/([^/]+)/([^/]+)\.hdf5")
RECORD = ".workload.json"
MOST_ANSWERS = 1 << 28  # numbers in one file
SECONDS = 1e-12, 1e9  # between which those of a query are, so that their squares are numbers


@dataclass(frozen=True, eq=False)
class CheckedPoint:
    """A result file in results/DATASET/COUNT/FOLDER/; `file` is its path in the bundle."""

    file: str
    dataset: str
    count: int
    folder: str
    name: str  # of the file, without its end
    series: Series
    stored: StoredPoint
    recall: float  # by the answers and the truth
    recall_fifth: float  # at the lower 5th percentile of queries; nan with fewer than 20
    recall_worst: float  # of a query
    queries: int  # of the dataset
    has_slack: bool  # it was measured by an earlier version, whose recall had the slack of ann-benchmarks
    recalls_otherwise: tuple[float, float, float]  # with the slack where it has none, and the reverse

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes, as plain values."""
        return self.stored.attrs

    @property
    def curve(self) -> tuple[str, int, str]:
        """What the points of one curve share."""
        return self.dataset, self.count, self.folder

    @property
    def is_open(self) -> bool:
        """Whether queries came at a rate."""
        return self.attrs.get("loop") == "open"

    @cached_property
    def run_seconds(self) -> list[float]:
        """The seconds per query of each run."""
        return self.numbers("run_seconds")

    @property
    def qps(self) -> float:
        """The mean of the runs' queries/s, by the seconds of each run."""
        rates = [1 / seconds for seconds in self.run_seconds]
        return sum(rates) / len(rates)

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
        empty = self.stored.neighbors[:0]
        kept = StoredPoint(self.attrs, self.stored.times[:0], empty, self.stored.distances[:0])
        return replace(self, stored=kept)


def open_point(
    folder: Path,
    file: str,
    manifest: Manifest,
    truths: dict[tuple[str, str], Neighborhood],
    findings: Findings,
) -> CheckedPoint | None:
    """Read a result file; refuse and return None where it cannot be judged."""
    place = _PLACE.fullmatch(file)
    if place is None:
        advice = "results lie in results/DATASET/COUNT/SERIES/FILE.hdf5"
        findings.refuse(file, "series", "lies where no result lies", advice)
        return None
    name, count = place[1], int(place[2])
    dataset = manifest.datasets.get(name)
    if dataset is None:
        findings.refuse(file, "dataset", f"the manifest has no dataset '{name}'", "write the bundle again")
        return None
    if dataset.queries * count > MOST_ANSWERS:
        findings.refuse(file, "readable", "promises more answers than are read", "hand in fewer queries")
        return None
    try:
        stored = read_point(folder / file, dataset.queries, count)
        series = stored_series(stored.attrs)
        if series is None:
            raise UserError(
                "has no series, as of an earlier version or of ann-benchmarks, to say how it was measured"
            )
        if not are_seconds(stored.attrs.get("run_seconds")):
            raise UserError("has no seconds of its runs (run_seconds)")
        if not are_seconds(stored.attrs.get("best_search_time")):
            raise UserError("does not say the seconds of a query (best_search_time)")
    except UserError as error:
        findings.refuse(file, "readable", str(error), "measure the point again")
        return None
    filter_set = series.filter
    truth = truths.get((name, filter_set))
    if truth is None:
        if filter_set and filter_set not in dataset.filters:
            what = f"was measured under the filters '{filter_set}', which the manifest does not name"
            findings.refuse(file, "dataset", what, "write the bundle again")
        return None
    if not 1 <= count <= truth.rows.shape[1]:
        what = f"has {count} neighbours a query, and the truth {truth.rows.shape[1]}"
        findings.refuse(file, "dataset", what, "write the bundle again")
        return None
    with_either = [recalls(stored.distances, truth, has_slack) for has_slack in (False, True)]
    low = stored.attrs.get("recall_low")
    has_slack = isinstance(low, float) and abs(wilson(with_either[1])[0] - low) < abs(
        wilson(with_either[0])[0] - low
    )
    figures, others = (
        (float(each.mean()), *tail_of(each)) for each in (with_either[has_slack], with_either[not has_slack])
    )
    place_of_it = (file, name, count, place[3], place[4])
    return CheckedPoint(*place_of_it, series, stored, *figures, dataset.queries, has_slack, others)


def are_seconds(value: Any) -> bool:
    """Whether a number, or each in a list that is not empty, can be the seconds of a query."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(
        isinstance(one, int | float) and SECONDS[0] < one < SECONDS[1] for one in values
    )
