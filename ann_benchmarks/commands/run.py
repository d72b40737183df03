"""Measure algorithms on a dataset: python run.py --local --dataset NAME --algorithm NAME."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import definition_folders, rename_commands
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import from_json, say, warn
from ann_benchmarks.constants import INDEX_DIR
from ann_benchmarks.data.datasets import (
    canonical_name,
    dataset_files,
    get_dataset,
    is_present,
    prepare_filters,
)
from ann_benchmarks.data.datasets.dataset import Dataset
from ann_benchmarks.data.datasets.write import IN_TRAIN, NEIGHBORS, repetition_warning
from ann_benchmarks.data.filters import FilterSet
from ann_benchmarks.definitions.configs import (
    OWN_INDEX,
    Config,
    add_own_index,
    read_configs,
    replace_run_groups,
)
from ann_benchmarks.definitions.definition import Data, Definition, apply_servers, supported_data
from ann_benchmarks.definitions.selection import (
    NoDefinition,
    NoRunGroup,
    apply_settings,
    config_warnings,
    named_algorithms,
    select_definitions,
)
from ann_benchmarks.experiments.carrying_out import EXPERIMENT_OPTIONS, carry_out
from ann_benchmarks.jobs.job import Job, Scope
from ann_benchmarks.results.file import RESULTS_FOLDER, read_attributes, truth_mark
from ann_benchmarks.results.measurement import NOT_INSTALLED, TIERS_LEFT_OUT
from ann_benchmarks.run.checks import check_request
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.console import JobOutcome, summary
from ann_benchmarks.run.containers.containers import container_locator
from ann_benchmarks.run.containers.engine import OTHER_WAY, connect
from ann_benchmarks.run.execute import Executor, WorkerPool
from ann_benchmarks.run.plan import Plan, forecast, make_plan
from ann_benchmarks.run.request import Request, read_request, take_url
from ann_benchmarks.run.worker import Locator, Simulation
from tiers.options import finalists, finals, is_optional, possible_conditions, requested_simulation


def main(arguments: Sequence[str] | None = None, program: str = "run.py", tiers: str | None = None) -> int:
    """Run what a command line requests: one plan, or the steps of an experiment. Return the exit status."""
    parser = make_parser(program, tiers)
    words = take_url(sys.argv[1:] if arguments is None else arguments)
    if any(word.partition("=")[0] in EXPERIMENT_OPTIONS for word in words):
        status = carry_out(words, parser, run)
        if {"--build-only", "--dry-run"}.isdisjoint(words):
            from ann_benchmarks.experiments.report import answer_experiment  # matplotlib takes a second

            answer_experiment(words, parser, every_job)
        return status
    return run(read_request(words, parser))


def run(request: Request) -> int:
    """Plan the jobs that are requested, and carry them out; return the exit status."""
    configs, broken = read_configs(*definition_folders(request.definitions))
    if request.list_algorithms:
        for config in broken:
            warn(config.problem)
        if request.json:
            print(json.dumps(supported_data(configs), indent=1))
            return 0
        for algorithm_name, kinds in supported_data(configs).items():
            texts = (f"{kind}: {', '.join(metrics)}" for kind, metrics in kinds.items())
            print(algorithm_name, *texts, sep="\n    ")
        return 0
    warnings: dict[str, None] = {}
    for algorithm, _ in named_algorithms(request.algorithm):
        warnings |= dict.fromkeys(config_warnings(configs, broken, algorithm))
    check_request(request)
    for text in warnings:
        warn(text)
    with WorkerPool(request.parallelism, request.time_limit) as pool:
        return run_checked(request, configs, pool)


def run_checked(request: Request, configs: Sequence[Config], pool: WorkerPool) -> int:
    """Do so with options that were checked, in processes of this machine or in containers."""
    engine = None if request.local else connect(OTHER_WAY)
    name, filters = canonical_name(request.dataset), request.filters
    if request.dry_run and not is_present(name):
        say(f"dataset {name} is not present: it is made or downloaded first")
        return 0
    dataset, _ = get_dataset(name)
    with dataset:
        # Fails where there are fewer neighbours. A build needs none of them.
        true_distances = None if request.build_only else dataset.true_distances(request.count)
        if true_distances is not None and (request.distinct_queries or 0) > len(true_distances):
            raise UserError(f"--distinct-queries: {name} has {len(true_distances):,} queries, not more")
        data = described(name, dataset, request)
        header = f"dataset {name}: {data.rows:,} x {data.dimension}, {data.metric}"
        if true_distances is not None:
            header += f"; {len(true_distances):,} queries for {request.count} neighbours"
        say(header)
        repeated = 0 if request.build_only else dataset.queries_in_train()
        if filters:
            prepare_filters(name, filters, max(request.count, NEIGHBORS))
        filter_sets = [dataset.filter_set(filter) for filter in filters]
        # Their truth tells finished points from others.
        measured = [] if request.build_only else ["", *filters]
        marks = {filter: truth_mark(dataset.true_distances(request.count, filter)) for filter in measured}
    definitions = requested_definitions(request, configs, data)
    simulation, conditions, left_out = requested_simulation(request, definitions, data)
    obstacle = simulation.obstacle_to_turns(definitions) if simulation and request.turns else None
    procedures = finals(request.procedures(conditions, in_turn=obstacle is None), request)
    facts = {IN_TRAIN: repeated, TIERS_LEFT_OUT: left_out}
    execution = request.execution(**{name: value for name, value in facts.items() if value})
    scope = Scope(definitions, name, request.count, procedures, execution)
    narrow = partial(finalists, every=[*scope.jobs()]) if is_optional(request.tiers) else None
    if true_distances is None:
        plan = Plan(scope.builds())
    else:
        where = Locator(pool.locate if engine is None else container_locator(engine, request))
        # Points of another build are not points of this one.
        is_anew = request.force or request.rebuild
        plan = make_plan(scope, marks, is_anew, where)
        if narrow and not any(job.procedure.conditions is None for job in plan.jobs):
            plan = make_plan(replace(scope, narrow=narrow), marks, is_anew, where)
    for found in filter_sets:
        say(described_filter(found))
    for text in filter(None, [repetition_warning(repeated) if repeated else None, obstacle, *plan.warnings]):
        warn(text)
    if not plan.jobs:
        print(f"nothing to do: {counted(plan.finished, 'point')} finished before; --force measures again")
        return 0
    if request.dry_run:
        start = (simulation and simulation.builder) or pool.take
        queries = 0 if true_distances is None else len(true_distances)
        jobs = narrow(plan.jobs) if narrow else plan.jobs
        for line in forecast(jobs, data, queries, start if request.local else None):
            say(line)
        return 0
    if not request.build_only:
        check_writable(Path(RESULTS_FOLDER))
    return execute(plan, Executor(request, pool, simulation, engine, dataset_files(name)), narrow)


def check_writable(folder: Path) -> None:
    """See that results can be stored before anything is built for them."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"the folder {folder} cannot be written to")


def execute(plan: Plan, executor: Executor, narrow: Callable[[list[Job]], list[Job]] | None = None) -> int:
    """Run the jobs and say how each ended; return the exit status.

    With `narrow`, those on each tier are what it leaves of them when all before it are measured.
    """
    # Plug-ins of ann-benchmarks keep indexes here whose names do not say the dataset.
    shutil.rmtree(INDEX_DIR, ignore_errors=True)
    simulation = executor.simulation
    jobs = [job for job in plan.jobs if simulation and job.procedure.conditions]
    as_it_is = [job for job in plan.jobs if job not in jobs]
    outcomes = executor.run(as_it_is, plan.finished) if as_it_is else []
    jobs = narrow(jobs) if narrow else jobs
    if simulation is not None and jobs:
        if jobs[0].procedure.workload is None and not as_it_is:  # a write workload creates its own table
            jobs, outcomes = build_first(jobs, executor, simulation)
        with ExitStack() as stack:
            if jobs:
                start = stack.enter_context(simulation.begun())
            while jobs:
                first = jobs[0].procedure.conditions
                group = [job for job in jobs if not narrow or job.procedure.conditions == first]
                outcomes += executor.run(group, plan.finished, start)
                jobs = [job for job in jobs if job not in group]
                jobs = narrow(jobs) if narrow else jobs
    for line in summary(outcomes):
        print(rename_commands(line))
    return 1 if any(outcome.failure or outcome.failed_points for outcome in outcomes) else 0


def build_first(
    jobs: Sequence[Job], executor: Executor, simulation: Simulation
) -> tuple[list[Job], list[JobOutcome]]:
    """Build, or find, the index of every job with all that the machine has.

    Returns the jobs whose index is there, now without --rebuild, and the outcomes of failed builds.
    """
    definitions = list({str(job.definition): job.definition for job in jobs}.values())
    scope = Scope(definitions, jobs[0].dataset, jobs[0].count, execution=jobs[0].execution)
    outcomes = executor.run(scope.builds(), 0, simulation.builder)
    built = {str(outcome.job.definition) for outcome in outcomes if not outcome.failure}
    left = [
        replace(job, execution=replace(job.execution, rebuild=False))
        for job in jobs
        if str(job.definition) in built
    ]
    return left, [outcome for outcome in outcomes if outcome.failure]


def described_filter(found: FilterSet) -> str:
    """Return the line that says how many rows the filters of a set let through."""
    unmatched = int(np.count_nonzero(found.matches == 0))
    none = f"; {unmatched:,} queries without a match" if unmatched else ""
    return f"filter {found.name}: {found.selectivity:.3%} of the rows pass{none}"


def described(name: str, dataset: Dataset, request: Request) -> Data:
    """Return what definitions depend on of an open dataset, and whether its queries have filters."""
    attrs = dataset.attrs
    point_type = str(attrs.get("point_type", "float"))
    metric, values = str(attrs["distance"]), dataset.row_values
    return Data(name, dataset.rows, attrs["dimension"], metric, point_type, values, bool(request.filters))


def requested_definitions(request: Request, configs: Sequence[Config], data: Data) -> list[Definition]:
    """Return the definitions for a dataset, with the run groups of an experiment instead of the configs'.

    Algorithms of an experiment that have no definition for the dataset are left out; it is an error if none
    is left. The index that somebody has is left out where another definition makes the same one.
    """
    configs = replace_run_groups(configs, request.run_groups)
    names = request.algorithm
    if request.own_index:
        configs = add_own_index(configs, *request.own_index)
        names = (*names, OWN_INDEX)
    how = data, request.count, request.docker_tag, request.run_disabled
    found: list[Definition] = []
    missing: list[NoRunGroup] = []
    for named in named_algorithms(names):
        try:
            found += select_definitions(configs, [named], *how)
        except NoRunGroup as error:
            if not request.skips_unavailable:
                raise
            missing.append(error)
    if not found and isinstance(missing[0], NoDefinition):
        raise missing[0]
    known = [(one.module, one.version, one.arguments) for one in found if one.algorithm != OWN_INDEX]
    found = [
        one
        for one in found
        if one.algorithm != OWN_INDEX or (one.module, one.version, one.arguments) not in known
    ]
    return apply_servers(apply_settings(found, request.setting), request.servers)


def every_job(request: Request) -> list[Job]:
    """Return every job that is requested, with all of its points, whether or not they are finished.

    Nothing is run or downloaded. With --tiers, jobs are those of every method that may have held the memory.
    """
    configs, _ = read_configs(*definition_folders(request.definitions))
    name = canonical_name(request.dataset)
    if not is_present(name):
        raise UserError(f"the dataset {name} is not here, so that nothing on it can be shown")
    dataset, _ = get_dataset(name)
    with dataset:
        data = described(name, dataset, request)
    definitions = requested_definitions(request, configs, data)
    conditions = possible_conditions(request, data.rows, data.row_values)
    jobs = list(Scope(definitions, name, request.count, request.procedures(conditions)).jobs())
    there = [job for job in jobs if any(path.exists() for path, _ in job.paths())]
    jobs = installed_jobs(jobs, there)
    return finalists(jobs, jobs) if is_optional(request.tiers) else jobs


def installed_jobs(jobs: Sequence[Job], there: Sequence[Job]) -> list[Job]:
    """Return jobs without those of algorithms that have no results because they were not installed."""
    left = {job.definition.family for job in jobs} - {job.definition.family for job in there}
    missing: set[str] = set()
    for path in [path for job in there for path, _ in job.paths()] if left else []:
        with suppress(UserError):  # not there, or a record
            missing |= from_json(read_attributes(path).get(NOT_INSTALLED), dict[str, str]()).keys()
    return [job for job in jobs if job.definition.family not in left & missing]
