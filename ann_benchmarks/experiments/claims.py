"""What others claim, in one table: each finding of every experiment, and what was measured of it here."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ann_benchmarks.common.files import disk_errors
from ann_benchmarks.common.numbers import UNKNOWN
from ann_benchmarks.reporting.content import Finding
from ann_benchmarks.reporting.document import Block, Heading, Paragraph, markdown_text
from ann_benchmarks.views.parts import Table

from .report import JobsOf, report_of
from .schema import FOLDER

FILE = "claims.md"
COLUMNS = ("Source", "Claim", "Theirs", "Ours", "95% interval", "Verdict", "Size", "Why")
_INTERVAL = re.compile(r" ?\(95%: (.*?)\)")


def write_claims(
    folder: Path, given: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf
) -> Path:
    """Write the table of what was measured with `given` options of run.py; return its file.

    A claim that was not tested at full size is that of the miniature.
    """
    rows = [
        row for path in sorted(FOLDER.glob("*.yml")) for row in claim_rows(path.stem, given, parser, jobs_of)
    ]
    verdicts = Counter(row[COLUMNS.index("Verdict")] for row in rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    text = f"{len(rows)} claims: {counts}. The figures of the sources come from other machines."
    path = folder / FILE
    with disk_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        table = Table(COLUMNS, rows, words=COLUMNS)
        blocks: list[Block] = [Heading(1, "What others claim"), Paragraph(text), table]
        path.write_text(markdown_text(blocks), encoding="utf-8", errors="replace")
    return path


def claim_rows(
    name: str, given: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf
) -> Iterator[list[str]]:
    """Give a row for each finding of an experiment."""
    (_, full), (_, mini) = (report_of(name, is_mini, parser, given, jobs_of) for is_mini in (False, True))
    for at_full_size, small in zip(full.findings, mini.findings, strict=True):
        found, size = (at_full_size, "full") if at_full_size.measured else (small, "miniature")
        yield [full.source or name, *cells(found), size if found.measured else UNKNOWN, found.why]


def cells(finding: Finding) -> list[str]:
    """Return the claim, its figure, ours, the interval of ours, and the verdict."""
    interval = _INTERVAL.search(finding.measured)
    ours = _INTERVAL.sub("", finding.measured, count=1) or UNKNOWN
    return [finding.says, finding.published, ours, interval[1] if interval else UNKNOWN, finding.verdict]
