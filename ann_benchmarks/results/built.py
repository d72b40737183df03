"""Built indexes: which results share one, and how the indexes differ."""

from typing import Any

from ann_benchmarks.common.text import from_json

from .runs import Run

LONGEST_LABEL = 40


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
