"""A comparison as people and programs read it: aligned for a terminal, Markdown, JSON."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted, figure_text
from ann_benchmarks.common.text import clean_text
from ann_benchmarks.statistics.differences import Difference

from .matching import PointPair, SideBySide
from .measurements import METRICS, MeasuredPoint
from .sides import read_all, results_below, run_folders, run_id
from .verdicts import (
    ALL_POINTS,
    Criteria,
    changes,
    failures,
    median_recall,
    percent,
    recall_differs,
    share_text,
    warnings,
)

FORMATS = ("table", "markdown", "json")
MOST_LEFTOVERS = 5  # named without a partner
SOURCES = {
    "repetitions": "the spread of repetitions",
    "pairs": "the spread of the ratios of repetitions that were measured in turn",
    "rounds": "the spread of the ratios of runs of the same round",
    "blocks": "the spread of repetitions of which those of A and of B did not take turns",
    "runs": "the spread of the runs within each measurement",
}


def grid(form: str, head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Yield the lines of a table, aligned or in Markdown; `sides` has an l or r for each column."""
    rows = [[clean_text(cell) for cell in row] for row in rows]
    if form == "markdown":
        yield f"| {' | '.join(head)} |"
        yield f"|{'|'.join(' ---: ' if side == 'r' else ' --- ' for side in sides)}|"
        for row in rows:
            cells = [cell.replace("|", "\\|").replace("<", "&lt;") for cell in row]
            yield f"| {' | '.join(cells)} |"
        return
    lines = [list(head), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        columns = zip(line, widths, sides, strict=True)
        texts = [cell.rjust(width) if side == "r" else cell.ljust(width) for cell, width, side in columns]
        yield "  ".join(texts).rstrip()


def render(
    compared: SideBySide, names: Sequence[str], criteria: Criteria, form: str, verdict: str = ""
) -> str:
    """Return the whole text; `names` are those of A and B, the verdict is that of --fail-if-slower."""
    if form == "json":
        content = {**_content(compared, names, criteria), **({"verdict": verdict} if verdict else {})}
        return json.dumps(content, indent=2, allow_nan=False) + "\n"
    return headline(verdict, form) + "\n".join(_text(compared, names, criteria, form)) + "\n"


def headline(verdict: str, form: str) -> str:
    """Return a verdict as the first paragraph, as a comment on a pull request begins; "" without one."""
    mark = "**" * (form == "markdown")
    return f"{mark}{verdict}{mark}\n\n" if verdict else ""


def _text(compared: SideBySide, names: Sequence[str], criteria: Criteria, form: str) -> Iterator[str]:
    line_break = "  " * (form == "markdown")
    for name, side, number in zip("AB", names, compared.repetitions, strict=True):
        yield f"{name}: {clean_text(side)}{f' ({number} repetitions)' if number > 1 else ''}{line_break}"
    yield from ("", _matched(compared))
    n = len(compared.pairs)
    if found := changes(compared.pairs):
        rows = [[c.what, c.a, c.b, "" if c.points == n else f"{c.points} of {n} points"] for c in found]
        yield from ("", *grid(form, ["changed", "A", "B", ""], rows, "llll"))
    metric = compared.judged_by
    judged = ["B", "B / A", f"{criteria.confidence} interval", "", "visible"]
    if metric in compared.metrics:
        rows = [
            [pair.label, *_cells(metric, d, criteria), _recalls(pair)]
            for pair, d in compared.metrics[metric].points
        ]
        head = ["point", f"{METRICS[metric].title}: A", *judged, "recall"]
        yield from ("", *grid(form, head, rows, "lrrrrlrl"))
    rows = [
        [METRICS[name].title, *_cells(name, c.mean, criteria), _number(name, len(c.points))]
        for name, c in compared.metrics.items()
    ]
    yield from ("", *grid(form, [ALL_POINTS, "A", *judged, "of"], rows, "lrrrrlrl"), "")
    if metric in compared.metrics:
        points = compared.metrics[metric].points
        if by := dict.fromkeys(SOURCES[d.by] for _, d in points if d.by):
            yield (
                f"Judged by {' or '.join(by)}, with an error rate of {percent(criteria.error_rate)} for all"
                " points of a metric together (Holm). visible: a difference that about 8 of 10 such"
                " comparisons see."
            )
    for text in warnings(compared, criteria):
        yield f"warning: {text}{line_break}"


def _matched(compared: SideBySide) -> str:
    parts = [counted(len(compared.pairs), "point") + " compared"]
    for side, keys in (("A", compared.only_a), ("B", compared.only_b)):
        if keys:
            more = f", and {len(keys) - MOST_LEFTOVERS} more" if len(keys) > MOST_LEFTOVERS else ""
            parts.append(f"only in {side}: {', '.join(keys[:MOST_LEFTOVERS])}{more}")
    return "; ".join(parts)


def _cells(metric: str, difference: Difference, criteria: Criteria) -> list[str]:
    low, high = difference.interval(criteria.error_rate)
    interval = "-" if math.isnan(low) else f"{low:.3f} to {high:.3f}" if high < 1000 else "any"
    return [
        *(figure_text(difference.a), figure_text(difference.b), f"{difference.ratio:.3f}", interval),
        *(criteria.verdict(metric, difference), share_text(difference.visible(criteria.error_rate))),
    ]


def _number(metric: str, number: int) -> str:
    return f"{number} index{'es' * (number > 1)}" if METRICS[metric].per_index else counted(number, "point")


def _recalls(pair: PointPair) -> str:
    texts = dict.fromkeys(
        f"{found[0]:.4f}" if found else "-" for found in map(median_recall, (pair.a, pair.b))
    )
    return " → ".join(texts) + (" (differs)" if recall_differs(pair) and len(texts) > 1 else "")


def _rows(compared: SideBySide, criteria: Criteria) -> Iterator[dict[str, Any]]:
    for metric, found in compared.metrics.items():
        for pair, d in [*found.points, (None, found.mean)]:
            known = [median_recall(side) for side in (pair.a, pair.b)] if pair else [None, None]
            low, high = d.interval(criteria.error_rate)
            numbers = {
                **{"a": d.a, "b": d.b, "ratio": d.ratio, "low": low, "high": high},
                **{"p": d.p, "p_adjusted": d.adjusted, "visible": d.visible(criteria.error_rate)},
            }
            yield {
                "figure": metric,
                "point": pair.label if pair else "geometric mean",
                "key": "/".join(pair.key) if pair else None,
                **{name: None if math.isnan(value) else value for name, value in numbers.items()},
                **{"verdict": criteria.verdict(metric, d), "judged_by": d.by or None},
                **{"repetitions_a": d.repetitions[0], "repetitions_b": d.repetitions[1]},
                **{f"recall_{side}": one and round(one[0], 4) for side, one in zip("ab", known, strict=True)},
                "recall_differs": recall_differs(pair) if pair else None,
            }


def _content(compared: SideBySide, names: Sequence[str], criteria: Criteria) -> dict[str, Any]:
    return {
        **{"a": names[0], "b": names[1], "repetitions": list(compared.repetitions)},
        **{"error_rate": criteria.error_rate, "worth": criteria.worth, "judged_by": compared.judged_by},
        **{"points": len(compared.pairs), "only_in_a": compared.only_a, "only_in_b": compared.only_b},
        "changes": [change._asdict() for change in changes(compared.pairs)],
        "figures": list(_rows(compared, criteria)),
        "slower": failures(compared, criteria),
        "warnings": list(warnings(compared, criteria)),
    }


LIST = ("run", "started", "dataset", "k", "series", "points", "versions")


def list_runs(roots: Sequence[Path], form: str) -> str:
    """Return a table of the runs below some folders, the oldest first."""
    rows = []
    for folder in run_folders(roots):
        paths = results_below(folder.absolute())
        if read := read_all((path, (), 0) for path in paths):
            rows.append(_row(folder, read))
    if not rows:
        raise UserError(
            f"no results in {' '.join(map(str, roots))}: measure some with run.py, or name a folder"
        )
    rows.sort(key=lambda row: (row[1], row[2:5]))
    if form == "json":
        return json.dumps([dict(zip(LIST, row, strict=True)) for row in rows], indent=2) + "\n"
    return "\n".join(grid(form, LIST, rows, "lllrlrl")) + "\n"


def _row(folder: Path, read: list[MeasuredPoint]) -> list[str]:
    started = min(str(m.attrs.get("started_at", "-")) for m in read)
    stated = [item for m in read for item in m.attrs.items() if item[0].endswith("_version")]
    versions = {(name.removesuffix("_version"), str(value)) for name, value in stated}
    return [
        *(run_id(folder), started[:19], *folder.absolute().parts[-3:], str(len(read))),
        ", ".join(f"{name} {value}" for name, value in sorted(versions) if name != "framework") or "-",
    ]
