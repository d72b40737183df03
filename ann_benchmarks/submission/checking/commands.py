"""What a point was measured by beside what its command line has requested."""

import io
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stderr
from functools import cache
from typing import Any

from ann_benchmarks.common.cli import option_name
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import PROGRAM
from ann_benchmarks.data.datasets import canonical_name
from ann_benchmarks.definitions.configs import OWN_INDEX
from ann_benchmarks.fields.rows import SHUFFLED
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


_NAMED_TARGET = re.compile(r"target\.recall\.(\d(?:\.\d+)?)$")
# Options of run.py by their names: what they let a point have, and what it has.
REQUESTS: Mapping[str, tuple[Callable[[Request], Collection[Any]], Callable[[CheckedPoint], Any]]] = {
    "dataset": (lambda r: [canonical_name(r.dataset)], lambda p: p.dataset),
    "count": (lambda r: [r.count], lambda p: p.count),
    # An experiment adds the index that a table has.
    "algorithm": (
        lambda r: [*(word.partition(":")[0] for word in r.algorithm), *([OWN_INDEX] if r.experiment else [])],
        lambda p: p.series.algorithm,
    ),
    "batch": (lambda r: [r.batch], lambda p: p.series.batch),
    "clients": (lambda r: r.clients or [None], lambda p: p.series.clients),
    "rate": (lambda r: r.rate or [None], lambda p: p.series.rate),
    "slo": (lambda r: [str(r.slo or "")], lambda p: p.series.objective),
    "query_order": (
        lambda r: ["single" if r.debug_single_query else str(r.query_order or SHUFFLED)],
        lambda p: p.series.query_order,
    ),
    "distinct_queries": (lambda r: [r.distinct_queries], lambda p: p.series.distinct_queries),
    "payload": (lambda r: [r.columns], lambda p: p.series.payload),
    "filter": (lambda r: r.filters or [""], lambda p: p.series.filter),
    "post_filter": (lambda r: [r.post_filter], lambda p: p.series.post_filter),
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
    for name, (allowed, measured) in REQUESTS.items():
        is_left_out = getattr(request, name) == getattr(CommandLine, name)
        of_rounds = name == "runs" and MARK in point.attrs
        if of_rounds or (is_left_out and (not is_all or name in ("algorithm", "duration"))):
            continue
        if (has := measured(point)) not in allowed(request):
            flag = option_name(name)
            yield f"its command line has {flag} {_listed(allowed(request))}, and it was measured with {has}"


def _listed(values: Collection[Any]) -> str:
    return shown(", ".join(map(str, values)))
