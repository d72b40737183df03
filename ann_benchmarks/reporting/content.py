"""What a report is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

VERDICTS = ("reproduced", "not reproduced", "not testable here", "not measured")


@dataclass(frozen=True)
class Chapter:
    """Results that are shown together. Pictures and tables are asked for by name, with their options."""

    title: str
    text: str = ""  # Markdown
    command: str = ""  # that makes the results
    runs: Sequence[Run] = ()
    records: Sequence[Record] = ()
    missing: Sequence[str] = ()  # what was to be measured and is not there, a line each
    pictures: Sequence[dict[str, Any]] = ()  # {"kind": "frontier", ...}
    tables: Sequence[dict[str, Any]] = ()  # {"kind": "points", ...}


@dataclass(frozen=True)
class Finding:
    """What somebody has published, beside what was measured here."""

    says: str
    published: str
    measured: str  # empty where there is nothing
    verdict: str  # of VERDICTS
    why: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    text: str  # Markdown
    command: str  # that makes it all
    chapters: Sequence[Chapter]
    findings: Sequence[Finding] = ()
    source: str = ""  # where the findings were published
