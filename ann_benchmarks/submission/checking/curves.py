"""What no single point shows: curves of several machines or servers, and measurements handed in twice."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import shown
from ann_benchmarks.common.text import from_json

from .points import CheckedPoint
from .rules import Findings

SAME_IN_A_CURVE = (
    "cpu", "cores", "kernel", "disk", "file_system", "container_memory_bytes", "container_memory_requested",
    "docker_image", "docker_image_id", "server", "server_address", "framework_version", "python", "distance",
    "truth", "shared_buffers", "tier", "tier_ram", "tier_shared_buffers", "tier_cpus", "tier_disk",
    "tier_iops", "tier_bandwidth", "tier_method", "warmup", "query_order", "driver", "clients",
    "asked_duration", "asked_queries",
)  # fmt: skip
# Among the first, those of extensions are set for a point.
SETTINGS = ("settings", "server_settings", "given_settings")
OF_BUILDS = ("maintenance_work_mem", "max_parallel_maintenance_workers")  # follow from the index
FREE_DISK = "max_wal_size"  # which embedded servers choose by it, another one at each start
MEMORY_SLACK = 0.05
FEWEST = 64  # latencies; as many in the same order, or of the same values, are of one measurement
LEAVE_OUT = "leave one of them out"
PIECES = 32  # of a run, whose order by their mean latency identifies it


def check_repeated(points: Sequence[CheckedPoint], findings: Findings) -> None:
    """Refuse points of one index with the same description, unless searches for two recalls have led there.

    A plug-in need not describe its query arguments: where all points of an index have one description, it
    says nothing.
    """
    indexes: dict[tuple[Any, ...], list[CheckedPoint]] = {}
    for point in points:
        series = json.dumps(vars(point.series), sort_keys=True, default=str)
        index = (*point.curve[:2], series, str(point.attrs.get("build_arguments")))
        indexes.setdefault(index, []).append(point)
    for index_points in indexes.values():
        known: dict[tuple[str, float | None], str] = {}
        described = [(str(one.attrs.get("name")), one.target) for one in index_points]
        if set(described) == {(described[0][0], None)}:
            continue
        for key, point in zip(described, index_points, strict=True):
            other = known.setdefault(key, point.file)
            if other != point.file:
                findings.refuse(point.file, "duplicate", f"is the same point as {other}", LEAVE_OUT)


def check_mixed(points: Sequence[CheckedPoint], findings: Findings) -> None:
    """Refuse curves whose points differ in what a curve has one of."""
    curves: dict[tuple[Any, ...], list[CheckedPoint]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    for curve in curves.values():
        first, *others = curve
        for point in others:
            for what in sorted(differences(first.attrs, point.attrs)):
                findings.refuse(
                    point.file,
                    "mixed",
                    f"has {what}, other than {first.file.rpartition('/')[2]} of the same curve",
                    "measure the curve anew, or hand in two",
                )


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[str]:
    """Yield in what the second of two points of a curve differs from the first."""
    names = [name for name in one.keys() | other.keys() if name.endswith("_version")]
    for name in (*SAME_IN_A_CURVE, *names):
        if one.get(name) != other.get(name):
            yield f"{name} {shown(other.get(name))}, not {shown(one.get(name))}"
    first, second = one.get("memory_bytes"), other.get("memory_bytes")
    if isinstance(first, int | float) and isinstance(second, int | float):
        if abs(second - first) > MEMORY_SLACK * abs(first):
            yield f"memory_bytes {second}, not {first}"
    elif first is not None or second is not None:
        yield "no size of its memory, or one alone"
    for name in SETTINGS:
        mine, theirs = (from_json(attrs.get(name), dict[str, Any]()) for attrs in (one, other))
        for key in mine.keys() | theirs.keys():
            is_of_point = key in (*OF_BUILDS, FREE_DISK) or (name == SETTINGS[0] and "." in key)
            if not is_of_point and mine.get(key) != theirs.get(key):
                yield f"{name} {key} {shown(theirs.get(key))}, not {shown(mine.get(key))}"


class Duplicates:
    """Finds what was handed in twice; points are given one by one, with their arrays."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._known: dict[tuple[Any, ...], str] = {}

    def add(self, point: CheckedPoint) -> None:
        """Compare a point with those before it."""
        times = point.stored.times
        if len(times) >= FEWEST and len(np.unique(times)) >= FEWEST:
            self._compare(point, ("order", _mark(_order(times))), "has latencies in the order of those of")
            self._compare(point, ("sorted", _mark(np.sort(times))), "has the same latencies as")
        for started in point.numbers("run_started"):
            self._compare(point, ("run", started), "has a run that began at the very time of one of")

    def _compare(self, point: CheckedPoint, key: tuple[Any, ...], what: str) -> None:
        other = self._known.setdefault(key, point.file)
        if other != point.file:
            self._findings.refuse(point.file, "duplicate", f"{what} {other}", LEAVE_OUT)


def _order(times: np.ndarray) -> np.ndarray:
    """Return the order of the pieces of a run by their means, which no factor changes."""
    return np.argsort([float(np.mean(piece, dtype=np.float64)) for piece in np.array_split(times, PIECES)])


def _mark(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
