"""What somebody may do to a bundle: how it is done, and the rule that refuses it."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.fields.series import series_from
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.submission.manifest import read_manifest, write_manifest

from .bundle_data import DATASET, attributes, point_files, set_arrays, set_attributes

RESULTS = f"results/{DATASET}/10"
MB = 1 << 20
OF_POINTS = {"answers", "attributes", "figures", "mixed", "series", "target", "timings"}  # rules
Change = Callable[[Path], Any]


def first(folder: Path) -> Path:
    return point_files(folder)[0]


def claimed(folder: Path) -> Path:
    return point_files(folder)[-1]


@dataclass(frozen=True)
class Tampering:
    """What is done to a bundle, the rule that refuses it with remade hashes, and words of the line."""

    name: str
    rule: str
    words: str
    change: Change


@dataclass(frozen=True)
class PointChange:
    """A change of attributes and arrays of a point: on the disk, or in memory, which is cheaper."""

    attributes: Callable[[dict[str, Any]], dict[str, Any]] = lambda known: {}
    arrays: Mapping[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    where: Callable[[Path], Path] = first

    def __call__(self, folder: Path) -> None:
        """Change the file."""
        path = self.where(folder)
        set_attributes(path, **self.attributes(attributes(path)))
        set_arrays(path, **self.arrays)

    def of(self, raw: Any) -> Any:
        """Return what a file holds, changed."""
        changed = {name: change(raw.arrays[name]) for name, change in self.arrays.items()}
        return replace(raw.with_attributes(**self.attributes(raw.attrs)), arrays=raw.arrays | changed)


def is_in_memory(tampering: Tampering) -> bool:
    """Whether no other file than that of the point is needed to see it."""
    return isinstance(tampering.change, PointChange) and tampering.rule in OF_POINTS


def arrays(**changes: Callable[[np.ndarray], np.ndarray]) -> Change:
    return PointChange(arrays=changes)


def attrs(**values: Any) -> Change:
    return PointChange(lambda known: values)


def of_claim(**values: Any) -> Change:
    return lambda folder: set_attributes(claimed(folder), **values)


def with_one(place: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return what changes one element of an array."""

    def change(values: np.ndarray) -> np.ndarray:
        values = values.copy()
        values[place] = value(values[place]) if callable(value) else value
        return values

    return change


def scaled(name: str, by: float) -> Change:
    """Multiply a number, or each of several."""

    def change(known: dict[str, Any]) -> dict[str, Any]:
        value = known[name]
        return {name: [by * one for one in value] if isinstance(value, list) else by * value}

    return PointChange(change)


SPANS = ("run_seconds", "best_search_time", "asking_seconds", "client_cpu_seconds_per_query")
RATES = ("qps_mean", "qps_low", "qps_high")


def faster(by: float, where: Callable[[Path], Path] = first, **more: Any) -> Change:
    """Multiply the throughput of all runs wherever it is stored, but for latencies; say more."""

    def change(known: dict[str, Any]) -> dict[str, Any]:
        factors = {**dict.fromkeys(SPANS, 1 / by), **dict.fromkeys(RATES, by)}
        found = {name: (known[name], factor) for name, factor in factors.items() if name in known}
        return {
            name: [factor * one for one in old] if isinstance(old, list) else factor * old
            for name, (old, factor) in found.items()
        } | more

    return PointChange(change, where=where)


def move(folder: Path, *, days: float, series: str = "part-c1") -> None:
    """Move the time of day at which the first point of a series was measured."""
    path = next(iter(sorted((folder / RESULTS / series).glob("*.hdf5"))))
    known = attributes(path)
    by = timedelta(days=days)
    moved = {
        name: (datetime.fromisoformat(known[name]) + by).isoformat() for name in ("started_at", "ended_at")
    }
    started = [one + by.total_seconds() for one in known["run_started"]]
    set_attributes(path, run_started=started, **moved)


def relabel(folder: Path, name: str, attrs: dict[str, Any], **fields: Any) -> None:
    """Give the points of a series other fields of it, wherever it is named, and other attributes."""
    old = folder / RESULTS / name
    for path in old.glob("*.hdf5"):
        series = series_from(json.loads(attributes(path)["series"])).replaced(**fields)
        set_attributes(path, series=series.dump_json(), algo=series.label, **attrs)
    old.rename(old.with_name(series.folder))


def relabelled(name: str, attrs: dict[str, Any], **fields: Any) -> Change:
    return lambda folder: relabel(folder, name, attrs, **fields)


def on_a_tier(available: float = 128.0, **attrs: Any) -> Change:
    """Say of every point by two clients that it was measured with 128 MB, and how many there were."""
    tier = {"tier": "32MB:128MB", "tier_method": "cgroup", "tier_ram": 128 * MB}
    buffers = {"tier_shared_buffers": 32 * MB, "shared_buffers": 32 * MB}
    attrs = {**tier, **buffers, "tier_available": available * MB, **attrs}
    return relabelled("part-c2", attrs, tier_method="cgroup", tier_memory="sb32MB-ram128MB")


def copy_scaled(folder: Path) -> None:
    """Hand in a point by one client again as one by two clients, with other times."""
    target = point_files(folder, "part-c2")[0]
    series = attributes(target)["series"]
    shutil.copy(first(folder), target)
    set_attributes(target, series=series, algo="part-c2", clients=2)
    set_arrays(target, times=lambda times: times * np.float32(1.07))


def replace_in(file: str, change: Callable[[str], str]) -> Change:
    def write(folder: Path) -> None:
        (folder / file).write_text(change((folder / file).read_text()))

    return write


def truth_from_answers(folder: Path) -> None:
    """Have the truth be what the worst point has found, and all marks those of this truth."""
    with h5py.File(first(folder)) as file:
        rows, distances = file["neighbors"][()], file["distances"][()]
    order = np.argsort(distances, axis=1, kind="stable")
    rows, distances = (np.take_along_axis(values, order, 1) for values in (rows, distances))
    set_arrays(
        folder / "truth" / f"{DATASET}.hdf5", neighbors=lambda old: rows, distances=lambda old: distances
    )
    remark(folder, distances)


def remark(folder: Path, distances: np.ndarray) -> None:
    """Have every mark of the truth be that of other distances, (queries, k)."""
    for path in folder.glob("results/*/*/*/*.hdf5"):
        set_attributes(path, truth=truth_mark(distances[:, :10]))
    manifest = read_manifest(folder)
    datasets = {DATASET: replace(manifest.datasets[DATASET], fingerprint=truth_mark(distances))}
    write_manifest(folder, replace(manifest, datasets=datasets))


def raise_truth(folder: Path) -> None:
    """Have more answers be near enough, by a truth that is farther away."""
    path = folder / "truth" / f"{DATASET}.hdf5"
    set_arrays(path, distances=lambda distances: distances * np.float32(1.1))
    with h5py.File(path) as file:
        distances = file["distances"][()]
    remark(folder, distances)
