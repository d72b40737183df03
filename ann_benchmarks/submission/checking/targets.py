"""What was searched for beside what was measured: the recall of a target, the latency of an objective."""

import re
from collections.abc import Iterator
from typing import Any

from ann_benchmarks.common.text import from_json

from .points import CheckedPoint
from .rules import Findings

AGAIN = "measure it again"
ROUNDING = 1e-6
RECALL_CHANGED = 0.01  # by which answers to the same queries may differ, of an index that answers by chance
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_OBJECTIVE = re.compile(r"p(50|95|99|99\.?9):(\d+(?:\.\d+)?)(us|ms|s)")


def check_targets(point: CheckedPoint, findings: Findings) -> None:
    """Refuse a point that does not have what was searched for."""
    for problem in (*of_recall(point), *of_value(point), *of_objective(point)):
        findings.refuse(point.file, "target", problem, AGAIN)
    target = point.number("target_recall")
    if target is not None and target - RECALL_CHANGED <= point.recall < target - ROUNDING:
        what = f"was searched for a recall of {target:g}, and its answers have {point.recall:.6g}"
        findings.warn(point.file, "target", what)


def of_recall(point: CheckedPoint) -> Iterator[str]:
    """Yield that a search did not reach the recall that it says it has reached."""
    target = point.number("target_recall")
    if target is not None and point.recall < target - RECALL_CHANGED:
        yield f"was searched for a recall of {target:g}, and its answers have {point.recall:.6g}"


def of_value(point: CheckedPoint) -> Iterator[str]:
    """Yield that the query argument that was found is not the one that the session had."""
    parameter, value = point.attrs.get("target_parameter"), point.number("target_value")
    settings = from_json(point.attrs.get("settings"), dict[str, Any]())
    for name, setting in settings.items():
        if value is None or name.rpartition(".")[2] != parameter or "." not in name:
            continue
        if _is_number(setting) and abs(float(setting) - value) > ROUNDING * abs(value):
            yield f"says that {parameter}={value:g} was found, and its session had {name} {setting}"


def of_objective(point: CheckedPoint) -> Iterator[str]:
    """Yield that an objective was not kept by the latencies of all runs."""
    objective = point.series.objective
    if not objective:
        return
    read = _OBJECTIVE.fullmatch(objective)
    if read is None:
        yield f"has an objective that is none, '{objective}'"
        return
    percentile = f"p{read[1].replace('.', '')}"
    most, value = float(read[2]) * UNITS[read[3]], point.number(f"latency_{percentile}")
    if value is None or value > most * (1 + ROUNDING):
        has = "nothing" if value is None else f"{value:.6g} s"
        yield f"is to keep {objective}, and its {percentile} is {has}"
    if unanswered := point.number("queries_unanswered"):
        yield f"is to keep {objective}, and {unanswered:,.0f} queries were never sent"


def _is_number(text: Any) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", str(text)) is not None
