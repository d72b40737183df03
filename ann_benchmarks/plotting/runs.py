"""Results with their metrics, read from result files or from the cache."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..datasets import stored_distances, truth_file
from ..errors import UserError
from ..results import TRUTH_ATTRIBUTE, iter_result_paths, read_result, truth_mark
from .cache import MetricsCache, Stamp, file_stamp
from .metrics import Measurement, Truth, compute_all, standard_metrics
from .styles import Style, assign_styles

LONGEST_ATTRIBUTE = 64  # elements; an attribute that is a longer array is data, not a property


@dataclass(frozen=True)
class Run:
    """One result: what was run, its metrics by name (nan where unknown) and the file's other attributes."""

    dataset: str
    count: int
    distance: str
    batch: bool
    algorithm: str
    parameters: str
    metrics: dict[str, float]
    attrs: dict[str, Any] = field(default_factory=dict)


def clean_text(value: object) -> str:
    """Return one printable line: control characters and undecodable bytes become spaces and marks."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)


def plain_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, strings or short arrays, as JSON holds them."""
    plain: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, (np.generic, np.ndarray)):
            if value.size > LONGEST_ATTRIBUTE:
                continue
            value = value.tolist()
        if isinstance(value, list):
            value = json.loads(json.dumps(value, default=clean_text))
        elif not isinstance(value, (bool, int, float)):
            value = clean_text(value)
        plain[clean_text(name)] = value
    return plain


class TruthError(UserError):
    """The true distances of a dataset cannot be had, so that none of its results can be judged."""


class TruthFile:
    """A dataset's true distances, read when they are first needed."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        try:
            self.stamp: Stamp = file_stamp(truth_file(dataset))
        except OSError:
            raise TruthError(
                f"{truth_file(dataset)}, which holds the true distances, is missing: restore it, or make it"
                f" with run.py or create_dataset.py"
            ) from None
        self._truth: Truth | None = None
        self._marks: dict[int, str] = {}

    def covering(self, queries: int, count: int) -> Truth:
        """Return all true distances; UserError if they are fewer than the queries or neighbours asked for."""
        if self._truth is None:
            self._truth = Truth(self._read())
        stored_queries, stored_count = self._truth.distances.shape
        if queries > stored_queries or not 1 <= count <= stored_count:
            raise UserError(
                f"it has {queries} queries with {count} neighbours, {truth_file(self.dataset)} the truth of"
                f" {stored_queries} with {stored_count}: it was run on another version of the dataset"
            )
        return self._truth

    def mark(self, count: int) -> str:
        """Return what results that asked for `count` neighbours hold as the mark of this dataset."""
        if count not in self._marks:
            assert self._truth is not None
            self._marks[count] = truth_mark(self._truth.distances[:, :count])
        return self._marks[count]

    def _read(self) -> np.ndarray:
        try:
            return stored_distances(self.dataset)
        except (UserError, OSError, RuntimeError, KeyError, ValueError) as error:
            raise TruthError(str(error)) from error


def measure(path: Path, dataset: str, count: int, truth: TruthFile) -> Run:
    """Read one result file and compute its metrics; UserError if it is damaged or fits no dataset."""
    result = read_result(path)
    attrs = plain_attributes(result.attrs)
    if not isinstance(attrs.setdefault("count", count), int):
        raise UserError(f"its count is {attrs['count']!r}, which is no number")
    true = truth.covering(len(result.distances), attrs["count"])
    if attrs.get(TRUTH_ATTRIBUTE, truth.mark(attrs["count"])) != truth.mark(attrs["count"]):
        raise UserError("it was measured on other vectors of the same name: measure it again with run.py")
    is_batch = bool(attrs.get("batch_mode", False))
    folder = path.parent.name
    return Run(
        dataset=dataset,
        count=attrs["count"],
        distance=str(attrs.get("distance", "unknown")),
        batch=is_batch,
        algorithm=str(attrs.get("algo", folder.removesuffix("-batch") if is_batch else folder)),
        parameters=str(attrs.get("name", path.stem)),
        metrics=compute_all(Measurement(true, result.distances, result.times, attrs)),
        attrs=attrs,
    )


def split_path(path: Path) -> tuple[str, int]:
    """Return the dataset and the count of results/DATASET/COUNT/ALGORITHM/ARGS.hdf5."""
    if len(path.parts) < 5 or not path.parts[-3].isdecimal():
        raise UserError("it does not lie in results/DATASET/COUNT/ALGORITHM/")
    return path.parts[-4], int(path.parts[-3])


def from_cache(value: Any) -> Run | None:
    """Rebuild a run from a cache entry, or return None if it is not one."""
    try:
        run = Run(**value)
        numbers = [run.metrics[name] for name in standard_metrics]
    except (TypeError, KeyError):
        return None
    return run if all(isinstance(number, (int, float)) for number in numbers) else None


def skipped(what: object, reason: object) -> None:
    """Say on stderr what was left out, and why."""
    tqdm.write(f"skipped {what}: {str(reason).removeprefix(f'{what} ')}", file=sys.stderr)


def load_runs(paths: Iterable[Path], recompute: bool = False) -> Iterator[Run]:
    """Yield the run of each result file that can be read; say on stderr which cannot, and why.

    `recompute` computes every metric anew. Datasets are not downloaded: the results of one that is missing
    are left out, which is said once for all of them.
    """
    cache = MetricsCache()
    truth: TruthFile | None = None
    without_truth: set[str] = set()
    try:
        for path in tqdm(list(paths), desc="metrics", unit="file", disable=None, leave=False):
            try:
                dataset, count = split_path(path)
                if dataset in without_truth:
                    continue
                if truth is None or truth.dataset != dataset:
                    truth = TruthFile(dataset)
                stamp = file_stamp(path)
                run = None if recompute else from_cache(cache.get(path, stamp, truth.stamp))
                if run is None:
                    run = measure(path, dataset, count, truth)
                    cache.put(path, stamp, truth.stamp, vars(run))
                yield run
            except TruthError as error:
                without_truth.add(dataset)
                skipped(f"results/{dataset}", error)
            except (UserError, OSError) as error:
                skipped(path, error)
    finally:
        cache.save()


def result_styles(runs: Iterable[Run]) -> dict[str, Style]:
    """Give each algorithm that has results of any dataset its style, so that it looks alike in every plot."""
    folders = {path.parent.name for path in iter_result_paths()}
    return assign_styles({run.algorithm for run in runs} | {name.removesuffix("-batch") for name in folders})
