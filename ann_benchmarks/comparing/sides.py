"""What A and B name, and its points: folders of results, series, runs of --list, single files."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.names import matching
from ann_benchmarks.results.file import RESULTS_FOLDER, read_attributes, read_more
from ann_benchmarks.results.runs import skipped
from ann_benchmarks.statistics.percentiles import QUERIES
from ann_benchmarks.statistics.speeds import Standing, find_standing

from .measurements import QUICK, QUICK_SHARE, Key, MeasuredPoint, group_by_key

ID_LENGTH = 6  # hexadecimal digits


def read_side(names: Sequence[str]) -> list[MeasuredPoint]:
    """Read the points of one side, named by one or several words; UserError without points.

    Several folders, also by a pattern such as 'ci/main-*', are repetitions of the same measurements.
    """
    sources = [source for name in names for source in _sources(name)]
    found = read_all(
        (path.absolute(), key, number) for number, source in enumerate(sources) for path, key in source
    )
    if not found:
        raise UserError(f"{' '.join(names)} holds no readable result: compare.py --list shows all")
    return found


def _sources(name: str) -> Iterator[list[tuple[Path, Key]]]:
    """Yield the results of each thing that a word names, each with the parts that the word leaves open."""
    if paths := matching(name):
        for path in paths:
            if path.is_file() and is_result(path.absolute()):
                yield [(path, ())]
            elif path.is_dir():
                below = _results_folder(path)
                yield [
                    (found, found.relative_to(below).with_suffix("").parts) for found in results_below(path)
                ]
        return
    folders = run_folders([Path(RESULTS_FOLDER)])
    if re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", name):
        for folder in folders:
            if run_id(folder) == name:
                yield [(path, (path.stem,)) for path in results_below(folder)]
                return
    pattern = re.compile("(.*)".join(map(re.escape, name.split("*"))))  # what a * stands for is a group
    series = [(folder, match) for folder in folders if (match := pattern.fullmatch(folder.name))]
    if not series:
        known = closest(name, sorted({folder.name for folder in folders}))
        raise UserError(f"'{name}' must be a file, a folder or a series in {RESULTS_FOLDER}/; {known}")
    yield [
        (path, (*folder.parts[-3:-1], *match.groups(), path.stem))
        for folder, match in series
        for path in results_below(folder)
    ]


def run_id(folder: Path) -> str:
    """Return the short name of a run, which is a series of a dataset and count in a folder of results."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:ID_LENGTH]


def run_folders(roots: Sequence[Path]) -> list[Path]:
    """Return the folder of each run below some folders."""
    return list(dict.fromkeys(path.parent for root in roots for path in results_below(root)))


def results_below(folder: Path) -> list[Path]:
    """Return every result in a folder, or in the `results` of that."""
    found = _results_folder(folder).rglob("*.hdf5")
    return sorted(path for path in found if is_result(path.absolute()))


def _results_folder(folder: Path) -> Path:
    inner = folder / RESULTS_FOLDER
    return inner if inner.is_dir() else folder


def is_result(path: Path) -> bool:
    """Whether a file lies where result files do, and is not one that is being written."""
    parts = path.parts
    return len(parts) >= 5 and parts[-3].isdecimal() and path.is_file() and path.stat().st_size > 0


def read_all(found: Iterable[tuple[Path, Key, int]]) -> list[MeasuredPoint]:
    """Read files with their keys and sources; say on stderr which cannot be read, and why."""
    points: list[MeasuredPoint] = []
    for path, key, source in found:
        try:
            points.append(MeasuredPoint(path, key, source, _histogram(path) | read_attributes(path)))
        except UserError as error:
            skipped(path, error)
    return points


def _histogram(path: Path) -> dict[str, float]:
    """Return what only the histogram of all latencies states: the latency, in s, of the quickest tenth.

    Older files state their number nowhere else.
    """
    counts, edges = read_more(path, "latency_histogram", "latency_histogram_edges") or [np.zeros(0)] * 2
    if counts.ndim != 1 or edges.shape != (len(counts) + 1,) or not counts.any():
        return {}
    if counts.min() < 0 or not (np.diff(edges, prepend=0) > 0).all():
        raise UserError(
            f"{path} is invalid: its histogram of latencies must have counts, between edges in order"
        )
    shares = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    quick = float(np.exp(np.interp(QUICK_SHARE, shares, np.log(edges))))
    return {QUICK: quick, QUERIES: float(counts.sum())}


def estimate_at_recall(side: Sequence[MeasuredPoint], recall: float) -> list[MeasuredPoint]:
    """Return each series' repetitions as they are at a recall; UserError where no series reaches it.

    The throughput is taken between the points next to that recall, which all repetitions choose together. All
    other figures are those of the nearest point.
    """
    series: dict[Key, list[list[MeasuredPoint]]] = {}
    for key, repetitions in group_by_key(side).items():
        if all(point.recall is not None and point.estimate("qps") for point in repetitions):
            series.setdefault(key[:-1], []).append(repetitions)
    found = []
    for key, points in series.items():
        speeds = [replace(one[0].speed, rates=[r for m in one for r in m.speed.rates]) for one in points]
        if stands := find_standing(speeds, recall):
            found += [replace(point, key=(*key, "")) for point in _repetitions(points, stands)]
    if not found:
        raise UserError(f"no point reaches a recall of {recall:g}: {side[0].path.parent} and others")
    return found


def _repetitions(points: Sequence[Sequence[MeasuredPoint]], stands: Standing) -> list[MeasuredPoint]:
    """Return the nearest point of each repetition, with the throughput at the recall."""
    levels = [{point.source: point.speed.level for point in one} for one in points]
    means = [fmean(level.values()) for level in levels]
    found = []
    for point in points[stands.chosen[0]]:
        level = stands.shift + math.fsum(
            weight * levels[i].get(point.source, means[i]) for i, weight in stands.weights.items()
        )
        scale = math.exp(point.speed.level - level)
        seconds = [scale / rate for rate in point.speed.rates]
        attrs = {**point.attrs, "run_seconds": seconds, "best_search_time": min(seconds)}
        found.append(replace(point, attrs=attrs, stands=stands))
    return found
