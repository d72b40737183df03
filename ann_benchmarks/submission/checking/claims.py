"""Claims, the report's figures and system.json beside what follows from the result files."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.errors import shown as shown_text
from ann_benchmarks.common.text import DAMAGE, reason_of
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.statistics.percentiles import PERCENTILES

from ..files import REPORT, SYSTEM
from ..manifest import MANIFEST, ClaimedPoint, Manifest
from .points import CheckedPoint
from .reading import MOST_TEXT_BYTES, read_json, read_text
from .rules import Findings

JSON, TABLE = f"{REPORT}/report.json", f"{REPORT}/points.csv"
# By the functions that reports have them from.
RECOMPUTED = ("k-nn", "recall", "recall-p5", "recall-worst", "qps", "qps-best", "build", "indexsize")
FIGURES = (*RECOMPUTED, *PERCENTILES)
ALWAYS = ("qps", "k-nn", "build")  # reports of every version have these
SAME = 1e-4  # relative
SAME_SHARE = 1e-6
ADVICE = "write the bundle again"


def check_claims(
    manifest: Manifest, points: Mapping[str, CheckedPoint], folder_files: Sequence[str], findings: Findings
) -> None:
    """Refuse claims that differ from what their files come to."""
    seen: set[tuple[object, ...]] = set()
    for number, claim in enumerate(manifest.claims, 1):
        point = points.get(claim.file)
        if point is None:
            if claim.file in folder_files and not findings.mentions(claim.file):
                what = f"claim {number} rests on {claim.file}, which could not be judged"
                findings.refuse(MANIFEST, "claims", what, ADVICE)
            continue
        key = (claim.dataset, claim.series, claim.count, claim.clients, claim.filter, claim.tier, claim.batch)
        if key in seen:
            findings.refuse(MANIFEST, "claims", f"claim {number} is there twice", ADVICE)
        seen.add(key)
        for problem in _claim_problems(claim, point):
            findings.refuse(MANIFEST, "claims", f"claim {number}, on {claim.file}: {problem}", ADVICE)
        if point.recall < manifest.target_recall - SAME_SHARE:
            target = f"claim {number} is for a recall of {manifest.target_recall:g}"
            what = f"{target}, and {claim.file} has {point.recall:.6g}"
            findings.refuse(MANIFEST, "recall", what, "claim a point that reaches it")
    curves = {points[claim.file].curve for claim in manifest.claims if claim.file in points}
    for point in points.values():
        if point.recall > manifest.target_recall and not point.is_open and point.curve not in curves:
            findings.warn(point.file, "claims", "it reaches the target recall, and its series has no claim")
    if not manifest.claims:
        at_rates = " of a closed loop" * any(point.is_open for point in points.values())
        what = f"nothing is claimed: no point{at_rates} reaches the target recall"
        findings.warn(MANIFEST, "claims", what)


def _claim_problems(claim: ClaimedPoint, point: CheckedPoint) -> Iterator[str]:
    """Yield in what a claim differs from its file."""
    facts = {
        "dataset": (claim.dataset, point.dataset),
        "count": (claim.count, point.count),
        # What tells servers apart is named in the report by their differences.
        "series": (claim.series.partition(" (")[0], point.series.drop("environment").label),
        "clients": (claim.clients, point.series.clients or 1),
        "filter": (claim.filter, point.series.filter),
        "batch": (claim.batch, point.series.batch),
        "tier": (claim.tier, str(point.attrs.get("tier") or "")),
    }
    for name, (said, is_there) in facts.items():
        if said != is_there:
            yield f"claims the {name} '{said}', and the file has '{is_there}'"
    # A report of an earlier version claims the recall with the slack of ann-benchmarks.
    if min(abs(claim.recall - point.run.metrics[name]) for name in ("recall", "k-nn")) > SAME_SHARE:
        yield f"claims a recall of {claim.recall:.6g}, and it is {point.recall:.6g}"
    stored = {name: point.number(name) for name in ("qps_low", "qps_high")}
    known = {name: math.nan if value is None else value for name, value in stored.items()}
    known |= {"qps": point.qps, "p99": 1e3 * (point.number("latency_p99") or math.nan)}
    for name, value in known.items():
        said = getattr(claim, name)
        if said is None:
            continue
        if not math.isfinite(value):
            yield f"claims {name} {said:.6g}, and the file has none"
        elif abs(said - value) > SAME * max(abs(value), point.qps if name != "p99" else 0.0):
            yield f"claims {name} {said:.6g}, and it is {value:.6g}"


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
    for file, rows_in in ((JSON, _report_rows), (TABLE, _table_rows)):
        if file not in files:
            findings.refuse(file, "report", "is missing", ADVICE)
            continue
        seen, unknown = set(), 0
        try:
            for row in rows_in(folder / file):
                if shown := find_point(row, known):
                    seen.add(shown.file)
                    for problem in _different_figures(row["figures"], shown):
                        findings.refuse(file, "report", f"{shown.file}: {problem}", ADVICE)
                elif unknown < unjudged:
                    unknown += 1
                else:
                    what = f"has a point of no file, '{row.get('label')}: {row.get('name')}'"
                    findings.refuse(file, "report", what, ADVICE)
        except UserError as error:
            findings.refuse(file, "report", str(error), ADVICE)
        except DAMAGE as error:
            findings.refuse(file, "report", f"is not a report: {reason_of(error)}", ADVICE)
        if points and not seen and not findings.mentions(file):
            findings.refuse(file, "report", "shows no point of the bundle", ADVICE)
        for point in points:
            if point.file not in seen and not findings.mentions(file):
                findings.warn(file, "report", f"does not show {point.file}")


def find_point(row: Mapping[str, Any], known: Mapping[Any, Sequence[CheckedPoint]]) -> CheckedPoint | None:
    """Return the point of a row: of the same dataset, count, description, start, clients and series.

    Contenders of one race may have the same description, and begin in the same second.
    """
    key = (row["dataset"], row["count"], row["name"], str(row["started_at"]))
    clients = str(row["clients"] or "")
    fitting = (
        point
        for point in known.get(key, ())
        if str(point.series.clients or "") == clients and _names(row["label"], point.series)
    )
    return next(fitting, None)


def _names(label: str, series: Series) -> bool:
    """Whether a curve's label, or the folder of one, is that of a series, whatever tells servers apart."""
    plain = series.drop("environment").label
    return any(
        text == plain or text.startswith((f"{plain} (", f"{plain}{BESIDE}"))
        for text in (label, label.removesuffix(BATCH))
    )


def _report_rows(path: Path) -> Iterator[dict[str, Any]]:
    for one in read_json(path)["points"]:
        yield {
            "dataset": one["dataset"],
            "count": one["count"],
            "name": str(one["parameters"]),
            "label": str(one["algorithm"]),
            "started_at": one["attrs"].get("started_at"),
            "clients": one["series"].get("clients"),
            "figures": one["metrics"],
        }


def _table_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MOST_TEXT_BYTES)
    for one in csv.DictReader(io.StringIO(read_text(path))):
        yield {
            "dataset": one["dataset"],
            "count": int(one["count"]),
            "name": str(one["parameters"]),
            "label": str(one["algorithm"]),
            "started_at": one.get("started_at"),
            "clients": one.get("clients"),
            "figures": {name: float(value) for name, value in one.items() if name in FIGURES and value},
        }


def _different_figures(said: Mapping[str, Any], point: CheckedPoint) -> Iterator[str]:
    """Yield which figures of a report, by the names of metrics, are not those of the file."""
    computed = dict(point.run.metrics)
    if "recall" not in said:  # a report of an earlier version
        computed |= point.slack
    for name in PERCENTILES:
        computed[name] = 1e3 * (point.number(f"latency_{name}") or math.nan)
    for name in FIGURES:
        one, other = said.get(name), computed[name]
        if one is None and (math.isnan(other) or name not in ALWAYS):
            continue
        if not isinstance(one, int | float) or isinstance(one, bool):
            yield f"its {name} is '{shown_text(one)}', which must be a number"
            continue
        if not math.isfinite(one) or (math.isnan(other) and one == 0):
            continue
        if not abs(one - other) <= SAME * max(abs(other), 1e-12):
            yield f"its {name} is {one:.6g} here, and {other:.6g} by the file"


def check_system(
    folder: Path, files: Sequence[str], points: Sequence[CheckedPoint], findings: Findings
) -> None:
    """Refuse a system.json that cannot be read, or does not know a version or CPU of the results."""
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
