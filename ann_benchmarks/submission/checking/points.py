"""A bundle opened for the checker and for the table of submissions: its files, and points with metrics."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import clean_text, from_json
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.fields.series import Series, series_of, stored_series
from ann_benchmarks.pricing.prices import PriceList, read_prices
from ann_benchmarks.results.file import Result, read_more, read_result, truth_mark
from ann_benchmarks.results.measurement import RECALL_SLACK, Measurement, recall_of_each
from ann_benchmarks.results.metrics import KNN, RECALL
from ann_benchmarks.results.runs import Run, judged
from ann_benchmarks.statistics.intervals import fifth_percentile, share_interval

from ..files import EXPERIMENT, PRICES
from ..manifest import MANIFEST, BundledDataset, Manifest, read_manifest
from .reading import check_folder, contradictions, opened_file
from .rules import Findings
from .truth import Neighborhood, read_truths

MOST_ANSWERS = 1 << 28  # numbers in one file
HISTOGRAM = ("latency_histogram_edges", "latency_histogram")
RECORD = ".workload.json"
SECONDS = 1e-12, 1e9  # between which those of a query are, so that their squares are numbers
STATED = ("qps_mean",)  # attributes that metrics would take in place of the raw data
REWRITE = "write the bundle again"
_PLACE = re.compile(r"results/([^/]+)/([1-9][0-9]{0,5})/([^/]+)/([^/]+)\.hdf5")


class UnjudgedError(Exception):
    """A result cannot be judged: the rule that refuses it, what is wrong, and what to do."""


@dataclass(frozen=True)
class StoredPoint(Result):
    """A result file with all that it stores raw.

    `contradictions` are attributes that it holds twice, with two values. `edges` (n + 1,) in s and `counts`
    (n,) are the histogram of the latencies of all runs; empty without one.
    """

    edges: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CheckedPoint:
    """A result in a bundle, by the path of its `file` there, with its metrics by what is stored raw.

    `slack` are metrics of recall with the slack of ann-benchmarks, which earlier versions had: `has_slack`
    for a point of these.
    """

    file: str
    run: Run
    stored: StoredPoint
    facts: BundledDataset
    truth: Neighborhood
    recalls: np.ndarray  # of each query, (queries,)
    slack: Mapping[str, float]
    has_slack: bool = False

    @property
    def dataset(self) -> str:
        """The name of its dataset."""
        return self.run.dataset

    @property
    def count(self) -> int:
        """How many neighbours were requested."""
        return self.run.count

    @property
    def series(self) -> Series:
        """The series that it says to be of."""
        return self.run.series

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes, as plain values."""
        return self.stored.attrs

    @cached_property
    def folder(self) -> str:
        """The name of the folder that it lies in."""
        return self.file.split("/")[3]

    @cached_property
    def name(self) -> str:
        """The name of its file, without the end."""
        return self.file.split("/")[4].removesuffix(".hdf5")

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
        return self.run.metrics[KNN if self.has_slack else RECALL]

    @property
    def qps(self) -> float:
        """The mean of the runs' queries/s, by the seconds of each run."""
        return self.run.metrics["qps"]

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
        """Whether it lacks what checks rest on, as results of ann-benchmarks and of early versions do."""
        return stored_series(self.attrs) is None or not {"run_seconds", "truth"} <= self.attrs.keys()

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
        """Return an attribute that is a time of day in seconds since 1970, None for anything else."""
        try:
            return datetime.fromisoformat(str(self.attrs.get(name))).timestamp()
        except (ValueError, OverflowError):
            return None

    def drop_arrays(self) -> "CheckedPoint":
        """Return the same with the attributes alone, so that thousands fit into memory."""
        none = np.empty(0)
        stored = StoredPoint(self.stored.path, self.attrs, none, none, none)
        return replace(self, stored=stored, recalls=none)


@dataclass(frozen=True)
class OpenedBundle:
    """A bundle whose manifest can be read. `files` are those that it lists and that are there."""

    folder: Path
    manifest: Manifest
    files: list[str]
    truths: Mapping[tuple[str, str], Neighborhood]
    findings: Findings
    prices: PriceList | None = None

    @property
    def results(self) -> list[str]:
        """The files of measured points."""
        return [file for file in self.files if file.startswith("results/") and not file.endswith(RECORD)]

    def points(self) -> Iterator[CheckedPoint]:
        """Yield the points, one after the other; those that cannot be judged are refused."""
        for file in self.results:
            try:
                if (point := _opened_point(self, file)) is not None:
                    yield point
            except UnjudgedError as unjudged:
                self.findings.refuse(file, *unjudged.args)


def open_bundle(folder: Path, findings: Findings) -> OpenedBundle | None:
    """Open a bundle; what is wrong with its files is refused; None without a manifest that can be read."""
    try:
        manifest = read_manifest(folder)
    except UserError as error:
        text = str(error).removeprefix(f"{folder / MANIFEST}: ")
        findings.refuse(MANIFEST, "manifest", text, "write the bundle with report.py --bundle")
        return None
    findings.is_mini = manifest.mini
    files = check_folder(folder, manifest, findings)
    for number, claim in enumerate(manifest.claims, 1):
        if claim.file not in files:
            what = f"claim {number} rests on {claim.file}, which is not in the bundle"
            findings.refuse(MANIFEST, "claims", what, REWRITE)
    truths = read_truths(folder, manifest, files, findings)
    prices = None
    try:
        prices = read_prices(folder / PRICES) if PRICES in files else None
        if EXPERIMENT in files:
            experiment = YamlFile(folder / EXPERIMENT, "an experiment")
            experiment.mapping((), experiment.content, "an experiment", required=["title", "steps"])
    except UserError as error:
        file, _, text = str(error).removeprefix(f"{folder}/").partition(":")
        findings.refuse(file, "readable", text.strip(), REWRITE)
    return OpenedBundle(folder, manifest, files, truths, findings, prices)


def _opened_point(bundle: OpenedBundle, file: str) -> CheckedPoint | None:
    """Read a result file; UnjudgedError where it cannot be judged, None where its truth was refused."""
    place = _PLACE.fullmatch(file)
    if place is None:
        advice = "results lie in results/DATASET/COUNT/SERIES/FILE.hdf5"
        raise UnjudgedError("series", "lies where no result lies", advice)
    name, count = place[1], int(place[2])
    facts = bundle.manifest.datasets.get(name)
    if facts is None:
        raise UnjudgedError("dataset", f"the manifest has no dataset '{name}'", REWRITE)
    if facts.queries * count > MOST_ANSWERS:
        raise UnjudgedError("readable", "promises more answers than are read", "hand in fewer queries")
    path = bundle.folder / file
    try:
        stored, series = _read_point(path, facts.queries, count)
    except UserError as error:
        text = str(error).removeprefix(f"{path} ")
        raise UnjudgedError("readable", text, "measure the point again") from None
    truth = bundle.truths.get((name, series.filter))
    if truth is None:
        if series.filter and series.filter not in facts.filters:
            what = f"was measured under the filters '{series.filter}', which the manifest does not name"
            raise UnjudgedError("dataset", what, REWRITE)
        return None
    if not 1 <= count <= truth.rows.shape[1]:
        what = f"has {count} neighbours a query, and the truth {truth.rows.shape[1]}"
        raise UnjudgedError("dataset", what, REWRITE)
    mark, said = truth_mark(truth.distances[:, :count]), stored.attrs.get("truth")
    if said not in (None, mark) or stored.attrs["count"] != count:
        what = f"was measured against {stored.attrs['count']} true neighbours with the mark {said}"
        raise UnjudgedError("dataset", f"{what}, not {mark}", "add the results of this dataset alone")
    raw = {key: value for key, value in stored.attrs.items() if key not in STATED}
    run = replace(judged(replace(stored, attrs=raw), series, name, truth, {mark}), path=path)
    m = Measurement(truth, stored.distances, stored.times, raw)
    slack = recall_of_each(m.found, m.kth + RECALL_SLACK, count, m.due)
    tail = {"recall-p5": fifth_percentile(slack), "recall-worst": float(slack.min())}
    low = stored.attrs.get("recall_low")
    lows = share_interval(m.recalls).low, share_interval(slack).low
    has_slack = isinstance(low, float) and abs(lows[1] - low) < abs(lows[0] - low)
    recalls = slack if has_slack else m.recalls
    return CheckedPoint(file, run, stored, facts, truth, recalls, tail, has_slack)


def _read_point(path: Path, queries: int, count: int) -> tuple[StoredPoint, Series]:
    """Read a result with answers of this shape, (queries, neighbours); UserError for anything else."""
    with opened_file(path) as file:
        twice = contradictions(file)
    result = read_result(path)
    if result.neighbors.shape != (queries, count):
        raise UserError(f"has answers {result.neighbors.shape}, and the manifest says {(queries, count)}")
    histogram = read_more(path, *HISTOGRAM) or [np.empty(0)] * 2
    series = series_of(result.attrs, clean_text(path.parent.name))
    for name, what in (("run_seconds", "its runs"), ("best_search_time", "a query")):
        if name in result.attrs and not are_seconds(result.attrs[name]):
            raise UserError(f"does not say the seconds of {what} ({name})")
    return StoredPoint(**vars(result), edges=histogram[0], counts=histogram[1], contradictions=twice), series


def are_seconds(value: Any) -> bool:
    """Whether a number, or each in a list that is not empty, can be the seconds of a query."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(
        isinstance(one, int | float) and SECONDS[0] < one < SECONDS[1] for one in values
    )
