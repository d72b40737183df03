"""What else differs between A and B: machine, versions, settings, tier, plan."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.rows import FIELDS

from .matching import PointPair
from .measurements import MeasuredPoint

MACHINE = ("cpu", "cores", "memory_bytes", "kernel", "python", "framework_version")
INDEX = (
    "dataset", "truth", "distance", "build_arguments",
    "target_recall", "target_value", "target_missed",
    "shared_buffers", "maintenance_work_mem", "max_parallel_maintenance_workers", "prewarmed_by",
    "docker_image", "docker_image_id", "container_memory_bytes", "graph_overflow_rows",
)  # fmt: skip
LOAD = (
    "algo", "loop", "asked_duration", "asked_queries", "run_count", "count", "warmup", "client_machines",
    "tier", "tier_ram", "tier_shared_buffers",
)  # fmt: skip
OF_PLAN = ("Scan Direction", "Parallel Aware", "Order By", "Index Cond", "Filter", "Sort Key", "Output")
FREE_DISK = ("setting max_wal_size",)  # which embedded servers choose by it, a different one each time


class Change(NamedTuple):
    """Something that differs between A and B, and in how many of the points."""

    what: str
    a: str
    b: str
    points: int


def changes(pairs: Sequence[PointPair]) -> list[Change]:
    """Return what differs, machine and versions first; from plans only the lines that differ."""
    counted: dict[tuple[str, str, str], int] = {}
    for pair in pairs:
        a, b = (_properties(side) for side in (pair.a, pair.b))
        for what in dict.fromkeys((*a, *b)):
            before, after = (", ".join(side.get(what, ())) or "-" for side in (a, b))
            if before != after:
                before, after = _differing(before, after) if what == "plan" else (before, after)
                place = (what, before, after)
                counted[place] = counted.get(place, 0) + 1
    rank = {name: i for i, name in enumerate((*MACHINE, "version", *INDEX, *LOAD, *attributes()))}

    def order(change: Change) -> tuple[int, str]:
        name = "version" if change.what.endswith("_version") and change.what not in rank else change.what
        return rank.get(name, len(rank) + (change.what == "plan")), change.what

    return sorted((Change(*place, points) for place, points in counted.items()), key=order)


def attributes() -> list[str]:
    """Return the attributes that say the same as fields of the series."""
    return [field.attribute for field in FIELDS.values() if field.attribute]


def is_of_machine(change: Change) -> bool:
    """Whether it says that A and B were measured on different machines."""
    return change.what in MACHINE[:4]


def _properties(side: Iterable[MeasuredPoint]) -> dict[str, dict[str, None]]:
    """Return the properties of all points of a side, each value once."""
    values: dict[str, dict[str, None]] = {}
    for point in side:
        for name, value in properties(point.attrs).items():
            values.setdefault(name, {})[value] = None
    return values


def properties(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return as text what was requested and under which conditions, without what differs each time."""
    found = {name: attrs[name] for name in (*MACHINE, *INDEX, *LOAD, *attributes()) if name in attrs}
    found |= {name: value for name, value in attrs.items() if name.endswith("_version")}
    found |= {
        f"setting {name}": value for name, value in from_json(attrs.get("settings"), dict[str, Any]()).items()
    }
    found = {name: value for name, value in found.items() if name not in FREE_DISK}
    if plan := plan_lines(from_json(attrs.get("plan"), dict[str, Any]())):
        found["plan"] = "\n".join(plan)
    return {name: str(value) for name, value in found.items()}


def plan_lines(node: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Write a plan as indented lines, without costs and without names of tables and indexes."""
    if not node:
        return []
    table = f"{node.get('Alias', '')}."
    parts = [f"{name}: {node[name]}".replace(table, "") for name in OF_PLAN if name in node]
    lines = ["  " * depth + "; ".join([str(node.get("Node Type", "?")), *parts])]
    inner = node.get("Plans")
    children = [child for child in inner if isinstance(child, dict)] if isinstance(inner, list) else []
    return lines + [line for child in children for line in plan_lines(child, depth + 1)]


def _differing(a: str, b: str) -> tuple[str, str]:
    """Return the lines of each that the other does not have."""
    lines = list(difflib.ndiff(a.splitlines(), b.splitlines()))
    before, after = ("\n".join(line[2:] for line in lines if line.startswith(mark)) or "-" for mark in "-+")
    return before, after
