"""Which results are those of finished points: whole, on the same data, measured as is requested now."""

from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, damage, read_attributes
from ann_benchmarks.results.records import read_record

from .procedure import Procedure


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
