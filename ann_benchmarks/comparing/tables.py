"""A comparison as people and programs read it: a table, Markdown, CSV, JSON."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .changes import changes
from .figures import PointPair
from .grids import aligned, csv_text, figure_text, markdown
from .judging import Difference
from .matching import Comparison
from .measurements import METRICS, Measurement
from .verdicts import Asked, failures, percent, recall_differs, share_text, warnings

FORMATS = ("table", "markdown", "csv", "json")
LEFTOVERS = 5  # that are named


def render(
    comparison: Comparison, names: Sequence[str], asked: Asked, form: str, colors: bool = False
) -> str:
    """Return the whole text; `names` are those of A and B."""
    if form == "json":
        return json.dumps(_content(comparison, names, asked), indent=2, allow_nan=False) + "\n"
    if form == "csv":
        rows = list(_rows(comparison, asked))
        return csv_text(list(rows[0]) if rows else ["figure"], [list(row.values()) for row in rows])
    return "\n".join(_text(comparison, names, asked, form == "markdown", colors)) + "\n"


def _text(
    comparison: Comparison, names: Sequence[str], asked: Asked, is_markdown: bool, colors: bool
) -> Iterator[str]:
    grid = markdown if is_markdown else aligned
    for name, side, repetitions in zip("AB", names, comparison.repetitions, strict=True):
        yield (
            f"{name}: {side}{f' ({repetitions} repetitions)' if repetitions > 1 else ''}" + "  " * is_markdown
        )
    yield ""
    yield _matched(comparison)
    found = changes(comparison.pairs)
    if found:
        n = len(comparison.pairs)
        rows = [[c.what, c.a, c.b, "" if c.points == n else f"{c.points} of {n} points"] for c in found]
        yield ""
        yield from grid(["changed", "A", "B", ""], rows, "lll", False)
    metric = comparison.judged_by
    if compared := comparison.figures.get(metric):
        yield ""
        head = [
            "point",
            f"{METRICS[metric].title}: A",
            "B",
            "B / A",
            f"{asked.confidence} interval",
            "",
            "visible",
            "recall",
        ]
        rows = [[pair.label, *_cells(metric, d, asked), _recalls(pair)] for pair, d in compared.points]
        yield from grid(head, rows, "lrrrrlrl", colors)
    yield ""
    head = [
        "all points, geometric mean",
        "A",
        "B",
        "B / A",
        f"{asked.confidence} interval",
        "",
        "visible",
        "of",
    ]
    rows = [
        [METRICS[name].title, *_cells(name, c.mean, asked), _of(name, len(c.points))]
        for name, c in comparison.figures.items()
    ]
    yield from grid(head, rows, "lrrrrlrl", colors)
    yield ""
    yield from _explained(comparison, asked)
    for text in warnings(comparison, asked):
        yield f"warning: {text}" + "  " * is_markdown


def _matched(comparison: Comparison) -> str:
    parts = [_counted(len(comparison.pairs), "point") + " compared"]
    for side, keys in (("A", comparison.only_a), ("B", comparison.only_b)):
        if keys:
            more = f", and {len(keys) - LEFTOVERS} more" if len(keys) > LEFTOVERS else ""
            parts.append(f"only in {side}: {', '.join(keys[:LEFTOVERS])}{more}")
    return "; ".join(parts)


def _explained(comparison: Comparison, asked: Asked) -> Iterator[str]:
    compared = comparison.figures.get(comparison.judged_by)
    if compared is None:
        return
    how = {
        "repetitions": "the spread of repetitions",
        "pairs": "the spread of the ratios of repetitions that were measured in turn",
        "noise": "the spread of the repetitions of --noise and of these",
        "runs": "the spread of the runs within each measurement",
    }
    by = dict.fromkeys(how[d.by] for _, d in compared.points if d.by)
    if by:
        yield (
            f"Judged by {' or '.join(by)}, with an error rate of {percent(asked.error_rate)} for all points"
            " of a figure together (Holm). visible: a difference that about 8 of 10 such comparisons see."
        )


def _cells(metric: str, difference: Difference, asked: Asked) -> list[str]:
    low, high = difference.interval(asked.error_rate)
    interval = "-" if math.isnan(low) else f"{low:.3f} to {high:.3f}" if high < 1000 else "any"
    return [
        figure_text(difference.a),
        figure_text(difference.b),
        f"{difference.ratio:.3f}",
        interval,
        asked.verdict(metric, difference),
        share_text(difference.visible(asked.error_rate)),
    ]


def _of(metric: str, points: int) -> str:
    return _counted(points, "index" if METRICS[metric].of_index else "point")


def _counted(number: int, noun: str) -> str:
    plural = {"index": "indexes"}.get(noun, f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"


def _recalls(pair: PointPair) -> str:
    texts = [_recall(side) for side in (pair.a, pair.b)]
    if texts[0] == texts[1]:
        return texts[0]
    return " → ".join(texts) + (" (differs)" if recall_differs(pair) else "")


def _recall(side: Iterable[Measurement]) -> str:
    known = sorted(m.recall for m in side if m.recall is not None)
    return f"{known[len(known) // 2]:.4f}" if known else "-"


def _rows(comparison: Comparison, asked: Asked) -> Iterator[dict[str, Any]]:
    for metric, compared in comparison.figures.items():
        for pair, d in compared.points:
            yield {
                "figure": metric,
                "point": pair.label,
                "key": "/".join(pair.key),
                **_values(metric, d, asked),
            } | {
                "recall_a": _number(_recall(pair.a)),
                "recall_b": _number(_recall(pair.b)),
                "recall_differs": recall_differs(pair),
            }
        yield {
            "figure": metric,
            "point": "geometric mean",
            "key": None,
            **_values(metric, compared.mean, asked),
        } | {
            "recall_a": None,
            "recall_b": None,
            "recall_differs": None,
        }


def _values(metric: str, d: Difference, asked: Asked) -> dict[str, Any]:
    low, high = d.interval(asked.error_rate)
    numbers = {
        **{
            "a": d.a,
            "b": d.b,
            "ratio": d.ratio,
            "low": low,
            "high": high,
            "p": d.p,
            "p_adjusted": d.adjusted,
        },
        "visible": d.visible(asked.error_rate),
    }
    return {
        **{name: None if math.isnan(value) else value for name, value in numbers.items()},
        **{"verdict": asked.verdict(metric, d), "judged_by": d.by or None},
        **{"repetitions_a": d.repetitions[0], "repetitions_b": d.repetitions[1]},
    }


def _number(text: str) -> float | None:
    return None if text == "-" else float(text)


def _content(comparison: Comparison, names: Sequence[str], asked: Asked) -> dict[str, Any]:
    return {
        **{"a": names[0], "b": names[1], "repetitions": list(comparison.repetitions)},
        **{"error_rate": asked.error_rate, "worth": asked.worth, "judged_by": comparison.judged_by},
        **{"points": len(comparison.pairs), "only_in_a": comparison.only_a, "only_in_b": comparison.only_b},
        "changes": [change._asdict() for change in changes(comparison.pairs)],
        "figures": list(_rows(comparison, asked)),
        "slower": failures(comparison, asked),
        "warnings": list(warnings(comparison, asked)),
    }
