"""The figures of a report for other programs: a flat CSV of the points, and all of it as JSON."""

import csv
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.results.export import COLUMNS, OWN_COLUMNS, place_among_columns, row
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

from .answer import Answer
from .content import Report

FORM = 1  # of report.json


def every_run(report: Report) -> list[Run]:
    """Return the results of all chapters, each once."""
    return list({identity(run): run for chapter in report.chapters for run in chapter.runs}.values())


def every_record(report: Report) -> list[Record]:
    """Return the records of all chapters, each once."""
    return list({identity(rec): rec for chapter in report.chapters for rec in chapter.records}.values())


def identity(outcome: Run | Record) -> Hashable:
    """Return what tells results apart, also those that two chapters have read from the same file."""
    if isinstance(outcome, Record):
        return outcome.dataset, outcome.count, outcome.algo, outcome.name, str(outcome.path)
    run, built = outcome, str(outcome.attrs.get("build_arguments"))
    figures = tuple(run.metrics[name] for name in ("k-nn", "qps", "p99"))
    return run.dataset, run.count, run.batch, run.algorithm, run.parameters, built, figures


def write_csv(path: Path, runs: Sequence[Run]) -> None:
    """Write a line for each result: metrics, then attributes."""
    rows = [row(run) for run in runs]
    known = [*COLUMNS, *OWN_COLUMNS]
    others = sorted({name for cells in rows for name in cells} - set(known), key=place_among_columns)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*known, *others])
        writer.writeheader()
        writer.writerows(rows)


def write_json(
    path: Path,
    report: Report,
    target: float,
    answers: Sequence[Answer],
    warnings: Sequence[tuple[str, list[str]]],
    mark: Mapping[str, Any],
) -> None:
    """Write all that a report says; `mark` comes first. What is not known is null."""
    runs, records = every_run(report), every_record(report)
    places = {identity(run): place for place, run in enumerate(runs)}
    places |= {identity(record): place for place, record in enumerate(records)}
    content = {
        **mark,
        "form": FORM,
        "title": report.title,
        "text": report.text,
        "command": report.command,
        "source": report.source,
        "target_recall": target,
        "answers": [asdict(answer) for answer in answers],
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
        "points": [run.as_data() for run in runs],
        "records": [record_data(record) for record in records],
    }
    text = json.dumps(known(content), default=str, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", errors="replace")


def record_data(record: Record) -> dict[str, Any]:
    """Return a record; not what was sampled meanwhile, which is for pictures and lies in its file."""
    return asdict(replace(record, monitoring=None)) | {"path": record.path.as_posix()}


def known(value: Any) -> Any:
    """Return a value with null for what JSON has no number for."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): known(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [known(inner) for inner in value]
    return value
