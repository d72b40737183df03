"""The folder of a report, which may replace an older one; its figures as JSON for other programs."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.records import Record

from .answer import Answer
from .content import Report, identity

MARK_FILE = "report.json"
MARK = {"made_by": "python report.py"}
FORM = 1  # of report.json


def check_replaceable(folder: Path) -> None:
    """Raise UserError unless the folder is missing, empty, or an older report and nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder with -o")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    ours = files_of_report(folder)
    if ours is None:
        raise UserError(f"{folder} holds something other than a report: name another folder with -o")
    if others := sorted(names - ours):
        raise UserError(f"{folder} holds {others[0]}, which is not part of the report: move it elsewhere")


def files_of_report(folder: Path) -> set[str] | None:
    """Return the names of the files of the report in a folder, None if there is none."""
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
) -> None:
    """Write all that a report says, and the names of its files. What is not known is null."""
    runs, records = report.runs, report.records
    places = {identity(run): place for place, run in enumerate(runs)}
    places |= {identity(record): place for place, record in enumerate(records)}
    content = {
        **MARK,
        "files": sorted([MARK_FILE, *(path.name for path in folder.iterdir())]),
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
    text = json.dumps(finite(content), default=str, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MARK_FILE).write_text(text + "\n", encoding="utf-8", errors="replace")


def record_data(record: Record) -> dict[str, Any]:
    """Return a record without the samples of its monitoring, which are for pictures and stay in its file."""
    return asdict(replace(record, monitoring=None)) | {"path": record.path.as_posix()}


def finite(value: Any) -> Any:
    """Return a value with null in place of numbers that JSON does not have."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return value
