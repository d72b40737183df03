"""The runs there are, and all that is known of one."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError

from .changes import properties
from .grids import aligned, csv_text, figure_text, markdown
from .measurements import METRICS, Measurement
from .naming import Narrowed, results_below, run_folders, run_id
from .reading import read_all

LIST = (
    "run",
    "started",
    "dataset",
    "k",
    "series",
    "points",
    "build (s)",
    "index (MiB)",
    "versions",
    "machine",
)


def list_runs(roots: Sequence[Path], narrowed: Narrowed, form: str) -> str:
    """Return a table of the runs below some folders, the oldest first."""
    rows = []
    for folder in run_folders(roots):
        paths = results_below(folder.absolute())
        if read := read_all((path, (), 0) for path in paths if narrowed.takes(path)):
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
    return "\n".join((markdown if form == "markdown" else aligned)(LIST, rows, "lllrlrrrll")) + "\n"


def _row(folder: Path, read: list[Measurement]) -> list[str]:
    started = min(str(m.attrs.get("started_at", "-")) for m in read)
    return [
        *(run_id(folder), started[:19], *folder.absolute().parts[-3:], str(len(read))),
        *(_range(read, metric) for metric in ("build", "size")),
        ", ".join(f"{name} {value}" for name, value in _versions(read)) or "-",
        _machine(read[0]),
    ]


def _range(read: list[Measurement], metric: str) -> str:
    values = sorted(f.value for m in read if (f := m.figure(metric)))
    return " to ".join(dict.fromkeys(figure_text(v) for v in values[:: max(len(values) - 1, 1)])) or "-"


def _versions(read: list[Measurement]) -> list[tuple[str, str]]:
    found = {
        (name.removesuffix("_version"), str(value))
        for m in read
        for name, value in m.attrs.items()
        if name.endswith("_version") and name != "framework_version"
    }
    return sorted(found)


def _machine(m: Measurement) -> str:
    memory = m.number("memory_bytes")
    size = f"{memory / (1 << 30):.0f} GiB" if memory > 0 else ""
    cores = f"{m.attrs['cores']} cores" if "cores" in m.attrs else ""
    return ", ".join(filter(None, [str(m.attrs.get("cpu", "")), cores, size])) or "-"


def show_run(read: list[Measurement], form: str) -> str:
    """Return all that is known of the measurements of a run: what all have in common, then each of them."""
    if form == "json":
        content = [{"file": str(m.path), "attributes": dict(m.attrs)} for m in read]
        return json.dumps(content, indent=2) + "\n"
    head = ["point", *(metric.title for metric in METRICS.values()), "recall", "runs", "started"]
    rows = [_point(m) for m in read]
    if form == "csv":
        return csv_text(head, rows)
    grid = markdown if form == "markdown" else aligned
    return (
        "\n".join(
            [*grid(["all points", ""], list(_common(read)), "ll"), "", *grid(head, rows, "lrrrrrrrrrl")]
        )
        + "\n"
    )


def _common(read: list[Measurement]) -> Iterator[list[str]]:
    """Yield what all points share, and of the rest which values there are."""
    told: list[dict[str, Any]] = [properties(m.attrs) for m in read]
    for name in dict.fromkeys(name for properties_of in told for name in properties_of):
        values = dict.fromkeys(properties_of.get(name, "-") for properties_of in told)
        yield [
            name,
            ", ".join(values) if name != "plan" or len(values) == 1 else f"{len(values)} different ones",
        ]


def _point(m: Measurement) -> list[str]:
    figures = [m.figure(name) for name in METRICS]
    recall = "-" if m.recall is None else f"{m.recall:.4f}"
    return [
        m.point,
        *("-" if figure is None else figure_text(figure.value) for figure in figures),
        *(recall, str(m.attrs.get("run_count", "-")), str(m.attrs.get("started_at", "-"))[:19]),
    ]
