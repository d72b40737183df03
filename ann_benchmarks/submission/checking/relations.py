"""What no single attribute of a point shows: contradictions between several, its place, its target."""

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.results.file import LONGEST_NAME, result_path

from ..files import remove_brackets
from .expected import BUCKET, CLOCK, CLOSE
from .points import CheckedPoint
from .rules import SAME

FEW = 20  # latencies that may be equal by chance
ROUNDING = 1e-6
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
LISTS = ("run_seconds", "run_started", "run_recalls", "run_p50")
Problems = Iterator[str]


def broken_arrays(point: CheckedPoint) -> Iterator[tuple[str, str]]:
    """Yield the rule and the fault of latencies, histogram and lists: all else is computed from them."""
    times, edges, counts = point.times, point.edges, point.counts
    runs, number = point["run_count"], point["latency_queries"]
    lengths = {name: len(point.numbers(name)) for name in LISTS}
    if len(times) >= FEW and times.min() == times.max() and not point.series.batch:
        yield "timings", f"has {len(times):,} latencies that are all the same"
    if {*lengths.values()} != {int(point.number("run_count") or 0)}:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        yield "figures", f"says run_count {runs:g}, and lists of runs have other lengths: {said}"
    if not len(counts):
        yield "figures", "has no histogram of its latencies"
    elif len(edges) != len(counts) + 1 or (np.diff(edges) <= 0).any() or counts.min() < 0 or edges[0] <= 0:
        yield "figures", "has a histogram whose edges do not ascend from above 0, or do not fit its counts"
    elif counts.sum() < len(times) or (runs == 1 and number != len(times)):
        said = f"{len(times):,} of one of {runs:.0f} runs, and its histogram {counts.sum():,}"
        yield "figures", f"says {number:,.0f} latencies, has {said}"


def run_problems(point: CheckedPoint) -> Problems:
    """Yield what is stored of no run: the recall of its answers, its median, its latencies."""
    recalls, medians = point.numbers("run_recalls"), point.numbers("run_p50")
    if min(abs(one - point.recall) for one in recalls) > CLOSE:
        yield f"the recall by its answers is {point.recall:.6g}, which is that of none of its run_recalls"
    if min(abs(float(np.median(point.times)) / one - 1) for one in medians if one > 0) > SAME:
        yield "its latencies have a median that is that of none of its runs (run_p50)"
    if exceeding := _beyond_histogram(point.times, point.edges, point.counts):
        yield f"has {exceeding:,} latencies that its histogram of all runs has not"


def _beyond_histogram(times: np.ndarray, edges: np.ndarray, counts: np.ndarray) -> int:
    """Return how many latencies have no place in a histogram that counts them among others.

    In single precision a latency may lie on the other side of an edge: up to each edge, the run may not have
    more than all runs, nor beyond it.
    """
    ordered, upto = np.sort(times), np.concatenate([[0], np.cumsum(counts)])
    surely_below = np.searchsorted(ordered, edges * (1 - BUCKET))
    perhaps_below = np.searchsorted(ordered, edges * (1 + BUCKET), side="right")
    surely_above = len(ordered) - perhaps_below
    too_many = np.maximum(surely_below - upto, surely_above - (upto[-1] - upto))
    inside = surely_below[1:] - perhaps_below[:-1] - counts
    return int(max(too_many.max(), inside.max(), 0))


def clock_problems(point: CheckedPoint) -> Problems:
    """Yield where times of day contradict each other."""
    begun, ended = point.moment("started_at"), point.moment("ended_at")
    if begun is None or ended is None:
        yield "does not say from when to when it was measured (started_at, ended_at)"
        return
    started, lasted = point.numbers("run_started"), spans(point)
    asking, early = point.number("asking_seconds"), point["asking_seconds"] * (1 - SAME)
    rules = {
        f"ended at {point.attrs['ended_at']}, before it began at {point.attrs['started_at']}": ended < begun,
        "has runs that began outside the time in which it was measured": any(
            not begun - CLOCK <= one <= ended + CLOCK for one in started),
        "has runs that began before the run that precedes them": any(
            later < earlier for earlier, later in pairwise(started)),
        "has runs that began before the one that precedes them had ended": any(
            first < end - CLOCK for (_, end), (first, _) in pairwise(lasted)),
        "has a run that ended after the point": bool(started) and lasted[-1][1] > ended + CLOCK,
        f"sent queries for {asking or 0:.6g} s, in the {ended - begun:.0f} s from its start to its end": (
            (asking or 0) > ended - begun + CLOCK),
        f"sent queries for {early:.6g} s, fewer than its clients were active": (
            early < point["active_seconds"] * (1 - 1e-3)),
    }  # fmt: skip
    yield from [text for text, is_broken in rules.items() if is_broken][:1]


def spans(point: CheckedPoint) -> list[tuple[float, float]]:
    """Return from when to when each run lasted at least, in s since 1970."""
    shown = point["best_search_time"]
    found = []
    for start, seconds in zip(point.numbers("run_started"), point.run_seconds, strict=False):
        length = seconds * point.facts.queries
        if point.series.clients is not None:
            length = (point.number("active_seconds") or 0.0) if abs(seconds / shown - 1) < SAME else 0.0
        found.append((start, start + length))
    return found


def series_problems(point: CheckedPoint) -> Problems:
    """Yield where the folder, the name or an attribute of a point contradicts its series."""
    series, attrs = point.series, point.attrs
    if (folder := remove_brackets(series.folder)) != point.folder:
        yield f"its series is '{folder}', and it lies in '{point.folder}'"
    yield from field_problems(point)
    settings = from_json(attrs.get("given_settings"), dict[str, Any]()).items()
    given, rest = [f"{name}={value}" for name, value in settings], series.settings
    for one in given:
        rest = rest.replace(one, "")
    if rest.strip():
        said = " ".join(given) or "nothing"
        yield f"its series has the settings {series.settings}, and it says given_settings {said}"
    read = [point.number(f"{what}_blocks_read_per_query") for what in ("index", "table")]
    if series.is_cold and attrs.get("caches_dropped") and None not in read and not any(read):
        yield "its server has read no block in its runs, and its series is cold"
    yield from name_problems(point)


def field_problems(point: CheckedPoint) -> Problems:
    """Yield in what a point says another thing of itself than the fields of its series."""
    for field in FIELDS.values():
        name, expected = field.attribute, getattr(point.series, field.name)
        said, is_special = point.attrs.get(name), expected != field.default
        if name and said is None and is_special:
            yield f"does not say {name}, and its series does"
        elif said is not None and said != expected and (is_special or not field.is_also_measured):
            yield f"says {name} {said}, and its series {expected}"
        name, is_number = field.evidence, field.kind is int
        there = len(point.numbers(name)) if is_number else name in point.attrs
        if name and there != ((expected or 0) if is_number else is_special):
            said = f"of {there} {field.id}" if is_number else point.attrs.get(name)
            yield f"says {name} {said}, and its series '{expected or ''}'"


def name_problems(point: CheckedPoint) -> Problems:
    """Yield where the name of a file is not made of its build arguments and what it was searched for."""
    build, target = point.build_arguments, point.target
    if build is None:
        yield "does not say its build arguments"
    elif len(point.name) < LONGEST_NAME:
        if not point.name.startswith(tuple(file_names(build))):
            yield f"its build arguments are {json.dumps(build)}, which its name does not begin with"
        if "target_parameter" in point.attrs and (
            target is None or point.name not in file_names(build, f"target_recall={target:g}")
        ):
            yield f"was searched for a recall of {target}, which its name does not say"


def file_names(build: list[object], *others: object) -> list[str]:
    """Return the names that arguments may have: an array of HDF5 has whole numbers as floats among others."""
    whole = [int(one) if isinstance(one, float) and one.is_integer() else one for one in build]
    paths = [result_path("x", 1, "x", [*either, *others]) for either in (build, whole)]
    return [path.name.removesuffix(".hdf5") for path in paths]


def _differ(setting: object, value: object) -> bool:
    return not math.isclose(float(str(setting)), float(str(value)), rel_tol=ROUNDING)


def setting_problems(point: CheckedPoint) -> Problems:
    """Yield query arguments that were found, described or sent, and that the session did not have."""
    parameter, value = point.attrs.get("target_parameter"), point.number("target_value")
    described = dict(re.findall(r"(\w+)=([\d.]+)", str(point.attrs.get("name"))))
    sent = dict(re.findall(r"SET (\w+\.\w+) = '([\d.]+)'", str(point.attrs.get("query_sql"))))
    for name, setting in from_json(point.attrs.get("settings"), dict[str, Any]()).items():
        if "." not in name or not _NUMBER.fullmatch(str(setting)):
            continue
        last = name.rpartition(".")[2]
        if value is not None and last == parameter and _differ(setting, value):
            yield f"says that {parameter}={value:g} was found, and its session had {name} {setting}"
        for said, stated in (("name", described.get(last)), ("query_sql", sent.get(name))):
            if stated and _NUMBER.fullmatch(stated) and _differ(setting, stated):
                yield f"says {name} {stated} ({said}), and its session had {setting}"


# What each point keeps: the rule, and what yields how it is broken.
RELATIONS: tuple[tuple[str, Callable[[CheckedPoint], Problems]], ...] = (
    ("figures", run_problems),
    ("timings", clock_problems),
    ("series", series_problems),
    ("target", setting_problems),
)
