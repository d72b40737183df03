"""Claims, the report's figures and system.json beside what follows from the result files."""

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ann_benchmarks.common import VERSION
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.errors import shown as shown_text
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.records import Record

from ..contents import README, claim_of, readme, system_of
from ..files import MOST_TEXT_BYTES, REPORT, SYSTEM, read_json, read_text
from ..manifest import MANIFEST, ClaimedPoint
from .points import CheckedPoint, OpenedBundle

Row = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]  # of a report: what names its point, what it says
JSON, TABLE = f"{REPORT}/report.json", f"{REPORT}/points.csv"
ALWAYS = ("qps", "k-nn", "recall", "build")  # reports of every version have these
NOT_OF_POINTS = {"algorithm", "parameters", "batch_mode", "qpsatrecall"}  # columns that follow from several
SAME = 1e-4  # relative
SAME_SHARE = 1e-6
_ESCAPED = re.compile(r"\\([^\w\s]|_)")  # a character in Markdown


def check_claims(opened: OpenedBundle, points: Mapping[str, CheckedPoint]) -> None:
    """Refuse claims that differ from what their files come to."""
    manifest, files, findings = opened.manifest, opened.files, opened.findings
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


def check_report(opened: OpenedBundle, points: Sequence[CheckedPoint]) -> None:
    """Refuse a report that says something else of a point than its file, or has points of no file.

    As many points as there are files that could not be judged may be of these, which are refused already.
    """
    findings, known = opened.findings, dict[Any, list[CheckedPoint]]()
    unjudged = sum(map(findings.mentions, {*opened.results} - {point.file for point in points}))
    for point in points:
        key = (point.dataset, point.count, str(point.attrs.get("name")), str(point.attrs.get("started_at")))
        known.setdefault(key, []).append(point)
    readers: dict[str, Callable[[Path], Iterator[Row]]] = {JSON: _report_rows, TABLE: _table_rows}
    for file, rows_in in readers.items():
        seen, unknown = set(), 0
        with findings.refusing(file, "report", "is not a report"):
            for row, said in rows_in(opened.place(file)):
                if shown := find_point(row, known):
                    seen.add(shown.file)
                    problems = (f"{shown.file}: {problem}" for problem in _different(said, shown))
                    findings.refuse(file, "report", *problems)
                elif (unknown := unknown + 1) > unjudged:
                    what = f"has a point of no file, '{row['algorithm']}: {row['parameters']}'"
                    findings.refuse(file, "report", what)
        if findings.mentions(file):
            continue
        if points and not seen:
            findings.refuse(file, "report", "shows no point of the bundle")
        for point in points:
            if point.file not in seen:
                findings.warn(file, "report", f"does not show {point.file}")


def check_texts(opened: OpenedBundle, _: object = None) -> None:
    """Refuse a report that lacks files that it names, has others, or whose texts are of another report."""
    findings, title = opened.findings, opened.manifest.title
    there = {file for file in opened.files if file.startswith(f"{REPORT}/")}
    with findings.refusing(JSON, "report", "does not name the files of the report"):
        named = {f"{REPORT}/{name}" for name in read_json(opened.place(JSON))["files"]}
        for words, names in (("is missing", named - there), ("is not in its report.json", there - named)):
            for file in names:
                findings.refuse(file, "report", words)
        for file in (name for name in there if name.endswith((".md", ".html"))):
            text = read_text(opened.place(file))
            if title not in html.unescape(text) and title not in _ESCAPED.sub(r"\1", text):
                findings.refuse(file, "report", f"does not have the title '{title}' of its manifest")


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


def _report_rows(path: Path) -> Iterator[Row]:
    for one in read_json(path, is_strict=True)["points"]:
        attrs, series = one["attrs"], one["series"]
        row = {**one, "started_at": attrs.get("started_at"), "clients": series.get("clients")}
        yield row, [one["metrics"], attrs]


def _table_rows(path: Path) -> Iterator[Row]:
    csv.field_size_limit(MOST_TEXT_BYTES)
    reader = csv.DictReader(io.StringIO(read_text(path)))
    if len(set(reader.fieldnames or ())) < len(reader.fieldnames or ()):
        raise UserError("has two columns of one name")
    for one in reader:
        if None in one or None in one.values():
            raise UserError("has lines of more or fewer cells than columns")
        row = {"started_at": None, "clients": None, **one}
        yield row, [{name: value for name, value in one.items() if name not in NOT_OF_POINTS}]


def _different(said: Sequence[Mapping[str, Any]], point: CheckedPoint) -> Iterator[str]:
    """Yield what a report says otherwise than the file: as metrics and attributes, or all of it as texts."""
    metrics, attrs = point.run.metrics, {**point.attrs, **point.run.attrs}
    computed: list[Mapping[str, Any]] = [metrics, attrs] if len(said) == 2 else [{**attrs, **metrics}]
    for name in ALWAYS:
        if name not in said[0]:
            yield f"its {name} is not there, which must be a number"
    for values, own in zip(said, computed, strict=True):
        for name, value in values.items():
            if problem := _difference(value, own.get(name), name in metrics, len(said) == 1):
                yield f"its {name} {problem}"


def _difference(said: Any, own: Any, is_figure: bool, is_text: bool) -> str:
    """Say how a value, or what a cell has of it, differs from that of a file; "" where it does not."""
    if isinstance(own, float | int) and not isinstance(own, bool) and (math.isfinite(own) or is_figure):
        try:
            is_unknown = said in (None, "") and not math.isfinite(own)
            one = math.nan if is_unknown else float(said) if is_text else said
        except ValueError:
            one = None
        if not isinstance(one, int | float) or isinstance(one, bool):
            return f"is '{shown_text(said)}', which must be a number"
        if not (math.isfinite(one) or math.isfinite(own)):
            return ""
        near = SAME * max(abs(own), 1e-12) if is_figure else 0.0
        return "" if abs(one - own) <= near else f"is {one:.6g} here, and {own:.6g} by the file"
    if isinstance(own, float):
        own = None
    texts = (
        ("" if own is None else json.dumps(own) if isinstance(own, list) else str(own)) if is_text else own
    )
    if is_text and said.lower() in ("nan", "inf") and own is None:
        return ""
    return "" if said == texts else f"is {shown_text(said)} here, and {shown_text(own)} by the file"


def check_system(opened: OpenedBundle, points: Sequence[CheckedPoint], records: Sequence[Record]) -> None:
    """Refuse a system.json that says anything else than results and records, and a README that does.

    Of which series each fact is, and in which order, does not count.
    """
    findings = opened.findings
    with findings.refusing(SYSTEM, "system", "does not describe servers"):
        servers = read_json(opened.place(SYSTEM), is_strict=True)["servers"]
        said, own = (
            _system_facts(one)
            for one in (servers, system_of([*(p.run for p in points), *records])["servers"])
        )
        more = said - own if len(points) == len(opened.results) else set()
        for words, facts in (("does not have", own - said), ("says what no result does:", more)):
            findings.refuse(SYSTEM, "system", *(f"{words} {' '.join(fact)}" for fact in sorted(facts)))
        with findings.refusing(README, "report"):
            check_readme(opened, servers)


def _system_facts(servers: Any) -> set[tuple[str, ...]]:
    """Return each fact of a system.json: the section, its name there, and its value as JSON."""
    found = set[tuple[str, ...]]()
    for server in servers:
        for section, facts in server.items():
            for name, value in facts.items() if isinstance(facts, dict) else ():
                if section == "plans":
                    several = [("", plan) for plan in value.values()]
                else:
                    many = isinstance(value, list) and all(
                        isinstance(one, dict) and "series" in one for one in value
                    )
                    several = [(name, one["value"]) for one in value] if many else [(name, value)]
                found |= {
                    (section, key, json.dumps(one, sort_keys=True, default=str)) for key, one in several
                }
    return found


def check_readme(opened: OpenedBundle, servers: Any) -> None:
    """Refuse a README.md that says something else than this release writes of such a bundle."""
    manifest, findings = opened.manifest, opened.findings
    said, own = read_text(opened.place(README)), readme(manifest, servers)
    pairs = zip_longest(said.splitlines(), own.splitlines(), fillvalue="")
    for line, expected in [pair for pair in pairs if pair[0] != pair[1]][:1]:
        what = f"says '{shown_text(line)}', and its manifest and system.json '{shown_text(expected)}'"
        is_own = manifest.project_version == VERSION
        (findings.refuse if is_own else findings.warn)(README, "report", what)
