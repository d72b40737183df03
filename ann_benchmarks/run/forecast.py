"""What a run will do and about how long it takes, before it does anything: --dry-run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, UNKNOWN, counted, duration_text, size_text
from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Data
from ann_benchmarks.jobs.events import Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import FEWEST_OF_A_WIDTH
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS

from .console import table_lines
from .worker import SampleRequest, Worker, ask

TURN_SECONDS = 0.8  # of a warm-up and of switching, beside the run
WARMUP_SECONDS = 3.0  # of a point that is measured at once
TIER_SECONDS = 10.0  # of a server's start with another memory
TRIALS = 8  # of a search for a recall, each with all queries
LARGEST = 3  # parts that are named


def forecast(
    jobs: Sequence[Job], data: Data, queries: int, start: Callable[[Job], Worker] | None
) -> Iterator[str]:
    """Yield lines on what is loaded, built and measured, what it needs, and about how long it takes.

    `start` begins a worker, in which a sample of the rows is loaded and indexed; None: rates are not known.
    """
    samples = measured_samples(jobs, start) if start else {}
    jobs = [job for job in jobs if not start or str(job.definition.plain) in samples]
    if not jobs:
        raise UserError("nothing to run: no algorithm is available here; see the lines above")
    rows = [("definition", "build", "index", "memory of the build")]
    seconds: dict[str, float] = {}
    for name, sample in samples.items():
        build = extrapolated(sample, data.rows) if sample else math.nan
        seconds[f"building {name}"] = build
        text = duration_text(build) if sample else UNKNOWN
        rows.append((name, text, size_text(sample.get("index_kib"), KIB), sample.get("memory", UNKNOWN)))
    yield "dry run: nothing of this is kept, and an index that is there already takes no time"
    if len(rows) > 1:
        yield from table_lines(rows)
    known = [sample for sample in samples.values() if sample]
    if known:
        table = max(sample["table_kib"] for sample in known)
        load = max(sample["load_seconds"] / sample["rows"] for sample in known) * data.rows
        seconds[f"loading {data.rows:,} rows"] = load
        indexes = math.fsum(sample["index_kib"] for sample in known)
        yield f"table {size_text(table, KIB)}; on disk in all about {size_text(table + indexes, KIB)}"
    if any(not job.execution.build_only for job in jobs):
        means = [sample["query_seconds"] for sample in known] or [0.001]
        seconds[f"measuring {measured_text(jobs)}"] = measuring_seconds(jobs, queries * max(means))
    certain = {name: value for name, value in seconds.items() if math.isfinite(value)}
    largest = sorted(certain, key=lambda name: -certain[name])[:LARGEST]
    parts = "; ".join(f"{name} {duration_text(certain[name])}" for name in largest)
    missing = "" if len(known) == len(samples) and samples else ", builds that are not known aside"
    yield f"about {duration_text(math.fsum(certain.values()))} in all{missing}; the largest parts: {parts}"


def measured_samples(jobs: Sequence[Job], start: Callable[[Job], Worker]) -> Mapping[str, Mapping[str, Any]]:
    """Return what a sample of each definition that can be built here has taken; warn of the others."""
    found: dict[str, Mapping[str, Any]] = {}
    workers: dict[str, Worker] = {}
    said: set[str] = set()
    try:
        for job in {str(job.definition.plain): job for job in jobs}.values():
            plain = replace(job, definition=job.definition.plain)
            plain = replace(plain, execution=replace(job.execution, monitoring=False))
            version = job.definition.version
            if version not in workers:
                workers[version] = start(plain)
            answer = ask(workers[version], SampleRequest(plain.request()))
            if isinstance(answer, Located):
                found[str(plain.definition)] = answer.facts
                continue
            if (problem := str(getattr(answer, "text", answer))) not in said:
                warn(f"{job.definition.family} is skipped: {problem}")
            said.add(problem)
            if getattr(answer, "ends_worker", False):
                workers.pop(version).stop()
    finally:
        for worker in workers.values():
            worker.end()
    return found


def extrapolated(sample: Mapping[str, Any], rows: int) -> float:
    """Return the seconds of a build of all rows: those of the sample, by n log n, as a graph's grow."""
    growth = rows * math.log(rows + 1) / (sample["rows"] * math.log(sample["rows"] + 1))
    return float(sample["build_seconds"]) * growth


def measured_text(jobs: Sequence[Job]) -> str:
    """Say how many points are measured, and on how many servers."""
    tiers = len({str(job.procedure.conditions) for job in jobs if job.procedure.conditions})
    text = counted(sum(len(job.points) for job in jobs), "point")
    return f"{text} on {counted(tiers, 'tier')}" if tiers else text


def measuring_seconds(jobs: Sequence[Job], all_queries: float) -> float:
    """Return the seconds of measuring; those of sending all queries once are `all_queries`."""
    turns = points = 0.0
    for job in jobs:
        how = job.procedure
        if how.workload is not None:
            points += how.workload.seconds * len(job.points)
            continue
        run = (how.load.seconds if how.load else None) or all_queries
        turns += (run + TURN_SECONDS) * len(job.points)
        points += (run * how.runs + WARMUP_SECONDS) * len(job.points)
    first = jobs[0].procedure
    conditions = {str(job.procedure.conditions) for job in jobs if job.procedure.conditions}
    definitions = len({str(job.definition) for job in jobs})
    searches = TRIALS * all_queries * definitions if first.target_recall is not None else 0.0
    others = searches + TIER_SECONDS * len(conditions)
    if (rounds := first.rounds) is None:
        return others + points
    number = rounds.number or (FEWEST_OF_A_WIDTH if rounds.until or not rounds.budget else FEWEST_ROUNDS)
    if rounds.budget is None:
        return others + number * turns
    return others + max(
        FEWEST_ROUNDS * turns, min(rounds.budget, number * turns if rounds.number else math.inf)
    )
