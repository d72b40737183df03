"""Writes a report: Markdown and HTML with pictures beside them, a CSV and a JSON, from one content."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.numbers import UNKNOWN
from ann_benchmarks.plotting.styles import assign_styles
from ann_benchmarks.results.comparable import family
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.warnings import FIGURE, MOST_NAMED, warnings_of

from .answer import Answer, answers
from .authored import read_text
from .content import Chapter, Finding, Report
from .data import every_record, every_run, write_csv, write_json
from .document import Block, Heading, Items, Line, Link, Listing, Paragraph, Strong, Table
from .facts import commands, data_table, what_was_run, when
from .folder import MARK, MARK_FILE, whole_folder
from .html import as_html
from .kinds import Shown, make
from .markdown import as_markdown
from .pictures import picture_kinds
from .tables import table_kinds
from .workload_tables import family_of

MARKDOWN, HTML, CSV = "report.md", "report.html", "points.csv"
READING = (
    "In brackets are 95% intervals: of the recall, over all queries like these; of throughput and latency, of"
    " the mean of the runs. The figure before them is that of one run: the best or, at a given rate, the one"
    " with the median p99. The answers compare the means of the runs; a result is taken to repeat no better"
    " than a single run of it and, besides, than 3%, which another start alone makes. No interval shows that"
    " a machine was slower on another day. QPS are queries a second, p99 is the time within which 99 of 100"
    " queries are answered, GB are 2^30 bytes."
)


def write_report(report: Report, folder: Path, target: float = TARGET_RECALL) -> None:
    """Write a report into a folder, in place of an older one; `target` is the recall that is asked for.

    UserError if the folder holds anything else, cannot be written, or a picture or table is not known.
    """
    runs, records = every_run(report), every_record(report)
    found = answers(runs, records, target)
    warned = warnings_of(runs)
    with whole_folder(folder) as place:
        blocks: list[Block] = [Heading(1, report.title), *read_text(report.text)]
        blocks += answer_blocks(found)
        if report.findings:
            blocks += finding_blocks(report.findings, report.source)
        if runs:
            blocks += [Heading(2, "Warnings"), *warning_blocks(warned, len(runs))]
        for number, chapter in enumerate(report.chapters, 1):
            styles = assign_styles(run.algorithm for run in chapter.runs)
            blocks += chapter_blocks(chapter, Shown(chapter.runs, chapter.records, target, folder=place,
                stem=f"{number}-", styles=styles))  # fmt: skip
        blocks += run_blocks(report, runs, records)
        blocks += reading_blocks(runs)
        (place / MARKDOWN).write_text(as_markdown(blocks), encoding="utf-8", errors="replace")
        (place / HTML).write_text(as_html(report.title, blocks), encoding="utf-8", errors="replace")
        write_csv(place / CSV, runs)
        files = sorted([MARK_FILE, *(path.name for path in place.iterdir())])
        write_json(place / MARK_FILE, report, target, found, warned, {**MARK, "files": files})


def answer_blocks(found: Sequence[Answer]) -> list[Block]:
    """Return the answers, which come first."""
    blocks: list[Block] = []
    for answer in found:
        title = f"The answer for {answer.dataset}, k = {answer.count}" if len(found) > 1 else "The answer"
        items: list[Line] = [[Strong(f"{said.about}:"), f" {said.text}"] for said in answer.statements]
        blocks += [Heading(2, title), Items(items)]
    return blocks


def finding_blocks(findings: Sequence[Finding], source: str) -> list[Block]:
    """Return what others have published beside what was measured."""
    columns = ("Claim", "Published", "Measured here", "Verdict", "Why")
    rows = [
        [finding.says, finding.published, finding.measured or UNKNOWN, finding.verdict, finding.why]
        for finding in findings
    ]
    caption = f"Published in: {source}. Its figures are another machine's." if source else ""
    return [Heading(2, "Published findings"), Table(columns, rows, caption, frozenset(columns))]


def chapter_blocks(chapter: Chapter, shown: Shown) -> list[Block]:
    """Return one chapter."""
    blocks: list[Block] = [Heading(2, chapter.title), *read_text(chapter.text)]
    if chapter.command:
        blocks.append(Listing(chapter.command))
    if chapter.missing:
        blocks += [Paragraph([Strong("Missing:")]), Items(list(chapter.missing))]
    for what, kinds, all_wanted in (
        ("picture", picture_kinds, chapter.pictures),
        ("table", table_kinds, chapter.tables),
    ):
        taken: dict[str, int] = {}
        for wanted in all_wanted:
            kind = str(wanted.get("kind"))
            taken[kind] = taken.get(kind, 0) + 1
            stem = shown.stem if taken[kind] == 1 else f"{shown.stem}{taken[kind]}-"
            title = str(wanted.get("title", chapter.title if what == "picture" else ""))
            blocks += make(kinds, what, wanted, Shown(shown.runs, shown.records, shown.target, title,
                shown.folder, stem, shown.styles))  # fmt: skip
    return blocks


def run_blocks(report: Report, runs: Sequence[Run], records: Sequence[Any]) -> list[Block]:
    """Return what was run: data, machine, software, settings, command lines."""
    attrs = [*(run.attrs for run in runs), *(record.attrs for record in records)]
    of_algorithm: dict[str, list[Mapping[str, Any]]] = {}
    of_dataset: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        of_algorithm.setdefault(family(run), []).append(run.attrs)
        of_dataset.setdefault((run.dataset, run.count), []).append(run.attrs)
    for record in records:
        of_algorithm.setdefault(family_of(record), []).append(record.attrs)
        of_dataset.setdefault((record.dataset, record.count), []).append(record.attrs)
    blocks: list[Block] = [Heading(2, "What was run")]
    if report.command:
        blocks.append(Listing(report.command))
    blocks += when(attrs)
    if of_dataset:
        blocks.append(data_table(of_dataset))
    return [*blocks, *what_was_run(of_algorithm), *commands(attrs)]


def reading_blocks(runs: Sequence[Run]) -> list[Block]:
    """Return how it is to be read, and what lies beside it."""
    files: Line = [
        *(
            "The same as ",
            Link("Markdown", MARKDOWN),
            " and ",
            Link("HTML", HTML),
            "; all points with all that",
        ),
        *(" is known of them in ", Link(CSV, CSV), " and, with everything else, in "),
        *(Link(MARK_FILE, MARK_FILE), "."),
    ]
    reading: list[Block] = [Paragraph(READING)] if runs else []
    return [Heading(2, "How to read it"), *reading, Paragraph(files)]


def warning_blocks(found: Iterable[tuple[str, list[str]]], results: int) -> list[Block]:
    """Return the warnings as a list."""
    items: list[Line] = []
    for text, names in found:
        many = len(names) > 1
        differ = " (figures of the first)" if many and FIGURE.search(text) else ""
        whose = f"{len(names)} of {results} results:" if results > 1 and names else "All:"
        named = "" if len(names) == results > 1 else f" [{'; '.join(names[:MOST_NAMED])}"
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        items.append([Strong(whose), f" {text}{differ}{f'{named}{more}]' if named and names else ''}"])
    return [Items(items)] if items else [Paragraph("None.")]
