"""Which definitions and points a run consists of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.definitions.configs import ANY_METRIC, BrokenConfig, Config
from ann_benchmarks.definitions.definition import Definition, label, supported_data
from ann_benchmarks.definitions.tags import split_tag, tagged
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, damage, read_attributes
from ann_benchmarks.results.records import read_record

from .conditions import Conditions
from .job import Job


@dataclass(frozen=True)
class Plan:
    """Jobs with the points to do; `finished` counts the points of all definitions that are done already."""

    jobs: list[Job]
    finished: int
    warnings: list[str]


def usable_configs(
    configs: list[Config], broken: list[BrokenConfig], algorithm: str | None
) -> tuple[list[Config], list[str]]:
    """The configs to choose from, and warnings; UserError when the algorithm asked for is in a broken one."""
    names = [name for config in configs for name in config.names()]
    if algorithm is not None and algorithm not in names:
        for config in broken:
            if config.mentions(algorithm):
                raise UserError(config.problem)
        raise UserError(f"there is no algorithm '{algorithm}'; {closest(algorithm, names)}")
    return configs, [f"{config.problem}; left out" for config in broken]


def select(
    definitions: Sequence[Definition],
    configs: Sequence[Config],
    algorithm: str | None,
    docker_tag: str | None,
    run_disabled: bool,
    data: tuple[str, str, str, int],
) -> list[Definition]:
    """Reduce the definitions to those asked for; UserError says why none is left.

    `data` is the point type, the metric, the name and the number of rows of the dataset.
    """
    point_type, metric, dataset, rows = data
    supported = supported_data(configs)
    fitting = [name for name in supported if {metric, ANY_METRIC} & {*supported[name].get(point_type, [])}]
    if algorithm is not None:
        definitions = [d for d in definitions if d.algorithm == algorithm]
        if not definitions and algorithm in fitting:
            file = next(config.path for config in configs if algorithm in config.names())
            raise UserError(
                f"no run group of '{algorithm}' is meant for '{dataset}' with {rows:,} rows:"
                f" add one to {file}"
            )
        if not definitions:
            has = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in supported[algorithm].items())
            raise UserError(
                f"algorithm '{algorithm}' has no definition for {point_type} vectors with the metric"
                f" '{metric}'; it has {has}"
            )
    if not definitions and fitting:
        raise UserError(f"no algorithm has a run group that is meant for '{dataset}' with {rows:,} rows")
    if not definitions:
        raise UserError(f"no algorithm has a definition for {point_type} vectors with the metric '{metric}'")
    if docker_tag is not None:
        tags = list(dict.fromkeys(d.docker_tag for d in definitions))
        base, tag = split_tag(docker_tag) if docker_tag not in tags else (docker_tag, None)
        definitions = [with_tag(d, tag) for d in definitions if d.docker_tag == base]
        if not definitions:
            raise UserError(f"no definition has the Docker tag '{docker_tag}'; {closest(docker_tag, tags)}")
    enabled = [d for d in definitions if run_disabled or not d.disabled]
    if not enabled:
        raise UserError("nothing to run: every definition asked for is disabled; add --run-disabled")
    return enabled


def with_tag(definition: Definition, tag: str | None) -> Definition:
    """Mean another version of its image; its results make a curve of their own."""
    if tag is None:
        return definition
    return replace(definition, version=tag, docker_tag=tagged(definition.docker_tag, tag))


def make_build_plan(definitions: Sequence[Definition], dataset: str, count: int) -> Plan:
    """Every definition, whether or not its points are finished, to be built and not measured."""
    jobs = [Job(d, [], dataset, count, 1, False, build_only=True) for d in _joined(definitions)]
    return Plan(jobs, 0, [])


def make_plan(
    definitions: Sequence[Definition],
    dataset: str,
    count: int,
    runs: int,
    batch: bool,
    force: bool,
    truth: str,
    loads: Sequence[Load | Workload | None] = (),
    warmup: Warmup | None = None,
    target_recall: float | None = None,
    conditions: Sequence[Conditions] = (),
) -> Plan:
    """Leave out the points that are finished, and definitions that have none left.

    `truth` is the mark of the dataset: a point on other vectors of the same name is not finished. Each load
    makes a job of its own, under one of the conditions after the other. With `target_recall`, a definition
    has one point, and so it has under a workload that writes.
    """
    jobs = []
    finished_in_all = 0
    warnings = []
    owners: dict[Path, str] = {}
    how = (dataset, count, runs, batch, loads, warmup, target_recall, conditions)
    for job in every_job(definitions, *how):
        points = []
        finished = 0
        for query_arguments in job.points:
            path = job.path(query_arguments)
            name = label(job.definition.family, job.definition.arguments + query_arguments)
            if path in owners:
                if owners[path] != name:
                    warnings.append(f"{name} is left out: its result file would be that of {owners[path]}")
                continue
            owners[path] = name
            if not force and path.exists():
                if job.workload is None:
                    problem = damage(path, truth) or other_load(path, job.load)
                else:
                    problem = problem_of(path, job.workload, truth)
                if problem is None:
                    finished += 1
                    continue
                warnings.append(f"{problem}; it is measured again")
            points.append(query_arguments)
        if points:
            jobs.append(replace(job, points=points, finished=finished))
        finished_in_all += finished
    return Plan(jobs, finished_in_all, warnings)


def every_job(
    definitions: Sequence[Definition],
    dataset: str,
    count: int,
    runs: int,
    batch: bool,
    loads: Sequence[Load | Workload | None] = (),
    warmup: Warmup | None = None,
    target_recall: float | None = None,
    conditions: Sequence[Conditions] = (),
) -> Iterator[Job]:
    """Yield each definition under every load and condition, with all of its points."""
    none: list[None] = [None]
    for condition, definition, load in product(conditions or none, _joined(definitions), loads or none):
        points = definition.points() if target_recall is None else [[f"target_recall={target_recall:g}"]]
        workload = None
        if isinstance(load, Workload):
            load, workload, points = None, load, [points[len(points) // 2]]
        how = (runs, batch, load, warmup, target_recall)
        yield Job(definition, points, dataset, count, *how, conditions=condition, workload=workload)


def other_load(path: Path, load: Load | None) -> str | None:
    """Say with what a finished point was measured, if that is not what is asked for now.

    How long, and with how many queries, is not part of a curve's name.
    """
    if load is None:
        return None
    attrs = read_attributes(path)
    for option, name in (("--duration", "asked_duration"), ("--max-queries", "asked_queries")):
        before, now = attrs.get(name, 0), load.facts[name] or 0
        if "driver" in attrs and before != now:
            return f"{path} was measured {f'with {option} {before:.12g}' if before else f'without {option}'}"
    return None


def _joined(definitions: Sequence[Definition]) -> list[Definition]:
    """Make one of definitions that build the same index, so that it is built once for all their points."""
    joined: dict[tuple[str, str, str], Definition] = {}
    for definition in definitions:
        key = (str(definition), definition.module, definition.constructor)
        if key in joined:
            points = joined[key].points() + definition.points()
            # A point that sets no arguments is measured before others have set theirs.
            definition = replace(joined[key], query_argument_groups=sorted(points, key=bool))
        joined[key] = definition
    return list(joined.values())


def problem_of(path: Path, workload: Workload, truth: str) -> str | None:
    """Why a file is no finished record of this workload, on the data with this mark; None if it is one."""
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
