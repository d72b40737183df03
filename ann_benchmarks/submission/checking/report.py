"""The report and the README beside what the code that makes them makes of the files."""

import csv
import html
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.text import finite
from ann_benchmarks.fields.series import BATCH, BESIDE, Series
from ann_benchmarks.results.export import row
from ann_benchmarks.results.metrics import QPS_AT_RECALL

from ..contents import README, readme_lines
from ..files import MOST_TEXT_BYTES, REPORT, read_json, read_text
from .points import CheckedPoint, OpenedBundle
from .rules import is_same

JSON, TABLE = f"{REPORT}/report.json", f"{REPORT}/points.csv"
Cells = Mapping[str, Any]
ALWAYS = ("qps", "k-nn", "recall", "build")  # reports of every version have these
NOT_OF_POINTS = {"algorithm", QPS_AT_RECALL}  # columns that follow from several
SAME = 1e-4  # relative
UNKNOWN = {"": None, "nan": None, "inf": None, "-inf": None, "True": True, "False": False}  # cells
_ESCAPED = re.compile(r"\\([^\w\s]|_)")  # a character in Markdown


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
    check_readme(opened)


def report_rows(opened: OpenedBundle, file: str) -> Iterator[Cells]:
    """Yield what report.json says of each point."""
    for one in read_json(opened.place(file))["points"]:
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


def check_readme(opened: OpenedBundle) -> None:
    """Refuse a README that lacks what follows from the manifest."""
    findings = opened.findings
    with findings.refusing(README, "report"):
        there = {*read_text(opened.place(README)).splitlines()}
        for lines in readme_lines(opened.manifest).values():
            for line in (line for line in lines if line not in there):
                findings.refuse(README, "report", f"lacks the line '{shown(line)}' of its manifest")
