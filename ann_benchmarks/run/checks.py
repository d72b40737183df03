"""Which options of run.py exclude or need each other, as rows, and the numbers that they may have.

A row names an option, "--clients", or a value of it, "--workload inserts".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import NamedTuple

from ann_benchmarks.common.cli import option_name
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import most_processes, usable_cores
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.definitions.selection import named_algorithms
from ann_benchmarks.load.workload import Mix

from .command_line import NONE, CommandLine
from .request import Request

PARTS_OF_LOAD = ("--max-queries", "--duration", "--query-order", "--distinct-queries", "--rate", "--slo")
PARTS_OF_WORKLOAD = ("--writers", "--write-rate", "--write-mix", "--loaded")
ROUNDS = ("--rounds", "--until", "--budget")
SERVERS = ("--shards", "--pooler", "--replicas")


class Exclusion(NamedTuple):
    """None of some options can be combined with any of the others, except where `unless` is given too."""

    options: Sequence[str]
    others: Sequence[str]
    why: str
    unless: str = ""


class Need(NamedTuple):
    """Each of some options needs another one, except where `unless` is given."""

    options: Sequence[str]
    needed: str
    why: str
    example: str = ""  # of a value for what is needed
    unless: str = ""


EXCLUSIONS = (
    Exclusion(["--memory", "--cpuset", "--storage"], ["--local"], "it is for containers"),
    Exclusion(["--setting"], ["--tiers"], "tiers choose the settings"),
    Exclusion(["--memory", "--cpuset"], ["--tiers"], "tiers choose it"),
    Exclusion(["--tiers"], ["--parallelism"], "tiers are measured one after the other"),
    Exclusion(["--tiers", "--target-recall", "--clients"], ["--build-only"], "nothing is measured"),
    Exclusion(["--batch"], ["--parallelism"], "a batch needs all cores", "--build-only"),
    Exclusion(["--filter"], ["--workload"], "rows that are written have no attributes"),
    Exclusion(["--payload"], ["--workload"], "its queries return ids alone"),
    Exclusion(["--pooler", "--replicas"], ["--shards"], "one kind of servers is measured"),
    Exclusion(["--replicas"], ["--pooler"], "one kind of servers is measured"),
    Exclusion(["--shards", "--replicas"], ["--workload"], "a table that is written to is on one server"),
    Exclusion(["--shards"], ["--filter"], "rows are dealt to shards without attributes"),
    Exclusion(["--shards"], ["--payload"], "answers of shards are merged by their ids alone"),
    Exclusion(["--pooler"], ["--workload"], "writers set what the connections of a pool do not keep"),
    Exclusion(["--pooler"], ["--filter"], "their plans are compared in sessions of the server"),
    Exclusion(["--replicas"], ["--build-only"], "they are made for each run"),
    Exclusion(ROUNDS, ["--build-only", "--workload", "--slo"], "rounds measure at a given load"),
    Exclusion(ROUNDS, ["--parallelism"], "one point is measured at a time"),
    Exclusion(["--until"], ["--rate"], "it says how surely the throughput is known, which --rate fixes"),
    Exclusion(
        ["--max-queries", "--rate", "--slo", "--warmup", "--batch"],
        ["--workload"],
        "it is for queries only",
    ),
    Exclusion(["--workload"], ["--build-only"], "it builds a table of its own when it is measured"),
    Exclusion(["--workload", "--clients"], ["--parallelism"], "it needs all cores"),
    Exclusion(
        ["--clients", "--write-rate", "--write-mix", "--query-order", "--distinct-queries"],
        ["--workload inserts"],
        "it is for --workload writes",
    ),
    Exclusion(["--clients", "--warmup", "--target-recall"], ["--batch"], "a batch is measured as a whole"),
    Exclusion(["--max-queries"], ["--duration"], "each ends a run"),
    Exclusion(["--slo"], ["--rate"], "--slo looks for the rate"),
    Exclusion(["--slo"], ["--max-queries"], "it is kept for a time, which --duration gives"),
    Exclusion(["--slo"], ["--warmup off"], "it is kept with warm caches"),
)
NEEDS = (
    Need(["--tier-method"], "--tiers", "is for simulated servers"),
    Need(["--tier-method"], "--local", "is for servers outside of containers"),
    Need(["--json"], "--list-algorithms", "is a form of that list"),
    Need(["--shard-engine"], "--shards", "says what asks the shards", "N"),
    Need(["--pool-size"], "--pooler", "counts the connections that clients share", "NAME"),
    Need(SERVERS, "--local", "starts servers or programs on this machine"),
    Need(["--replicas"], "--clients", "needs clients for several servers", "32"),
    Need(PARTS_OF_WORKLOAD, "--workload", "says how a workload writes"),
    Need(["--workload writes"], "--clients", "needs clients that query", "32"),
    Need(["--workload writes"], "--write-rate", "needs a rate of writes", "200"),
    Need(PARTS_OF_LOAD, "--clients", "says what clients ask", unless="--workload"),
)


_DEFAULTS = {option_name(each.name): each.default for each in fields(CommandLine)}


def is_given(request: Request, option: str) -> bool:
    """Whether an option is given, or a value of it; servers of which there are to be none are not."""
    name, _, value = option.partition(" ")
    given = getattr(request, name.removeprefix("--").replace("-", "_"))
    if value:
        return value in map(str, given if isinstance(given, tuple) else [given])
    return given != _DEFAULTS[name] and not (name in SERVERS and set(given) <= {0, NONE})


def check_request(request: Request) -> None:
    """Refuse what cannot go together, and what is not possible here; UserError says what to do."""
    for problem in chain(_problems_of_rows(request), _problems_of_numbers(request)):
        raise UserError(problem)


def _problems_of_rows(request: Request) -> Iterator[str]:
    for options, others, why, unless in EXCLUSIONS:
        if unless and is_given(request, unless):
            continue
        given = [option for option in options if is_given(request, option)]
        for other in others:
            if given and is_given(request, other):
                yield f"{given[0]} cannot be combined with {other}: {why}; leave one of them out"
    for options, needed, why, example, unless in NEEDS:
        if not is_given(request, needed) and not (unless and is_given(request, unless)):
            added = f"{needed} {example}".rstrip()
            yield from (f"{option} {why}: add {added}" for option in options if is_given(request, option))


def _problems_of_numbers(request: Request) -> Iterator[str]:
    """Yield what is wrong with numbers, and with what the machine has."""
    if request.slo and request.duration and request.duration < request.slo.least_seconds:
        yield (
            f"in {request.duration:g} s, --slo {request.slo} would be kept by rates that are too high: give a"
            f" --duration of {math.ceil(request.slo.least_seconds * 100) / 100:g} s or more"
        )
    if request.workload == "writes" and request.loaded == 0:
        yield "--workload writes needs rows to begin with: give --loaded above 0"
    inserts = request.workload == "inserts" or (request.write_mix or Mix()).share("insert")
    if request.loaded == 1 and inserts:
        yield "--loaded 1 leaves no row to insert: give less"
    yield from _problems_of_servers(request)
    yield from _problems_of_places(request)


def _problems_of_servers(request: Request) -> Iterator[str]:
    replicas, fewest = max(request.replicas, default=0), min(request.clients, default=0)
    if fewest < replicas:
        yield (
            f"--replicas {replicas} needs a client for each: {counted(fewest, 'client')} cannot query all of"
            " them; give more --clients"
        )


def _problems_of_places(request: Request) -> Iterator[str]:
    if request.local and ":" in (request.docker_tag or ""):
        yield "--docker-tag names images: leave its tag out, or leave --local out"
    has_tags = any(tag for _, tag in named_algorithms(request.algorithm))
    if request.local and request.tiers is not None and has_tags:
        yield "--tiers --local measures the one server of this machine: leave out the tag, or --local"
    clients, most = request.most_clients, most_processes()
    if clients > most:
        yield f"{clients:,} clients are as many processes or threads; this machine allows {most:,}"
    most = max(usable_cores() - 1, 1)  # like ann-benchmarks: what supervises them needs a core, too
    if request.parallelism > most:
        yield (
            f"--parallelism {request.parallelism} leaves no core free; with"
            f" {counted(usable_cores(), 'core')}, {most} is the most"
        )
    if request.max_n_algorithms == 0:
        yield "nothing to run: --max-n-algorithms is 0"
    if request.timeout != -1 and request.timeout < 1:
        yield f"--timeout {request.timeout} must be at least 1 second, or -1 for no limit"
