"""Measure algorithms on a dataset: python run.py --local --dataset NAME --algorithm NAME."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from ann_benchmarks.common.cli import run_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import warn
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
from ann_benchmarks.definitions.configs import Config, read_configs, with_run_groups
from ann_benchmarks.definitions.definition import Data, Definition, supported_data
from ann_benchmarks.definitions.selection import (
    config_warnings,
    named_algorithms,
    select_definitions,
    with_servers,
    with_settings,
)
from ann_benchmarks.experiments.carrying_out import EXPERIMENT_OPTIONS, add_experiment_options, carry_out
from ann_benchmarks.jobs.job import Job, Plan, Scope, make_plan
from ann_benchmarks.results.file import RESULTS_FOLDER, truth_mark
from ann_benchmarks.run import options
from ann_benchmarks.run.console import summary
from ann_benchmarks.run.containers.asking import container_locator
from ann_benchmarks.run.containers.engine import OTHER_WAY, connect
from ann_benchmarks.run.execute import Executor, Limits, Workplace
from ann_benchmarks.run.filter_options import requested_filters
from ann_benchmarks.run.load_options import requested_rounds
from ann_benchmarks.run.outcomes import JobOutcome
from ann_benchmarks.run.server_options import requested_servers
from ann_benchmarks.run.simulation import Simulation
from ann_benchmarks.run.whereabouts import Locate, Locator, WorkersHere
from tiers.options import add_tier_options, check_tier_options, possible_conditions, requested_simulation


def main(arguments: Sequence[str] | None = None, program: str = "run.py", tiers: str | None = None) -> int:
    """Run what a command line requests: one plan, or the steps of an experiment. Return the exit status."""
    parser = make_parser(program, tiers)
    words = sys.argv[1:] if arguments is None else arguments
    if any(word.partition("=")[0] in EXPERIMENT_OPTIONS for word in words):
        return carry_out(words, parser, run)
    return run(parser.parse_args(words))


def make_parser(program: str = "run.py", tiers: str | None = None) -> argparse.ArgumentParser:
    """Return what reads the command line; `tiers` is the default of --tiers."""
    parser = options.make_parser(program)
    add_tier_options(parser, tiers)
    add_experiment_options(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Plan the jobs that the options request, and carry them out; return the exit status."""
    with closing(WorkersHere()) as here:
        return run_with(args, here)


def run_with(args: argparse.Namespace, here: WorkersHere) -> int:
    """Do the same, with the processes that plug-ins report in."""
    check_tier_options(args)
    configs, broken = read_configs(args.definitions)
    if args.list_algorithms:
        for config in broken:
            warn(config.problem)
        for algorithm_name, kinds in supported_data(configs).items():
            texts = (f"{kind}: {', '.join(metrics)}" for kind, metrics in kinds.items())
            print(algorithm_name, *texts, sep="\n    ")
        return 0
    warnings: dict[str, None] = {}
    for algorithm, _ in named_algorithms(args.algorithm):
        warnings |= dict.fromkeys(config_warnings(configs, broken, algorithm))
    options.check_options(args, args.tiers is not None)
    for text in warnings:
        warn(text)
    engine = None if args.local else connect(OTHER_WAY)
    name = canonical_name(args.dataset)
    filters = requested_filters(args)
    dataset, _ = get_dataset(name)
    with dataset:
        # Fails where there are fewer neighbours. A build needs none of them.
        true_distances = None if args.build_only else dataset.true_distances(args.count)
        if true_distances is not None and (args.distinct_queries or 0) > len(true_distances):
            raise UserError(f"--distinct-queries: {name} has {len(true_distances):,} queries, not more")
        data = described(name, dataset, args)
        repeated = 0 if args.build_only else dataset.queries_in_train()
        if filters:
            prepare_filters(name, filters, max(args.count, NEIGHBORS))
        filter_sets = [dataset.filter_set(filter) for filter in filters]
        # Their truth tells finished points from others.
        measured = [] if args.build_only else ["", *filters]
        marks = {filter: truth_mark(dataset.true_distances(args.count, filter)) for filter in measured}
    definitions = requested_definitions(args, configs, data)
    simulation = requested_simulation(args, definitions) if args.tiers is not None else None
    conditions = simulation.conditions(data.rows, data.row_values) if simulation else ()
    obstacle = None
    if simulation is not None and requested_rounds(args) is not None:
        obstacle = simulation.obstacle_to_turns(definitions)
    procedures = options.requested_procedures(args, conditions, in_turn=obstacle is None)
    execution = options.requested_execution(args)
    if repeated:
        execution = replace(execution, facts={**execution.facts, IN_TRAIN: repeated})
    scope = Scope(definitions, name, args.count, procedures, execution)
    header = f"dataset {name}: {data.rows:,} x {data.dimension}, {data.metric}"
    if true_distances is None:
        plan = Plan(scope.builds())
    else:
        # Points of another build are not points of this one.
        locate: Locate = here.locate
        if engine is not None:
            containers = options.requested_containers(args)
            locate = container_locator(engine, containers, args.parallelism, args.definitions)
        plan = make_plan(scope, marks, force=args.force or args.rebuild, where=Locator(locate))
        header += f"; {len(true_distances):,} queries for {args.count} neighbours"
    print(header)
    for found in filter_sets:
        print(described_filter(found))
    for text in filter(None, [repetition_warning(repeated) if repeated else None, obstacle, *plan.warnings]):
        warn(text)
    if not plan.jobs:
        print(f"nothing to do: {counted(plan.finished, 'point')} finished before; --force measures again")
        return 0
    if not args.build_only:
        options.check_writable(Path(RESULTS_FOLDER))
    timeout = None if args.timeout == -1 else args.timeout
    containers = options.requested_containers(args)
    place = (
        engine,
        containers,
        dataset_files(name),
        args.definitions,
        args.parallelism,
        timeout,
        simulation,
        here,
    )
    return execute(plan, Workplace(*place), options.requested_limits(args))


def execute(plan: Plan, workplace: Workplace, limits: Limits) -> int:
    """Run the jobs and say how each ended; return the exit status."""
    # Plug-ins of ann-benchmarks keep indexes here whose names do not say the dataset.
    shutil.rmtree(INDEX_DIR, ignore_errors=True)
    executor = Executor(workplace, limits)
    jobs, simulation = plan.jobs, workplace.simulation
    if simulation is None:
        outcomes = executor.run(jobs, plan.finished)
    else:
        failed: list[JobOutcome] = []
        if jobs and jobs[0].procedure.workload is None:  # a write workload creates its own table
            jobs, failed = build_first(jobs, executor, simulation)
        with ExitStack() as stack:
            outcomes = list(failed)
            if jobs:
                start = stack.enter_context(simulation.begun())
                outcomes += executor.run(jobs, plan.finished, start, simulation.observer)
    for line in summary(outcomes):
        print(line)
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


def described(name: str, dataset: Dataset, args: argparse.Namespace) -> Data:
    """Return what definitions depend on of an open dataset, and whether its queries have filters."""
    attrs = dataset.attrs
    point_type = str(attrs.get("point_type", "float"))
    metric, values = str(attrs["distance"]), dataset.row_values
    is_filtered = bool(requested_filters(args)) and args.post_filter is None
    return Data(name, dataset.rows, attrs["dimension"], metric, point_type, values, is_filtered)


def requested_definitions(
    args: argparse.Namespace, configs: Sequence[Config], data: Data
) -> list[Definition]:
    """Return the definitions for a dataset, with the run groups of an experiment instead of the configs'."""
    configs = with_run_groups(configs, args.run_groups)
    named = named_algorithms(args.algorithm)
    found = select_definitions(configs, named, data, args.count, args.docker_tag, args.run_disabled)
    return with_servers(with_settings(found, args.settings), requested_servers(args))


def every_job(args: argparse.Namespace) -> list[Job]:
    """Return every job that the options request, with all of its points, whether or not they are finished.

    Nothing is run or downloaded. With --tiers, jobs are those of every method that may have held the memory.
    """
    configs, _ = read_configs(args.definitions)
    name = canonical_name(args.dataset)
    if not is_present(name):
        raise UserError(f"the dataset {name} is not here, so that nothing on it can be shown")
    dataset, _ = get_dataset(name)
    with dataset:
        data = described(name, dataset, args)
    definitions = requested_definitions(args, configs, data)
    conditions = possible_conditions(args, data.rows, data.row_values)
    return list(Scope(definitions, name, args.count, options.requested_procedures(args, conditions)).jobs())


if __name__ == "__main__":
    run_command(main)
