"""Claims, the report, system.json and the README beside what the code that makes them makes of the files."""

import csv
import html
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.text import finite
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.export import row
from ann_benchmarks.results.metrics import QPS_AT_RECALL
from ann_benchmarks.results.records import Record

from ..contents import README, claim_of, readme, system_of
from ..files import MOST_TEXT_BYTES, REPORT, SYSTEM, read_json, read_text
from ..manifest import MANIFEST
from .points import CheckedPoint, OpenedBundle
from .rules import is_same

JSON, TABLE = f"{REPORT}/report.json", f"{REPORT}/points.csv"
Cells = Mapping[str, Any]
ALWAYS = ("qps", "k-nn", "recall", "build")  # reports of every version have these
NOT_OF_POINTS = {"algorithm", QPS_AT_RECALL}  # columns that follow from several
SAME = 1e-4  # relative
SAME_SHARE = 1e-6
UNKNOWN = {"": None, "nan": None, "inf": None, "-inf": None, "True": True, "False": False}  # cells
_ESCAPED = re.compile(r"\\([^\w\s]|_)")  # a character in Markdown


def check_claims(opened: OpenedBundle, points: Mapping[str, CheckedPoint]) -> None:
    """Refuse claims that differ from what their files come to."""
    manifest, findings = opened.manifest, opened.findings
    seen = set[tuple[object, ...]]()
    for number, claim in enumerate(manifest.claims, 1):
        if (point := points.get(claim.file)) is None:
            if claim.file in opened.files and not findings.mentions(claim.file):
                what = f"claim {number} rests on {claim.file}, which could not be judged"
                findings.refuse(MANIFEST, "claims", what)
            continue
        where = f"claim {number}, on {claim.file}:"
        if point.curve in seen:
            findings.refuse(MANIFEST, "claims", f"{where} its series has a claim twice")
        if point.series.is_open:
            findings.refuse(MANIFEST, "claims", f"{where} claims a throughput that was given as a rate")
        seen.add(point.curve)
        # What tells servers apart is named in the report by their differences.
        said = asdict(claim) | {"series": claim.series.partition(" (")[0]}
        own = asdict(claim_of(point.run, claim.file))
        own |= {"series": point.series.drop("environment").label}
        for name, value in own.items():
            if not is_same(said[name], value, SAME_SHARE if name == "recall" else SAME):
                what = f"{where} claims {name} {shown(said[name])}, and it is {shown(value)}"
                findings.refuse(MANIFEST, "claims", what)
        if point.recall < manifest.target_recall - SAME_SHARE:
            what = f"is for a recall of {manifest.target_recall:g}, and the file has {point.recall:.6g}"
            findings.refuse(MANIFEST, "recall", f"{where} {what}")
    for point in points.values():
        if point.recall > manifest.target_recall and not point.series.is_open and point.curve not in seen:
            findings.warn(point.file, "claims", "it reaches the target recall, and its series has no claim")
    if not manifest.claims:
        findings.warn(MANIFEST, "claims", "nothing is claimed")


def check_report(opened: OpenedBundle, points: Sequence[CheckedPoint]) -> None:
    """Refuse a report that says something else of a point than its file, or has points of no file."""
    findings, known = opened.findings, dict[Any, list[CheckedPoint]]()
    for point in points:
        key = (point.dataset, point.count, str(point.attrs.get("name")), str(point.attrs.get("started_at")))
        known.setdefault(key, []).append(point)
    for file, rows_in in ((JSON, report_rows), (TABLE, table_rows)):
        seen = set[str]()
        with findings.refusing(file, "report", "is not a report"):
            for said in rows_in(opened, file):
                key = (
                    said["dataset"],
                    int(said["count"]),
                    str(said["parameters"]),
                    str(said["started_at"] or None),
                )
                named = [one for one in known.get(key, ()) if has_label(one.series, str(said["algorithm"]))]
                found = [(one, [*different(said, one, file == TABLE)]) for one in named]
                if found:
                    point, problems = min(found, key=lambda pair: len(pair[1]))
                    seen.add(point.file)
                    findings.refuse(file, "report", *(f"{point.file}: {one}" for one in problems))
                elif len(points) == len(opened.results):
                    what = f"has a point of no file, '{said['algorithm']}: {said['parameters']}'"
                    findings.refuse(file, "report", what)
            missing = (point.file for point in points if point.file not in seen)
            findings.refuse(file, "report", *(f"does not show {name}" for name in missing))
    check_pages(opened)


def report_rows(opened: OpenedBundle, file: str) -> Iterator[Cells]:
    """Yield what report.json says of each point."""
    for one in read_json(opened.place(file), is_strict=True)["points"]:
        names = {name: one[name] for name in ("dataset", "count", "parameters", "algorithm")}
        yield {"started_at": None, **one["attrs"], **one["metrics"], **names}


def table_rows(opened: OpenedBundle, file: str) -> Iterator[Cells]:
    """Yield what the table of the report says of each point, as texts."""
    csv.field_size_limit(MOST_TEXT_BYTES)
    reader = csv.DictReader(io.StringIO(read_text(opened.place(file))))
    if len(set(reader.fieldnames or ())) < len(reader.fieldnames or ()):
        raise UserError("has two columns of one name")
    for one in reader:
        if None in one or None in one.values():
            raise UserError("has lines of more or fewer cells than columns")
        yield {"started_at": "", **one}


def has_label(series: Series, label: str) -> bool:
    """Whether a curve's label, or the folder of one, is that of a series, whatever tells servers apart."""
    plain = series.drop("environment").label
    return any(
        text == plain or text.startswith((f"{plain} (", f"{plain}{BESIDE}"))
        for text in (label, label.removesuffix(BATCH))
    )


def different(said: Cells, point: CheckedPoint, is_text: bool) -> Iterator[str]:
    """Yield what a row says otherwise than the file of a point; if `is_text`, as a table says it."""
    own = finite({**row(point.run, math.nan), **point.attrs, **point.run.attrs, **point.run.metrics})
    for name in [name for name in ALWAYS if name not in said]:
        yield f"its {name} is not there, which must be a number"
    for name in said.keys() - NOT_OF_POINTS:
        value, expected = said[name], own.get(name)
        if is_text and not isinstance(expected, str):
            try:
                value = UNKNOWN[value] if value in UNKNOWN else json.loads(value)
            except ValueError:
                value = str(value)
        if not is_same(value, expected, SAME):
            must = ", which must be a number" if isinstance(expected, float) else ""
            yield f"its {name} is {shown(value)} here{must}, and {shown(expected)} by the file"


def check_pages(opened: OpenedBundle) -> None:
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


def check_system(opened: OpenedBundle, points: Sequence[CheckedPoint], records: Sequence[Record]) -> None:
    """Refuse a system.json that says anything else than results and records, and a README that does."""
    findings, manifest = opened.findings, opened.manifest
    with findings.refusing(SYSTEM, "system", "does not describe servers"):
        said = read_json(opened.place(SYSTEM), is_strict=True)["servers"]
        own = system_of([*(point.run for point in points), *records])["servers"]
        theirs, ours = set(_system_facts(said)), set(_system_facts(own))
        more = theirs - ours if len(points) == len(opened.results) else set()
        for words, facts in (("does not have", ours - theirs), ("says what no result does:", more)):
            findings.refuse(SYSTEM, "system", *(f"{words} {' '.join(fact)}" for fact in sorted(facts)))
        with findings.refusing(README, "report"):
            texts = read_text(opened.place(README)), readme(manifest, said)
            pairs = zip_longest(*(text.splitlines() for text in texts), fillvalue="")
            for line, expected in [pair for pair in pairs if pair[0] != pair[1]][:1]:
                what = f"says '{shown(line)}', and its manifest and system.json '{shown(expected)}'"
                findings.refuse(README, "report", what)


def _system_facts(value: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield each fact of a system.json with the names that lead to it, of whichever series it is."""
    if isinstance(value, dict):
        inner = value.get("plans")
        known = value | {"plans": [*inner.values()]} if isinstance(inner, dict) and not names else value
        skipped = {"series"} if names else {"name", "results"}
        for name in known.keys() - skipped:
            yield from _system_facts(known[name], *names, name)
    elif isinstance(value, list):
        for one in value:
            yield from _system_facts(one, *names)
    else:
        yield *names, json.dumps(value, default=str)
