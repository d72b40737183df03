"""What a point was measured by beside what its command line has requested."""

import io
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stderr
from functools import cache
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import PROGRAM
from ann_benchmarks.data.datasets import canonical_name, sample_name
from ann_benchmarks.data.datasets.samples import MOST_PARTS
from ann_benchmarks.definitions.configs import OWN_INDEX
from ann_benchmarks.fields.rows import chosen_fields
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.measurement import MARK
from ann_benchmarks.run.command_line import CommandLine
from ann_benchmarks.run.request import Request, read_request

from .points import CheckedPoint


@cache
def requested(command: str) -> tuple[Request, bool] | None:
    """Return what a command line of run.py requests, and whether that is all of it; None for `choose`.

    An experiment has more options in its file, and `choose` others. ValueError for anything else.
    """
    program, *words = (one for one in shlex.split(command) if one != "python")
    if program in (PROGRAM, "-m"):
        program, *words = words
    if program.removesuffix(".py") not in ("run", "tiers"):
        if program.removesuffix(".py") == "choose":
            return None
        raise ValueError
    if program == "tiers" and words[:1] == ["sweep"]:
        words[:1] = ["--tiers", "mini"]
    try:
        with redirect_stderr(io.StringIO()):
            request = read_request(words)
    except (UserError, SystemExit):
        raise ValueError from None
    return request, not request.experiment


def requested_datasets(request: Request) -> list[str]:
    """Return the dataset of a command line and, of an experiment, its samples."""
    name = canonical_name(request.dataset)
    return [sample_name(name, part) for part in range(1, MOST_PARTS + 1 if request.experiment else 2)]


_NAMED_TARGET = re.compile(r"target\.recall\.(\d(?:\.\d+)?)$")
# What else a command line lets a point have, and what it has, by the names of options.
REQUESTS: Mapping[str, tuple[Callable[[Request], Collection[Any]], Callable[[CheckedPoint], Any]]] = {
    "dataset": (requested_datasets, lambda p: p.dataset),
    "count": (lambda r: [r.count], lambda p: p.count),
    # An experiment adds the index that a table has.
    "algorithm": (
        lambda r: [*(word.partition(":")[0] for word in r.algorithm), *([OWN_INDEX] if r.experiment else [])],
        lambda p: p.series.algorithm,
    ),
    "warmup": (
        lambda r: [str(r.warmup)] if r.warmup else ["auto", "off", None],
        lambda p: p.attrs.get("warmup"),
    ),
    "duration": (lambda r: [r.duration], lambda p: p.number("asked_duration")),
    # Containers on tiers that have too little memory for all of them are measured one after the other.
    "rounds": (
        lambda r: {bool(r.turns), bool(r.turns and (r.local or not r.tiers))},
        lambda p: MARK in p.attrs,
    ),
    "runs": (lambda r: [r.rounds or r.runs], lambda p: len(p.run_seconds)),
    # An algorithm without a choice is not searched: its result has the target in its name alone.
    "target_recall": (
        lambda r: [r.target_recall],
        lambda p: p.target or next(iter(map(float, _NAMED_TARGET.findall(p.name.replace("_", ".")))), None),
    ),
}
GROUPS = ("batch", "clients", "load", "filter", "strategy", "payload", "caches")  # of fields


def command_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield what a point was measured by that its command line has not requested."""
    command = str(point.attrs.get("command_line"))
    try:
        known = requested(command)
    except ValueError:
        yield f"says command_line {shown(command)}, which run.py does not read"
        return
    if known is None:
        return
    request, is_all = known
    found: list[tuple[str, Collection[Any], Any]] = []
    planned = [Series("", **procedure.series) for procedure in request.procedures()]
    for field in chosen_fields(*GROUPS):
        allowed = {getattr(series, field.name) for series in planned}
        if is_all or allowed != {field.default}:
            found.append((field.id, allowed, getattr(point.series, field.name)))
    for name, (allows, measured) in REQUESTS.items():
        is_left_out = getattr(request, name) == getattr(CommandLine, name)
        of_rounds = name == "runs" and MARK in point.attrs
        if not of_rounds and not (is_left_out and (not is_all or name in ("algorithm", "duration"))):
            found.append((name, allows(request), measured(point)))
    for name, fitting, has in found:
        if has not in fitting:
            listed = shown(", ".join(sorted(map(str, fitting))))
            yield f"its command line requests {name} {listed}, and it was measured with {has}"
