"""run.py's command line: the options, what cannot go together, and what they request."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ann_benchmarks.common.cli import HelpWithDefaults, limit, path, positive_int, read_by, size
from ann_benchmarks.common.dask_cluster import check_scheduler
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import most_processes, usable_cores
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.selection import named_algorithms, read_setting
from ann_benchmarks.jobs.procedure import Conditions, Execution, Procedure
from ann_benchmarks.load.workload import Workload

from .containers.sandbox import Wishes, cpu_list
from .execute import Limits
from .filter_options import add_filter_options, check_filter_options, requested_filters
from .load_options import (
    add_load_options,
    add_rounds_options,
    check_load_options,
    check_payload_options,
    check_rounds_options,
    requested_loads,
    requested_payload,
    requested_rounds,
)
from .server_options import add_server_options, check_server_options
from .workload_options import add_workload_options, check_workload_options


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
        type=path,
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
    add("--timeout", type=limit, default=2 * 3600, help="seconds for each definition, -1 for no limit")
    add("--local", action="store_true", help="run on this machine itself instead of in Docker")
    add("--batch", action="store_true", help="give algorithms all queries at once")
    add(
        "--max-n-algorithms",
        type=limit,
        default=-1,
        help="run this many definitions at most, of each algorithm if several are named; -1 for all",
    )
    add(
        "--run-disabled",
        action="store_true",
        help="run definitions that are disabled in their config.yml too",
    )
    add("--no-monitoring", action="store_true", help="sample neither the machine nor the server meanwhile")
    add(
        "--parallelism",
        type=positive_int,
        default=1,
        help="definitions to run at the same time, at most the cores but one",
    )
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
    add(
        "--setting",
        metavar="NAME=VALUE",
        dest="settings",
        type=read_by(read_setting),
        nargs="+",
        action="extend",
        default=[],
        help="give the server of a database this setting; NAME=VALUE,VALUE measures each as a contender",
    )
    add_container_options(parser)
    add_load_options(parser)
    add_filter_options(parser)
    add_server_options(parser)
    add_rounds_options(parser)
    add_workload_options(parser)
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
        type=path,
        help="where containers keep what outlives them, such as indexes (default: storage)",
    )


def check_options(args: argparse.Namespace, is_simulated: bool) -> None:
    """Refuse options that cannot go together."""
    tags = [tag for _, tag in named_algorithms(args.algorithm)]
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
    check_filter_options(args)
    check_payload_options(args)
    check_server_options(args)
    check_rounds_options(args)
    check_workload_options(args)
    if args.workload is None:  # a workload takes some of those for clients, and says which
        check_load_options(args)
    clients, most = most_clients(args), most_processes()
    if clients > most and not args.scheduler:
        raise UserError(f"{clients:,} clients are as many processes or threads; this machine allows {most:,}")
    if args.scheduler:
        check_scheduler(args.scheduler)  # before anything is built
    most = max(usable_cores() - 1, 1)  # like ann-benchmarks: what supervises them needs a core, too
    if args.parallelism > most:
        raise UserError(
            f"--parallelism {args.parallelism} leaves no core free; with {counted(usable_cores(), 'core')},"
            f" {most} is the most"
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


def requested_procedures(
    args: argparse.Namespace, conditions: Sequence[Conditions] = (), in_turn: bool = True
) -> list[Procedure]:
    """Return how points are to be measured.

    Under one of the conditions after the other, by each load with each filter. `in_turn` says whether rounds
    are possible, if they are requested.
    """
    none: list[Any] = [None]
    rounds = requested_rounds(args) if in_turn else None
    return [
        Procedure(
            args.runs if rounds else args.rounds or args.runs,
            args.batch,
            None if isinstance(load, Workload) else load,
            load if isinstance(load, Workload) else None,
            args.warmup,
            args.target_recall,
            condition,
            rounds,
            filter,
            args.post_filter,
            requested_payload(args),
        )
        for condition, load, filter in product(
            conditions or none, requested_loads(args) or none, requested_filters(args) or [""]
        )
    ]


def requested_execution(args: argparse.Namespace) -> Execution:
    """Return how jobs are to be carried out."""
    return Execution(
        args.load_threads,
        args.chunk_size,
        args.rebuild,
        clients=most_clients(args),
        monitoring=not args.no_monitoring,
        show_progress=args.parallelism == 1,
        filters=() if args.post_filter is not None else requested_filters(args),
        payload=requested_payload(args),
        facts={"command_line": command_line()},
    )


def most_clients(args: argparse.Namespace) -> int:
    """Return how many clients and writers there are to be at the same time, at most."""
    return sum(max(numbers or [0]) for numbers in (args.clients, args.writers))


def requested_limits(args: argparse.Namespace) -> Limits:
    """Return which of the planned definitions are to be run."""
    is_named = bool(args.algorithm) and not args.skips_unavailable
    return Limits(is_named, args.max_n_algorithms, len(args.algorithm) > 1)


def requested_containers(args: argparse.Namespace) -> Wishes:
    """Return what containers are to have."""
    return Wishes(args.memory, args.cpuset, args.storage or Path("storage"))


def command_line() -> str:
    """Write the command that runs, as one types it."""
    path = Path(sys.argv[0])
    program = ["-m", path.parent.name] if path.name == "__main__.py" else [path.name]
    return shlex.join(["python", *program, *sys.argv[1:]])
