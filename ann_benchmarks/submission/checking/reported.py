"""The report's figures, and what system.json says, beside the result files."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import DAMAGE, plain, reason_of
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.attributes import version_names

from ..files import opened
from .points import CheckedPoint
from .rules import Findings

MOST_BYTES = 256 << 20
REPORT, TABLE, SYSTEM = "report/report.json", "report/points.csv", "system.json"
SAME = 1e-4  # relative
ADVICE = "write the bundle again"
KILO = 1e3


def read_text(path: Path) -> str:
    """Return a text; UserError where it cannot be read within bounds."""
    try:
        with opened(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"has more than {MOST_BYTES >> 20} MiB")
        return str(content.decode())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read: {reason_of(error)}") from None


def read_json(path: Path) -> Any:
    """Return what a file holds as JSON; UserError where that is none within bounds."""
    try:
        return plain(json.loads(read_text(path)))
    except RecursionError:
        raise UserError("is nested too deeply") from None
    except ValueError as error:
        raise UserError(f"is no JSON: {reason_of(error)}") from None


def figures_of(point: CheckedPoint, has_slack: bool) -> dict[str, float | None]:
    """Return the figures of a point by the names of the metrics in reports.

    `has_slack`: the report is of an earlier version, whose recall had the slack of ann-benchmarks.
    """
    times = {name: point.number(f"latency_{name}") for name in ("p50", "p95", "p99", "p999")}
    own = point.recall, point.recall_fifth, point.recall_worst
    exact, slack = (point.recalls_otherwise, own) if point.has_slack else (own, point.recalls_otherwise)
    recall, fifth, worst = slack if has_slack else exact
    return {
        "k-nn": slack[0],
        "recall": recall,
        "recall-p5": fifth,
        "recall-worst": worst,
        "qps": point.qps,
        "qps-best": 1 / (point.number("best_search_time") or math.nan),
        "build": point.number("build_time"),
        "indexsize": point.number("index_size"),
        **{name: None if value is None else KILO * value for name, value in times.items()},
    }


def check_report(
    folder: Path, files: Sequence[str], points: Sequence[CheckedPoint], findings: Findings
) -> None:
    """Refuse a report whose figures are not those of the files, or that has points of no file.

    As many points as there are files that could not be judged may be of these, which are refused already.
    """
    known: dict[Any, list[CheckedPoint]] = {}
    judged = {point.file for point in points}
    unjudged = sum(file.endswith(".hdf5") and file.startswith("results/") and file not in judged
                   and findings.mentions(file) for file in files)  # fmt: skip
    for point in points:
        key = (point.dataset, point.count, str(point.attrs.get("name")), str(point.attrs.get("started_at")))
        known.setdefault(key, []).append(point)
    for file, rows_of in ((REPORT, _report_rows), (TABLE, _table_rows)):
        if file not in files:
            findings.refuse(file, "report", "is missing", ADVICE)
            continue
        seen, unknown = set(), list[Mapping[str, Any]]()
        try:
            for row in rows_of(read_text(folder / file)):
                shown = find_point(row, known)
                if shown is None and unjudged > len(unknown):
                    unknown.append(row)
                    continue
                if shown is None:
                    what = f"has a point of no file, '{row.get('label')}: {row.get('name')}'"
                    findings.refuse(file, "report", what, ADVICE)
                    continue
                seen.add(shown.file)
                said = row["figures"]
                for problem in _differing(said, figures_of(shown, has_slack="recall" not in said)):
                    findings.refuse(file, "report", f"{shown.file}: {problem}", ADVICE)
        except UserError as error:
            findings.refuse(file, "report", str(error), ADVICE)
        except DAMAGE as error:
            findings.refuse(file, "report", f"is no report: {reason_of(error)}", ADVICE)
        for point in points:
            if point.file not in seen and not findings.mentions(file):
                findings.warn(file, "report", f"does not show {point.file}")


def find_point(row: Mapping[str, Any], known: Mapping[Any, Sequence[CheckedPoint]]) -> CheckedPoint | None:
    """Return the point of a row: of the same dataset, count, description, start, clients and series.

    Contenders of one race may have the same description, and begin in the same second.
    """
    key = (row["dataset"], row["count"], row["name"], str(row["started_at"]))
    fitting = [
        point
        for point in known.get(key, ())
        if str(point.series.clients or "") == str(row["clients"] or "") and _names(row["label"], point.series)
    ]
    return fitting[0] if fitting else None


def _names(label: str, series: Series) -> bool:
    """Whether a curve's label, or the folder of one, is that of a series, whatever tells servers apart."""
    plain = series.without("environment").label
    return any(
        text == plain or text.startswith((f"{plain} (", f"{plain}{BESIDE}"))
        for text in (label, label.removesuffix(BATCH))
    )


def _report_rows(text: str) -> Iterator[dict[str, Any]]:
    try:
        content = plain(json.loads(text))
    except RecursionError:
        raise UserError("is nested too deeply") from None
    for one in content["points"]:
        attrs = one["attrs"]
        yield {
            "dataset": one["dataset"],
            "count": one["count"],
            "name": str(one["parameters"]),
            "label": str(one["algorithm"]),
            "started_at": attrs.get("started_at"),
            "clients": one["series"].get("clients"),
            "figures": one["metrics"],
        }


def _table_rows(text: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MOST_BYTES)
    for one in csv.DictReader(io.StringIO(text)):
        yield {
            "dataset": one["dataset"],
            "count": int(one["count"]),
            "name": str(one["parameters"]),
            "label": str(one["algorithm"]),
            "started_at": one.get("started_at"),
            "clients": one.get("clients"),
            "figures": {name: float(value) for name, value in one.items() if name in FIGURES and value},
        }


FIGURES = (
    *("k-nn", "recall", "recall-p5", "recall-worst", "qps", "qps-best", "build", "indexsize"),
    *("p50", "p95", "p99", "p999"),
)


def _differing(said: Mapping[str, Any], computed: Mapping[str, float | None]) -> Iterator[str]:
    for name in FIGURES:
        one, other = said.get(name), computed[name]
        if not isinstance(one, int | float) or not math.isfinite(one):
            continue
        if other is None and one == 0:
            continue
        if other is None or abs(one - other) > SAME * max(abs(other), 1e-12):
            yield f"its {name} is {one:.6g} here, and {math.nan if other is None else other:.6g} by the file"


def check_system(
    folder: Path, files: Sequence[str], points: Sequence[CheckedPoint], findings: Findings
) -> None:
    """Refuse a system.json that is none, or that does not know a version or CPU of the results."""
    if SYSTEM not in files:
        findings.refuse(SYSTEM, "system", "is missing", ADVICE)
        return
    try:
        text = json.dumps(read_json(folder / SYSTEM), ensure_ascii=False)
    except UserError as error:
        findings.refuse(SYSTEM, "system", str(error), ADVICE)
        return
    said = set()
    for point in points:
        for name in ("cpu", "kernel", *version_names(point.attrs)):
            value = point.attrs.get(name)
            if value is not None and (name, value) not in said and json.dumps(str(value))[1:-1] not in text:
                what = f"does not have the {name} of {point.file}, {value}"
                findings.refuse(SYSTEM, "system", what, ADVICE)
            said.add((name, value))
