"""Measurements read from their files."""

from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import plain_attributes
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.records import SUFFIX
from ann_benchmarks.results.runs import skipped

from .measurements import QUICK, QUICK_SHARE, Key, Measurement
from .writing import read_workload


def read_all(found: Iterable[tuple[Path, Key, int]]) -> list[Measurement]:
    """Read what was found; say on stderr which file cannot be read, and why."""
    measurements: list[Measurement] = []
    for path, key, source in found:
        try:
            if path.name.endswith(SUFFIX):
                measurements += read_workload(path, key, source)
            else:
                attrs = plain_attributes(read_attributes(path)) | _quick(path)
                measurements.append(Measurement(path, key, source, attrs))
        except UserError as error:
            skipped(path, error)
    return measurements


def _quick(path: Path) -> dict[str, float]:
    """Return the latency, in s, that a tenth of all queries of all runs do not exceed, by their histogram."""
    with h5py.File(path, "r", locking=False) as file:
        if "latency_histogram" not in file or "latency_histogram_edges" not in file:
            return {}
        counts, edges = file["latency_histogram"][()], file["latency_histogram_edges"][()]
    if len(edges) != len(counts) + 1 or not counts.any():
        return {}
    shares = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    return {QUICK: float(np.exp(np.interp(QUICK_SHARE, shares, np.log(edges))))}
