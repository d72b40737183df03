"""A bundle opened for the checker and for the table of submissions: its files, and points with metrics."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import clean_text, from_json
from ann_benchmarks.fields.series import Series, series_of, stored_series
from ann_benchmarks.monitoring.stored import GROUP
from ann_benchmarks.results.file import RESULT_FORMAT, Result, read_more, read_result, truth_mark
from ann_benchmarks.results.measurement import Measurement, numbers
from ann_benchmarks.results.metrics import RECALL
from ann_benchmarks.results.runs import Run, judged

from ..files import EXPERIMENT
from ..manifest import MANIFEST, BundledDataset, Manifest, read_manifest
from .reading import check_folder, contradictions, opened_file, sampled_totals
from .rules import Findings
from .truth import Neighborhood, read_truths

HISTOGRAM = ("latency_histogram_edges", "latency_histogram")
ARRAYS = {"times", "neighbors", "distances", *HISTOGRAM, GROUP}
RECORD = ".workload.json"
SECONDS = 1e-12, 1e9  # between which those of a query are, so that their squares are numbers
STATED = ("qps_mean",)  # attributes that metrics would take in place of the raw data
_PLACE = re.compile(r"results/([^/]+)/([1-9][0-9]{0,5})/([^/]+)/([^/]+)\.hdf5")
_NONE = np.empty(0)
FOREIGN = f"has no series, seconds, truth or result_format {RESULT_FORMAT}, as of an earlier version"


@dataclass(frozen=True, eq=False)
class CheckedPoint:
    """A result in a bundle, by the path of its `file` there, with its metrics by what is stored raw.

    `times` (n,) in s, `rows` and `distances` (queries, count) are of one run, `recalls` (queries,) follow
    from them; `edges` (m + 1,) in s and `counts` (m,) are the histogram of all runs. `twice` are attributes
    with two values; `sampled` has the seconds and transactions while it was measured, by its monitoring.
    """

    file: str
    run: Run
    attrs: Mapping[str, Any]
    facts: BundledDataset
    truth: Neighborhood
    times: np.ndarray = field(default_factory=_NONE.copy)
    rows: np.ndarray = field(default_factory=_NONE.copy)
    distances: np.ndarray = field(default_factory=_NONE.copy)
    recalls: np.ndarray = field(default_factory=_NONE.copy)
    edges: np.ndarray = field(default_factory=_NONE.copy)
    counts: np.ndarray = field(default_factory=_NONE.copy)
    twice: tuple[str, ...] = ()
    sampled: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        vars(self).update(dataset=self.run.dataset, count=self.run.count, series=self.run.series)

    dataset: str = field(init=False)
    count: int = field(init=False)  # neighbours that were requested
    series: Series = field(init=False)

    @property
    def folder(self) -> str:
        """The name of the folder that it lies in."""
        return self.file.split("/")[3]

    @property
    def name(self) -> str:
        """The name of its file, without the end."""
        return self.file.split("/")[4].removesuffix(".hdf5")

    @property
    def curve(self) -> tuple[str, int, str]:
        """What the points of one curve share."""
        return self.dataset, self.count, self.folder

    @property
    def recall(self) -> float:
        """The recall by the answers and the truth."""
        return self.run.metrics[RECALL]

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

    @property
    def is_foreign(self) -> bool:
        """Whether it lacks what checks rest on, as results of ann-benchmarks and of earlier versions do."""
        lacks = {"run_seconds", "truth"} - self.attrs.keys()
        return bool(lacks) or stored_series(self.attrs) is None or self["result_format"] != RESULT_FORMAT

    def number(self, name: str) -> float | None:
        """Return an attribute that is a number, else None."""
        value = self.attrs.get(name)
        return float(value) if isinstance(value, int | float) else None

    def __getitem__(self, name: str) -> float:
        """Return an attribute that is a number, else NaN, which nothing follows from."""
        value = self.number(name)
        return math.nan if value is None else value

    def numbers(self, name: str) -> list[float]:
        """Return an attribute that lists numbers; HDF5 may have a list of one as a number."""
        return numbers(self.attrs.get(name, []))

    def moment(self, name: str) -> float | None:
        """Return an attribute that is a time of day in seconds since 1970, None for anything else."""
        try:
            return datetime.fromisoformat(str(self.attrs.get(name))).timestamp()
        except (ValueError, OverflowError):
            return None

    def drop_arrays(self) -> "CheckedPoint":
        """Return the same with the attributes alone, so that thousands fit into memory."""
        none = _NONE
        return replace(self, times=none, rows=none, distances=none, recalls=none, edges=none, counts=none)


@dataclass(frozen=True)
class OpenedBundle:
    """A bundle whose manifest can be read. `files` are those that it lists and that are there."""

    folder: Path
    manifest: Manifest
    files: list[str]
    truths: Mapping[tuple[str, str], Neighborhood]
    findings: Findings

    def place(self, file: str) -> Path:
        """Return where one of its files is; UserError if it is not there."""
        if file not in self.files:
            raise UserError("is missing")
        return self.folder / file

    @property
    def results(self) -> list[str]:
        """The files of measured points."""
        return [file for file in self.files if file.startswith("results/") and not file.endswith(RECORD)]

    def points(self, dataset: str = "") -> Iterator[CheckedPoint]:
        """Yield the points, or those of a dataset, one by one; those that cannot be judged are refused."""
        for file in (one for one in self.results if not dataset or one.startswith(f"results/{dataset}/")):
            with self.findings.refusing(file, "readable"):
                if point := _opened_point(self, file):
                    yield point


def open_bundle(folder: Path, findings: Findings) -> OpenedBundle | None:
    """Open a bundle; what is wrong with its files is refused; None without a manifest that can be read."""
    try:
        manifest = read_manifest(folder)
    except UserError as error:
        findings.refuse(MANIFEST, "manifest", str(error).removeprefix(f"{folder / MANIFEST}: "))
        return None
    findings.is_mini = manifest.mini
    files = check_folder(folder, manifest, findings)
    if (EXPERIMENT in files) != (manifest.experiment is not None):
        what = f"{EXPERIMENT} is {'not ' * (EXPERIMENT not in files)}there"
        findings.refuse(MANIFEST, "manifest", f"names the experiment {manifest.experiment}, and {what}")
    truths = read_truths(folder, manifest, files, findings)
    return OpenedBundle(folder, manifest, files, truths, findings)


def _opened_point(bundle: OpenedBundle, file: str) -> CheckedPoint | None:
    """Read a result file; UserError where it cannot be judged, None where its truth was refused."""
    path = bundle.folder / file
    if (place := _PLACE.fullmatch(file)) is None:
        raise UserError("does not lie in results/DATASET/COUNT/SERIES/FILE.hdf5")
    if place[1] not in bundle.manifest.datasets:
        raise UserError(f"the manifest has no dataset '{place[1]}'")
    with opened_file(path, ARRAYS) as opened:
        twice = contradictions(opened)
    result, histogram = read_result(path), read_more(path, *HISTOGRAM) or [_NONE, _NONE]
    point = judge_point(bundle, file, result, histogram)
    return point and replace(point, twice=twice, sampled=sampled_totals(path))


def judge_point(
    bundle: OpenedBundle,
    file: str,
    result: Result,
    histogram: Sequence[np.ndarray],
) -> CheckedPoint | None:
    """Return a result beside its truth, None where that was refused; UserError where it cannot be judged."""
    _, name, number, folder, _ = file.split("/")
    count, facts, attrs = int(number), bundle.manifest.datasets[name], result.attrs
    if result.neighbors.shape != (facts.queries, count):
        expected = (facts.queries, count)
        raise UserError(f"has answers {result.neighbors.shape}, and the manifest says {expected}")
    for attribute, what in (("run_seconds", "its runs"), ("best_search_time", "a query")):
        seconds = numbers(attrs.get(attribute, 1.0))
        if not seconds or not SECONDS[0] < min(seconds) <= max(seconds) < SECONDS[1]:
            raise UserError(f"does not say the seconds of {what} ({attribute})")
    series = series_of(attrs, clean_text(folder))
    truth = bundle.truths.get((name, series.filter))
    if truth is None:
        if series.filter and series.filter not in facts.filters:
            raise UserError(f"was measured under filters that the manifest does not name, '{series.filter}'")
        return None
    if not 1 <= count <= truth.rows.shape[1]:
        raise UserError(f"has {count} neighbours a query, and the truth {truth.rows.shape[1]}")
    mark, said = truth_mark(truth.distances[:, :count]), attrs.get("truth")
    if said not in (None, mark) or attrs["count"] != count:
        what = f"was measured against {attrs['count']} true neighbours with the mark {said}"
        raise UserError(f"{what}, not {mark}")
    raw = {key: value for key, value in attrs.items() if key not in STATED}
    run = replace(judged(replace(result, attrs=raw), series, name, truth, {mark}), path=result.path)
    m = Measurement(truth, result.distances, result.times, raw)
    times, distances = (array.astype(np.float64) for array in (result.times, result.distances))
    edges, counts = histogram
    arrays = times, result.neighbors, distances, m.recalls, edges, counts
    return CheckedPoint(file, run, attrs, facts, truth, *arrays)
