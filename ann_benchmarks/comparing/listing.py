"""The runs that are stored, and all that is known about one."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import figure_text, size_text

from .changes import properties
from .measurements import METRICS, MeasuredPoint
from .sides import ResultFilter, estimates, read_all, results_below, run_folders, run_id
from .tables import csv_text, grid

LIST = ("run", "started", "dataset", "k", "series", "points", "build (s)", "index (MB)", "versions",
        "machine")  # fmt: skip


def list_runs(roots: Sequence[Path], only: ResultFilter, form: str) -> str:
    """Return a table of the runs below some folders, the oldest first."""
    rows = []
    for folder in run_folders(roots):
        paths = results_below(folder.absolute())
        if read := read_all((path, (), 0) for path in paths if only.takes(path)):
            rows.append(_row(folder, read))
    if not rows:
        raise UserError(
            f"no results in {' '.join(map(str, roots))}: measure some with run.py, or name a folder"
        )
    rows.sort(key=lambda row: (row[1], row[2:5]))
    if form == "json":
        return json.dumps([dict(zip(LIST, row, strict=True)) for row in rows], indent=2) + "\n"
    if form == "csv":
        return csv_text(LIST, rows)
    return "\n".join(grid(form, LIST, rows, "lllrlrrrll")) + "\n"


def _row(folder: Path, read: list[MeasuredPoint]) -> list[str]:
    started = min(str(m.attrs.get("started_at", "-")) for m in read)
    return [
        *(run_id(folder), started[:19], *folder.absolute().parts[-3:], str(len(read))),
        *(_range(read, metric) for metric in ("build", "size")),
        ", ".join(f"{name} {value}" for name, value in _versions(read)) or "-",
        _machine(read[0]),
    ]


def _range(read: list[MeasuredPoint], metric: str) -> str:
    values = sorted(found.value for found in estimates(metric, read))
    return " to ".join(dict.fromkeys(figure_text(v) for v in values[:: max(len(values) - 1, 1)])) or "-"


def _versions(read: list[MeasuredPoint]) -> list[tuple[str, str]]:
    found = {
        (name.removesuffix("_version"), str(value))
        for m in read
        for name, value in m.attrs.items()
        if name.endswith("_version") and name != "framework_version"
    }
    return sorted(found)


def _machine(m: MeasuredPoint) -> str:
    memory = m.number("memory_bytes")
    size = size_text(memory) if memory > 0 else ""
    cores = f"{m.attrs['cores']} cores" if "cores" in m.attrs else ""
    return ", ".join(filter(None, [str(m.attrs.get("cpu", "")), cores, size])) or "-"


def show_run(read: list[MeasuredPoint], form: str) -> str:
    """Return all that is known about the points of a run: what they have in common, then each of them."""
    if form == "json":
        content = [{"file": str(m.path), "attributes": dict(m.attrs)} for m in read]
        return json.dumps(content, indent=2) + "\n"
    head = ["point", *(metric.title for metric in METRICS.values()), "recall", "runs", "started"]
    rows = [_point(m) for m in read]
    if form == "csv":
        return csv_text(head, rows)
    common = grid(form, ["all points", ""], list(_common(read)), "ll")
    return "\n".join([*common, "", *grid(form, head, rows, "lrrrrrrrrrl")]) + "\n"


def _common(read: list[MeasuredPoint]) -> Iterator[list[str]]:
    """Yield each property, with all of its values."""
    every = [properties(m.attrs) for m in read]
    for name in dict.fromkeys(name for of_point in every for name in of_point):
        values = dict.fromkeys(of_point.get(name, "-") for of_point in every)
        is_plan = name == "plan" and len(values) > 1
        yield [name, f"{len(values)} different ones" if is_plan else ", ".join(values)]


def _point(m: MeasuredPoint) -> list[str]:
    figures = [m.estimate(name) for name in METRICS]
    recall = "-" if m.recall is None else f"{m.recall:.4f}"
    return [
        m.name,
        *("-" if figure is None else figure_text(figure.value) for figure in figures),
        *(recall, str(m.attrs.get("run_count", "-")), str(m.attrs.get("started_at", "-"))[:19]),
    ]
