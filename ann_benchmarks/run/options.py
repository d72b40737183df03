"""run.py: measure algorithms on a dataset."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ann_benchmarks.common.cli import HelpWithDefaults, positive_int
from ann_benchmarks.common.dask_cluster import knock
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.output import counted, warn
from ann_benchmarks.data.datasets import Dataset, canonical_name, get_dataset, is_present
from ann_benchmarks.definitions.configs import Config, read_configs, with_run_groups
from ann_benchmarks.definitions.definition import (
    DEFINITIONS_FOLDER,
    Definition,
    get_definitions,
    supported_data,
)
from ann_benchmarks.definitions.tags import split_tag
from ann_benchmarks.jobs.conditions import Conditions
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.plan import every_job, make_build_plan, make_plan, select, usable_configs, with_tag
from ann_benchmarks.results.file import RESULTS_FOLDER, truth_mark

from .containers.engine import OTHER_WAY, connect
from .containers.limits import cpu_list, size
from .execute import run_plan
from .load_options import add_load_options, check_load_options, loads_asked_for
from .simulation import Simulation

TERMINATED = 128 + signal.SIGTERM


class Terminated(BaseException):
    """SIGTERM has come."""


def make_parser(program: str = "run.py") -> argparse.ArgumentParser:
    """Return what reads the command line; the options of ann-benchmarks' run.py, by the same names."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Measure algorithms on a dataset; finished points are kept and not measured again.",
        formatter_class=HelpWithDefaults,
    )
    add = parser.add_argument
    add("--dataset", metavar="NAME", default="glove-100-angular", help="dataset to search in")
    add("-k", "--count", type=positive_int, default=10, help="number of nearest neighbours to ask for")
    add(
        "--definitions",
        metavar="FOLDER",
        type=Path,
        default=DEFINITIONS_FOLDER,
        help="where the algorithms are: FOLDER/*/config.yml",
    )
    add(
        "--algorithm",
        metavar="NAME",
        nargs="+",
        default=[],
        help="run these algorithms alone; NAME:TAG uses that tag of an algorithm's image",
    )
    add("--docker-tag", metavar="NAME", help="run only algorithms of this Docker image, at a tag: NAME:TAG")
    add("--list-algorithms", action="store_true", help="print the names of all algorithms and end")
    add("--force", action="store_true", help="measure again what is finished already")
    add(
        "--rebuild",
        action="store_true",
        help="build anew although an index is there, and measure again what is finished already",
    )
    add("--build-only", action="store_true", help="build what is not built yet, and measure nothing")
    add(
        "--runs",
        metavar="COUNT",
        type=positive_int,
        default=5,
        help="times to ask all queries; the best counts",
    )
    add("--timeout", type=int, default=2 * 3600, help="seconds for each definition, -1 for no limit")
    add("--local", action="store_true", help="run on this machine itself instead of in Docker")
    add("--batch", action="store_true", help="give algorithms all queries at once")
    add(
        "--max-n-algorithms",
        type=int,
        default=-1,
        help="run so many definitions at most, of each algorithm if several are named; -1 for all",
    )
    add(
        "--run-disabled",
        action="store_true",
        help="run definitions that are disabled in their config.yml too",
    )
    add("--no-monitoring", action="store_true", help="sample neither the machine nor the server meanwhile")
    add("--parallelism", type=positive_int, default=1, help="definitions to run at the same time")
    add(
        "--load-threads",
        metavar="N",
        type=positive_int,
        help="connections that load the vectors into a database (default: the plug-in's choice)",
    )
    add(
        "--chunk-size",
        metavar="ROWS",
        type=positive_int,
        help="rows that are loaded in one transaction (default: the plug-in's choice)",
    )
    add_container_options(parser)
    add_load_options(parser)
    # What an experiment says of itself, and no command line.
    parser.set_defaults(run_groups={}, skips_unavailable=False)
    return parser


def add_container_options(parser: argparse.ArgumentParser) -> None:
    """Add what is said of containers, in a group of its own; none of it is ann-benchmarks'."""
    add = parser.add_argument_group("containers").add_argument
    add(
        "--memory",
        metavar="SIZE",
        type=size,
        help="memory of each container, such as 8g (default: what is free, in equal shares)",
    )
    add("--cpuset", metavar="CPUS", type=cpu_list, help="CPUs of the containers, such as 0-3 (default: all)")
    add(
        "--storage",
        metavar="FOLDER",
        type=Path,
        help="where containers keep what outlives them, such as indexes (default: storage)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 0 when all of it succeeded, 1 when something failed."""
    return run(make_parser().parse_args(arguments))


def run(args: argparse.Namespace, simulation: Simulation | None = None) -> int:
    """Run what is asked for, under one of the conditions after the other where these are simulated."""
    configs, broken = read_configs(args.definitions)
    if args.list_algorithms:
        for config in broken:
            warn(config.problem)
        for name, data in supported_data(configs).items():
            print(name, *(f"{kind}: {', '.join(metrics)}" for kind, metrics in data.items()), sep="\n    ")
        return 0
    algorithms = algorithms_asked_for(args)
    warnings: dict[str, None] = {}
    for algorithm, _ in algorithms:
        _, texts = usable_configs(configs, broken, algorithm)
        warnings |= dict.fromkeys(texts)
    check_options(args, [tag for _, tag in algorithms], simulation is not None)
    engine = None if args.local else connect(OTHER_WAY)
    args.dataset = canonical_name(args.dataset)
    dataset, dimension = get_dataset(args.dataset)
    with dataset:
        # Fails where there are fewer neighbours. A build needs none of them.
        true_distances = None if args.build_only else dataset.true_distances(args.count)
        if true_distances is not None and (args.distinct_queries or 0) > len(true_distances):
            raise UserError(
                f"--distinct-queries: {args.dataset} has {len(true_distances):,} queries, not more"
            )
        definitions = definitions_asked_for(args, configs, dataset)
        rows, metric = dataset.rows, dataset.attrs["distance"]
    conditions = () if simulation is None else simulation.conditions(rows, dimension)
    header = f"dataset {args.dataset}: {rows:,} x {dimension}, {metric}"
    if true_distances is None:
        plan = make_build_plan(definitions, args.dataset, args.count)
    else:
        force = args.force or args.rebuild  # points of another build are not points of this one
        truth = truth_mark(true_distances)
        plan = make_plan(definitions, args.dataset, args.count, args.runs, args.batch, force, truth,
                         loads_asked_for(args), args.warmup, args.target_recall, conditions)  # fmt: skip
        header += f"; {len(true_distances):,} queries for {args.count} neighbours"
    print(header)
    for text in [*warnings, *plan.warnings]:
        warn(text)
    if not plan.jobs:
        print(f"nothing to do: {counted(plan.finished, 'point')} finished before; --force measures again")
        return 0
    if not args.build_only:
        check_writable(Path(RESULTS_FOLDER))
    try:
        with sigterm_raises():
            return run_plan(plan, args, engine, simulation)
    except Terminated:
        print(
            "terminated; what is finished is kept, the same command goes on (--force starts over)",
            file=sys.stderr,
        )
        return TERMINATED


def algorithms_asked_for(args: argparse.Namespace) -> list[tuple[str | None, str | None]]:
    """Return the names and tags of the algorithms; (None, None) means all of them."""
    return [split_tag(name) for name in dict.fromkeys(args.algorithm)] or [(None, None)]


def definitions_asked_for(
    args: argparse.Namespace, configs: Sequence[Config], dataset: Dataset
) -> list[Definition]:
    """Return the definitions for a dataset, with the run groups of an experiment instead of the configs'."""
    configs = with_run_groups(configs, args.run_groups)
    point_type, metric = str(dataset.attrs.get("point_type", "float")), str(dataset.attrs["distance"])
    dimension, rows = dataset.attrs["dimension"], dataset.rows
    known = get_definitions(configs, point_type, metric, dimension, args.count, args.dataset, rows)
    about = (point_type, metric, args.dataset, rows)
    return [
        with_tag(definition, tag)
        for algorithm, tag in algorithms_asked_for(args)
        for definition in select(known, configs, algorithm, args.docker_tag, args.run_disabled, about)
    ]


def jobs_asked_for(
    args: argparse.Namespace, conditions: Callable[[int, int], Sequence[Conditions]] = lambda rows, dim: ()
) -> list[Job]:
    """Return every job with all of its points, whether or not they are finished; nothing is run or got.

    `conditions` makes those for so many rows and dimensions.
    """
    configs, _ = read_configs(args.definitions)
    args.dataset = canonical_name(args.dataset)
    if not is_present(args.dataset):
        raise UserError(f"the dataset {args.dataset} is not here, so that nothing on it can be shown")
    dataset, dimension = get_dataset(args.dataset)
    with dataset:
        definitions = definitions_asked_for(args, configs, dataset)
        how = (args.runs, args.batch, loads_asked_for(args), args.warmup, args.target_recall)
        under = conditions(dataset.rows, dimension)
    return list(every_job(definitions, args.dataset, args.count, *how, under))


def check_options(args: argparse.Namespace, tags: Sequence[str | None], is_simulated: bool) -> None:
    """Refuse options that cannot go together."""
    if args.local:
        if ":" in (args.docker_tag or ""):
            raise UserError("--docker-tag is of images: leave its tag out, or leave --local out")
        if any(tags) and is_simulated:
            raise UserError(
                "--tiers --local is of the one server that is here: leave the tag out, or leave --local out"
            )
        for option in ("memory", "cpuset", "storage"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option} is of containers: leave it out, or leave --local out")
    elif args.scheduler:
        raise UserError(
            "--scheduler needs a server that other machines reach, which no container is: add --local"
        )
    if args.batch and args.parallelism > 1 and not args.build_only:
        raise UserError("--batch uses all cores for one definition; leave --parallelism at 1")
    check_load_options(args)
    if args.scheduler:
        knock(args.scheduler)  # before anything is built
    if args.parallelism > usable_cores():
        raise UserError(
            f"--parallelism {args.parallelism} is more than this machine's {usable_cores()} cores"
        )
    if args.max_n_algorithms == 0:
        raise UserError("nothing to run: --max-n-algorithms is 0")
    if args.timeout != -1 and args.timeout < 1:
        raise UserError(f"--timeout {args.timeout} is no time; give seconds, or -1 for no limit")


def check_writable(folder: Path) -> None:
    """See that results can be stored before anything is built for them."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"the folder {folder} cannot be written to")


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Make SIGTERM an exception, so that workers are stopped as they are by Ctrl-C."""

    def terminate(number: int, frame: Any) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
