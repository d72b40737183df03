"""Built indexes: which results share one, which of them is the fastest, and how the indexes differ."""

from collections.abc import Iterable
from typing import Any

from ann_benchmarks.common.foreign import from_json

from .metrics import qps_at_recall
from .runs import Run

LONGEST_LABEL = 40


def fastest_of_each_index(runs: Iterable[Run], target: float) -> list[tuple[Run, str]]:
    """Return the fastest result of each built index that reaches a recall, and how that index is built.

    Only the build arguments in which indexes of its algorithm differ are named.
    """
    fastest: dict[Any, Run] = {}
    for run in runs:
        if qps_at_recall(run.metrics, target) > 0:
            index = built_index(run)
            if index not in fastest or run.metrics["qps"] > fastest[index].metrics["qps"]:
                fastest[index] = run
    arguments: dict[str, list[dict[str, str]]] = {}
    for run in fastest.values():
        arguments.setdefault(run.algorithm, []).append(build_arguments(run))
    return [(run, difference(build_arguments(run), arguments[run.algorithm])) for run in fastest.values()]


def built_index(run: Run) -> tuple[Any, ...]:
    """Return what identifies a built index: its arguments, or what its building took.

    The latter is for files of ann-benchmarks, which do not separate build and query arguments.
    """
    arguments = run.attrs.get("build_arguments")
    if arguments:
        return run.algorithm, str(arguments)
    return run.algorithm, run.metrics["build"], run.metrics["indexsize"]


def build_arguments(run: Run) -> dict[str, str]:
    """Return the build arguments, by name or position; empty where the file has none."""
    values = run.attrs.get("build_arguments", [])
    if isinstance(values, str):
        values = from_json(values, list[Any]())
    named: dict[str, str] = {}
    for position, value in enumerate(values if isinstance(values, list) else [values]):
        if isinstance(value, dict):
            named.update((name, f"{name}={inner}") for name, inner in value.items())
        else:
            named[str(position)] = f"{value}"
    return named


def difference(arguments: dict[str, str], others: list[dict[str, str]]) -> str:
    """Return the arguments, in one line, in which not all others are alike."""
    differing = [text for name, text in arguments.items() if any(other.get(name) != text for other in others)]
    return f"{', '.join(differing):.{LONGEST_LABEL}}"
