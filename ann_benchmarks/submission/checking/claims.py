"""Claims, the report's figures and system.json beside what follows from the result files."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.errors import shown as shown_text
from ann_benchmarks.common.text import DAMAGE, reason_of
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.statistics.percentiles import PERCENTILES

from ..contents import claim_of
from ..files import MOST_TEXT_BYTES, REPORT, SYSTEM, read_json, read_text
from ..manifest import MANIFEST, ClaimedPoint, Manifest
from .points import CheckedPoint
from .rules import Findings

JSON, TABLE = f"{REPORT}/report.json", f"{REPORT}/points.csv"
# By the functions that reports have them from.
FIGURES = (
    *("k-nn", "recall", "recall-p5", "recall-worst", "qps", "qps-best", "build", "indexsize"),
    *PERCENTILES,
)
ALWAYS = ("qps", "k-nn", "build")  # reports of every version have these
SAME = 1e-4  # relative
SAME_SHARE = 1e-6


def check_claims(
    manifest: Manifest, points: Mapping[str, CheckedPoint], files: Sequence[str], findings: Findings
) -> None:
    """Refuse claims that differ from what their files come to."""
    seen: set[tuple[object, ...]] = set()
    curves = {points[claim.file].curve for claim in manifest.claims if claim.file in points}
    for number, claim in enumerate(manifest.claims, 1):
        if (point := points.get(claim.file)) is None:
            if claim.file in files and not findings.mentions(claim.file):
                what = f"claim {number} rests on {claim.file}, which could not be judged"
                findings.refuse(MANIFEST, "claims", what)
            continue
        key = (claim.dataset, claim.series, claim.count, claim.clients, claim.filter, claim.tier, claim.batch)
        if key in seen:
            findings.refuse(MANIFEST, "claims", f"claim {number} is there twice")
        seen.add(key)
        for problem in _claim_problems(claim, point):
            findings.refuse(MANIFEST, "claims", f"claim {number}, on {claim.file}: {problem}")
        if point.recall < manifest.target_recall - SAME_SHARE:
            target = f"claim {number} is for a recall of {manifest.target_recall:g}"
            findings.refuse(MANIFEST, "recall", f"{target}, and {claim.file} has {point.recall:.6g}")
    for point in points.values():
        if point.recall > manifest.target_recall and not point.is_open and point.curve not in curves:
            findings.warn(point.file, "claims", "it reaches the target recall, and its series has no claim")
    if not manifest.claims:
        at_rates = " of a closed loop" * any(point.is_open for point in points.values())
        findings.warn(MANIFEST, "claims", f"nothing is claimed: no point{at_rates} reaches the target recall")


def _claim_problems(claim: ClaimedPoint, point: CheckedPoint) -> Iterator[str]:
    """Yield in what a claim differs from the one that its file comes to."""
    if point.is_open:
        yield "claims a throughput that was given as a rate"
    computed = asdict(claim_of(point.run, claim.file))
    # What tells servers apart is named in the report by their differences.
    said = asdict(claim) | {"series": claim.series.partition(" (")[0]}
    computed["series"] = point.series.drop("environment").label
    if abs(claim.recall - point.recall) <= SAME_SHARE:  # with the slack of an earlier version
        computed["recall"] = claim.recall
    for name, value in computed.items():
        one = said[name]
        if isinstance(value, float) and isinstance(one, float):
            near = (
                SAME_SHARE if name == "recall" else SAME * max(abs(value), point.qps * name.startswith("qps"))
            )
            if abs(one - value) > near:
                yield f"claims {name} {one:.6g}, and it is {value:.6g}"
        elif one != value:
            yield f"claims the {name} '{one}', and the file has '{value}'"


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
    readers: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {JSON: _report_rows, TABLE: _table_rows}
    for file, rows_in in readers.items():
        if file not in files:
            findings.refuse(file, "report", "is missing")
            continue
        seen, unknown = set(), 0
        try:
            for row in rows_in(folder / file):
                if shown := find_point(row, known):
                    seen.add(shown.file)
                    for problem in _different_figures(row["figures"], shown):
                        findings.refuse(file, "report", f"{shown.file}: {problem}")
                elif unknown < unjudged:
                    unknown += 1
                else:
                    what = f"has a point of no file, '{row['algorithm']}: {row['parameters']}'"
                    findings.refuse(file, "report", what)
        except UserError as error:
            findings.refuse(file, "report", str(error))
        except DAMAGE as error:
            findings.refuse(file, "report", f"is not a report: {reason_of(error)}")
        if findings.mentions(file):
            continue
        if points and not seen:
            findings.refuse(file, "report", "shows no point of the bundle")
        for point in points:
            if point.file not in seen:
                findings.warn(file, "report", f"does not show {point.file}")


def find_point(row: Mapping[str, Any], known: Mapping[Any, Sequence[CheckedPoint]]) -> CheckedPoint | None:
    """Return the point of a row: of the same dataset, count, description, start, clients and series.

    Contenders of one race may have the same description, and begin in the same second.
    """
    key = (row["dataset"], int(row["count"]), str(row["parameters"]), str(row["started_at"]))
    clients, label = str(row["clients"] or ""), str(row["algorithm"])
    for point in known.get(key, ()):
        if str(point.series.clients or "") == clients and _names(label, point.series):
            return point
    return None


def _names(label: str, series: Series) -> bool:
    """Whether a curve's label, or the folder of one, is that of a series, whatever tells servers apart."""
    plain = series.drop("environment").label
    return any(
        text == plain or text.startswith((f"{plain} (", f"{plain}{BESIDE}"))
        for text in (label, label.removesuffix(BATCH))
    )


def _report_rows(path: Path) -> Iterator[dict[str, Any]]:
    for one in read_json(path)["points"]:
        started, clients = one["attrs"].get("started_at"), one["series"].get("clients")
        yield {**one, "started_at": started, "clients": clients, "figures": one["metrics"]}


def _table_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MOST_TEXT_BYTES)
    for one in csv.DictReader(io.StringIO(read_text(path))):
        figures = {name: float(value) for name, value in one.items() if name in FIGURES and value}
        yield {"started_at": None, "clients": None, **one, "figures": figures}


def _different_figures(said: Mapping[str, Any], point: CheckedPoint) -> Iterator[str]:
    """Yield which figures of a report, by the names of metrics, are not those of the file."""
    computed = dict(point.run.metrics)
    if "recall" not in said:  # a report of an earlier version
        computed |= point.slack
    computed |= {name: 1e3 * point[f"latency_{name}"] for name in PERCENTILES}
    for name in FIGURES:
        one, other = said.get(name), computed[name]
        if one is None and (math.isnan(other) or name not in ALWAYS):
            continue
        if not isinstance(one, int | float) or isinstance(one, bool):
            yield f"its {name} is '{shown_text(one)}', which must be a number"
            continue
        is_left_out = math.isnan(one) and name in PERCENTILES  # for want of queries
        if (
            is_left_out
            or (math.isnan(other) and one == 0)
            or not (math.isfinite(one) or math.isfinite(other))
        ):
            continue
        if not abs(one - other) <= SAME * max(abs(other), 1e-12):
            yield f"its {name} is {one:.6g} here, and {other:.6g} by the file"


def check_system(
    folder: Path, files: Sequence[str], points: Sequence[CheckedPoint], findings: Findings
) -> None:
    """Refuse a system.json that cannot be read, or does not know a version or CPU of the results."""
    try:
        if SYSTEM not in files:
            raise UserError("is missing")
        text = json.dumps(read_json(folder / SYSTEM), ensure_ascii=False)
    except UserError as error:
        findings.refuse(SYSTEM, "system", str(error))
        return
    said = set()
    for point in points:
        for name in ("cpu", "kernel", *version_names(point.attrs)):
            value = point.attrs.get(name)
            if value is not None and (name, value) not in said and json.dumps(str(value))[1:-1] not in text:
                findings.refuse(SYSTEM, "system", f"does not have the {name} of {point.file}, {value}")
            said.add((name, value))
