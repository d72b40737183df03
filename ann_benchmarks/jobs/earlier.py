"""What earlier runs have left: finished points, and query arguments that were found for a recall."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series, series_of
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.file import (
    TRUTH_ATTRIBUTE,
    damage,
    iter_result_paths,
    read_attributes,
    result_path,
)
from ann_benchmarks.results.measurement import OVERSTATED
from ann_benchmarks.results.records import read_record

from .procedure import Procedure

SAME_INDEX = (TRUTH_ATTRIBUTE, "index_build_time")  # no two builds take the same number of seconds
_KEPT = (*SAME_INDEX, "target_recall", "target_parameter", "target_value", OVERSTATED)


def mark_of_rounds(path: Path, procedure: Procedure) -> str | None:
    """Return the mark of the rounds that a finished point was measured in, None where there were none."""
    try:
        attrs = read_attributes(path)
    except UserError:
        return None
    is_whole = attrs.get("rounds_requested") == str(procedure.rounds) and "rounds_ended" in attrs
    return str(attrs.get("rounds")) if is_whole else None


def unfinished(path: Path, procedure: Procedure, truth: str) -> str | None:
    """Say why a file is no finished point of this procedure on this data, None if it is one."""
    if procedure.workload is not None:
        return _other_workload(path, procedure.workload, truth)
    return damage(path, truth) or _cut_race(path) or _other_load(path, procedure.load)


def _cut_race(path: Path) -> str | None:
    attrs = read_attributes(path)
    is_cut = "rounds" in attrs and "rounds_ended" not in attrs
    return f"{path} is of rounds that were interrupted" if is_cut else None


def _other_load(path: Path, load: Load | None) -> str | None:
    """Say how a finished point was measured, if that is not what is requested now.

    How long, and with how many queries, is no field of a series.
    """
    if load is None:
        return None
    attrs = read_attributes(path)
    for option, name in (("--duration", "asked_duration"), ("--max-queries", "asked_queries")):
        before, now = attrs.get(name, 0), load.facts[name] or 0
        if "driver" in attrs and before != now:
            return f"{path} was measured {f'with {option} {before:.12g}' if before else f'without {option}'}"
    return None


def _other_workload(path: Path, workload: Workload, truth: str) -> str | None:
    try:
        attrs = read_record(path).attrs
    except UserError as error:
        return str(error)
    if attrs.get(TRUTH_ATTRIBUTE) != truth:
        return f"{path} was measured on other vectors of the same name"
    before = attrs.get("asked_duration", 0)
    if before != workload.seconds:
        return f"{path} was measured with --duration {before:.12g}"
    return None


def found_before(
    series: Series, built: list[Any], dataset: str, count: int, target: float, points: Sequence[list[Any]]
) -> list[Mapping[str, Any]]:
    """Return what other curves have found for a target recall where answers depend on nothing else.

    `built` are the arguments of the index, and `points` those whose values are searched for.
    """
    names = {result_path(dataset, count, "any", built + arguments).name for arguments in points}
    found: list[Mapping[str, Any]] = []
    for path in iter_result_paths(dataset, count):
        if path.name in names and path.parent.name.startswith(series.algorithm):
            try:
                attrs = read_attributes(path)
                other = series_of(attrs, path.parent.name)
            except (UserError, OSError):
                continue
            if attrs.get("target_recall") == target and other.searched == series.searched:
                found.append({name: attrs[name] for name in _KEPT if name in attrs})
    return found


class FoundValue(NamedTuple):
    """A value that a search has found, and by how much its recall exceeds that of other queries if known."""

    value: Any
    overstated: float | None


def value_found_before(
    found: Sequence[Mapping[str, Any]], parameter: str, values: Sequence[Any], facts: Mapping[str, Any]
) -> FoundValue | None:
    """Return the one of `values` that reached the recall on the same index; None where none is known.

    Where it is slow to search, it need not be searched again for other clients or memory. `facts` identify
    the dataset and the index, by the names in SAME_INDEX.
    """
    for attrs in found:
        if attrs.get("target_parameter") == parameter and all(
            name in attrs and name in facts and attrs[name] == facts[name] for name in SAME_INDEX
        ):
            same = (value for value in values if str(value) == str(attrs.get("target_value")))
            return next((FoundValue(value, attrs.get(OVERSTATED)) for value in same), None)
    return None
