"""Writes a report: Markdown and HTML with pictures, a CSV and a JSON, from one content."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.files import whole_folder
from ann_benchmarks.common.layout import rename_commands
from ann_benchmarks.common.numbers import UNKNOWN
from ann_benchmarks.common.text import finite, say
from ann_benchmarks.results.export import write_csv
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.warnings import (
    FIGURE,
    MOST_NAMED,
    group_by_advice,
    left_out_warnings,
    warnings_of,
)
from ann_benchmarks.run.console import table_lines
from ann_benchmarks.views.costs import CostAnswer, cost_answers, cost_table, costs_as_json
from ann_benchmarks.views.parts import Statement, Table
from ann_benchmarks.views.sizes import Sizes, find_sizes

from .answer import Answer, find_answers
from .content import Chapter, Finding, Report, Shown, identity, part_blocks
from .document import (
    Block,
    Heading,
    Items,
    Line,
    Link,
    Listing,
    Paragraph,
    Strong,
    html_page,
    markdown_text,
    read_text,
)
from .facts import run_blocks
from .kinds import make
from .sizes import recipe_blocks, size_answer, size_blocks, sizes_as_json

MARKDOWN, HTML, CSV, MARK_FILE = "report.md", "report.html", "points.csv", "report.json"
MARK = {"made_by": "python report.py"}
FORM = 1  # of report.json
TERMINAL_COLUMNS = ("Index", "Queries/s", "Build", "Size", "Least RAM")
MOST_TEXTS = 3  # warnings in a line
BEHIND = "The results of each warning are in the details."
READING = (
    "The numbers in brackets are 95% intervals. The interval of a recall allows for other queries of this"
    " kind. Throughput is the mean of the runs in queries per second (QPS), in files of ann-benchmarks"
    " that of the best run. A percentile is that of the latencies of all runs: p99 is the time within"
    " which 99 of 100 queries are answered. A dash means that there are too few queries for it. The"
    " answers assume that a result repeats no better than its single runs, and that sessions differ by 16%,"
    " builds of one index in the same rounds by 2.5%. A GB has 2^30 bytes."
)


def write_report(
    report: Report, folder: Path, target: float = TARGET_RECALL, has_data: bool = True
) -> list[Answer]:
    """Write a report into a folder, in place of an older one, and return its answers at the recall `target`.

    In a bundle it is without `has_data`: pages and pictures alone, beside the results themselves.

    UserError if the folder holds anything else or cannot be written, or a picture or table is not known.
    """
    runs = report.runs
    found = find_answers(runs, report.records, target)
    warned = [*left_out_warnings(report.left_out), *warnings_of(runs)]
    costs = [] if report.costs is None else cost_answers(runs, target, report.costs)
    sizes = find_sizes([*runs, *report.samples], target, report.sizes, report.whole)
    with whole_folder(folder, report_files, "report", "-o") as place:
        blocks: list[Block] = [Heading(1, report.title), *answer_blocks(found), *read_text(report.text)]
        blocks += cost_blocks(costs)
        blocks += size_blocks(sizes, place)
        blocks += finding_blocks(report.findings, report.source)
        if runs:
            blocks += [Heading(2, "Warnings"), *advice_blocks(warned)]
        styles = Shown(runs, report.records, target).looks
        for number, chapter in enumerate(report.chapters, 1):
            first = Shown((), (), target, folder=place, stem=f"{number}-", styles=styles)
            blocks += chapter_blocks(chapter, first)
        blocks += [*run_blocks(report), *detail_blocks(found, warned, len(runs))]
        blocks += reading_blocks(bool(runs), has_data)
        pages = {MARKDOWN: markdown_text(blocks), HTML: html_page(report.title, blocks)}
        for name, text in pages.items():
            (place / name).write_text(rename_commands(text), encoding="utf-8", errors="replace")
        if has_data:
            write_csv(place / CSV, runs)
            write_json(place, report, target, found, warned, costs, sizes)
    return [*found, *map(size_answer, sizes)]


def answer_blocks(found: Sequence[Answer]) -> list[Block]:
    """Return the answers, which come first."""
    blocks: list[Block] = []
    for answer in found:
        title = f"The answer for {answer.dataset}, k = {answer.count}" if len(found) > 1 else "The answer"
        blocks += [Heading(2, title), statement_items(answer.statements)]
        if answer.table is not None:
            blocks += [Heading(3, "All indexes"), answer.table]
        blocks += [block for one in answer.recipes[:1] for block in recipe_blocks(one, "SQL of")]
    return blocks


def say_answers(answers: Sequence[Answer]) -> None:
    """Print the first screen of each answer, its table without what makes lines long, and the SQL."""
    for answer in answers:
        say(f"The answer for {answer.dataset}, k = {answer.count}:")
        for one in answer.statements:
            say(f"- {one.about}: {one.text}")
        if table := answer.table:
            places = [i for i, name in enumerate(table.columns) if name.startswith(TERMINAL_COLUMNS)]
            for line in table_lines([tuple(row[i] for i in places) for row in (table.columns, *table.rows)]):
                say(line)
        for recipe in answer.recipes[:1]:
            say(f"{recipe.build}\n{recipe.query}")


def detail_blocks(
    answers: Sequence[Answer], warned: Sequence[tuple[str, list[str]]], results: int
) -> list[Block]:
    """Return what is behind the table and the warnings."""
    blocks: list[Block] = []
    for answer in answers:
        blocks += part_blocks(answer.details)
        for recipe in answer.recipes[1:]:
            blocks += recipe_blocks(recipe, "The runner-up's SQL:")
    if warned:
        blocks += [Heading(3, "Each warning"), *warning_blocks(warned, results)]
    return [Heading(2, "Details"), *blocks] if blocks else []


def advice_blocks(warned: Sequence[tuple[str, list[str]]]) -> list[Block]:
    """Return the warnings by what the reader should do, a line each."""
    lines: list[Line] = [
        [Strong(f"{advice}:"), f" {'; '.join([*texts[:MOST_TEXTS], *more])}"]
        for advice, texts in group_by_advice(warned).items()
        for more in [[f"and {len(texts) - MOST_TEXTS} more"] if len(texts) > MOST_TEXTS else []]
    ]
    return [Items(lines), Paragraph(BEHIND, is_note=True)] if lines else [Paragraph("None.")]


def cost_blocks(answers: Sequence[CostAnswer]) -> list[Block]:
    """Return for each dataset, number of neighbours and filter what servers cost, then their table."""
    blocks: list[Block] = []
    for answer in answers:
        title = "What it costs"
        title += f": {answer.title}" if len({one.title for one in answers}) > 1 else ""
        title += f", under the filter {answer.filter}" if answer.filter else ""
        blocks += [Heading(2, title), statement_items(answer.statements), *cost_table(answer)]
    return blocks + ([Paragraph(note, is_note=True) for note in answers[0].prices.notes] if answers else [])


def statement_items(statements: Iterable[Statement]) -> Items:
    """Return statements as a list."""
    return Items([[Strong(f"{one.about}:"), f" {one.text}"] for one in statements])


def finding_blocks(findings: Sequence[Finding], source: str) -> list[Block]:
    """Return what others have published next to what was measured."""
    if not findings:
        return []
    columns = ("Claim", "Published", "Measured here", "Verdict", "Why")
    rows = [
        [finding.says, finding.published, finding.measured or UNKNOWN, finding.verdict, finding.why]
        for finding in findings
    ]
    caption = f"Published in: {source}. Its figures come from another machine." if source else ""
    return [Heading(2, "Published findings"), Table(columns, rows, caption, columns)]


def chapter_blocks(chapter: Chapter, empty: Shown) -> list[Block]:
    """Return one chapter; `empty` says where its pictures go, and how they look."""
    blocks: list[Block] = [Heading(2, chapter.title), *read_text(chapter.text)]
    if chapter.command:
        blocks.append(Listing(chapter.command))
    if chapter.missing:
        blocks += [Paragraph([Strong("Missing:")]), Items(list(chapter.missing))]
    seen: dict[tuple[str, Any], int] = {}
    for what, requests, title in (
        ("picture", chapter.pictures, chapter.title),
        ("table", chapter.tables, ""),
    ):
        for request in requests:
            key = what, request.get("kind")
            seen[key] = seen.get(key, 0) + 1
            stem = empty.stem if seen[key] == 1 else f"{empty.stem}{seen[key]}-"
            shown = replace(empty, runs=chapter.runs, records=chapter.records, title=title, stem=stem)
            blocks += make(what, request, shown)
    return blocks


def warning_blocks(found: Iterable[tuple[str, list[str]]], results: int) -> list[Block]:
    """Return each warning with the results that it concerns."""
    items: list[Line] = []
    for text, names in found:
        differ = " (figures of the first, the largest)" if len(names) > 1 and FIGURE.search(text) else ""
        whose = f"{len(names)} of {results} results:" if results > 1 and names else "All:"
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        named = f" [{'; '.join(names[:MOST_NAMED])}{more}]" if names and not len(names) == results > 1 else ""
        items.append([Strong(whose), f" {text}{differ}{named}"])
    return [Items(items)]


def reading_blocks(has_runs: bool, has_data: bool) -> list[Block]:
    """Return how to read the report, and which files lie next to it."""
    pages = ("The same content is in ", Link("Markdown", MARKDOWN), " and ", Link("HTML", HTML), ". ")
    data = (
        *(Link(CSV, CSV), " holds everything known about each point, and "),
        *(Link(MARK_FILE, MARK_FILE), " holds that and the rest of the report."),
    )
    reading: list[Block] = [Paragraph(READING)] if has_runs else []
    return [Heading(2, "How to read it"), *reading, Paragraph([*pages, *(data if has_data else ())])]


def report_files(folder: Path) -> set[str] | None:
    """Return the names of the files of the report in a folder, None without a report."""
    try:
        content: Any = json.loads((folder / MARK_FILE).read_text(encoding="utf-8"))
        if content["made_by"] != MARK["made_by"]:
            return None
        return {str(name) for name in content["files"]}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def write_json(
    folder: Path,
    report: Report,
    target: float,
    answers: Sequence[Answer],
    warnings: Sequence[tuple[str, list[str]]],
    costs: Sequence[CostAnswer],
    sizes: Sequence[Sizes],
) -> None:
    """Write all that a report says, and the names of its files. What is not known is null."""
    runs, records = report.runs, report.records
    places = {identity(run): place for place, run in enumerate(runs)}
    places |= {identity(record): place for place, record in enumerate(records)}
    content = {
        **MARK,
        "answers": [asdict(answer) for answer in answers],
        "files": sorted([MARK_FILE, *(path.name for path in folder.iterdir())]),
        "form": FORM,
        "title": report.title,
        "text": report.text,
        "command": report.command,
        "source": report.source,
        "target_recall": target,
        "costs": costs_as_json(costs),
        "sizes": sizes_as_json(sizes),
        "findings": [asdict(finding) for finding in report.findings],
        "warnings": [{"text": text, "results": names} for text, names in warnings],
        "chapters": [
            {
                "title": chapter.title,
                "text": chapter.text,
                "command": chapter.command,
                "missing": list(chapter.missing),
                "points": [places[identity(run)] for run in chapter.runs],
                "records": [places[identity(record)] for record in chapter.records],
            }
            for chapter in report.chapters
        ],
        "points": [run.dump() for run in runs],
        # The samples of its monitoring are for pictures, and stay in its file.
        "records": [asdict(replace(one, monitoring=None)) | {"path": one.path.as_posix()} for one in records],
    }
    text = json.dumps(finite(content), default=str, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MARK_FILE).write_text(text + "\n", encoding="utf-8", errors="replace")
