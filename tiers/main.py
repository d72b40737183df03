"""run.py with tiers."""

import argparse
import sys
from collections.abc import Sequence

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.experiments.carrying_out import add_experiment_options, carry_out, split_arguments
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.run.options import jobs_asked_for, make_parser, run

METHODS = ("auto", "hugepages", "cgroup")


def main(arguments: Sequence[str] | None = None, program: str = "run.py", tiers: str | None = None) -> int:
    """Run what the command line asks for; `tiers` is the default of --tiers, None: the machine as it is."""
    parser = parser_with_tiers(program, tiers)
    words = sys.argv[1:] if arguments is None else arguments
    experiment, given = split_arguments(words)
    if experiment.experiment:
        return carry_out(experiment.experiment, experiment.mini, parser, given, start)
    if experiment.mini:
        raise UserError("--mini is the miniature of an experiment: add --experiment")
    return start(parser.parse_args(words))


def parser_with_tiers(program: str = "run.py", tiers: str | None = None) -> argparse.ArgumentParser:
    """Return what reads run.py's command line."""
    parser = make_parser(program)
    add_tier_options(parser, tiers)
    add_experiment_options(parser)
    return parser


def start(args: argparse.Namespace) -> int:
    """Run what is asked for, on the machine as it is or on tiers; return the exit status."""
    if args.tiers is None:
        for option in ("tier_method", "restart_command"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option.replace('_', '-')} is of tiers: add --tiers, or leave it out")
        return run(args)
    check_options(args)
    if args.list_algorithms:
        return run(args)
    # What only a sweep needs:
    from .in_containers import ContainerSweep
    from .sweep import Sweep

    if not args.local:
        return run(args, ContainerSweep(args.tiers))
    return run(args, Sweep(args.tiers, args.tier_method or "auto", args.restart_command))


def every_job(args: argparse.Namespace) -> list[Job]:
    """Return every job that is asked for, on every tier by every method that may have made it."""
    from .parse import parse_tiers
    from .simulated import SimulatedServer

    def conditions(rows: int, dimension: int) -> list[SimulatedServer]:
        tiers = [] if args.tiers is None else parse_tiers(args.tiers, rows, dimension)
        methods = [method for method in METHODS if method != "auto"] if args.local else ["container"]
        if args.tier_method not in (None, "auto"):
            methods = [args.tier_method]
        return [SimulatedServer(tier, method) for tier in tiers for method in methods]

    return jobs_asked_for(args, conditions)


def add_tier_options(parser: argparse.ArgumentParser, tiers: str | None) -> None:
    """Add the options of tiers, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("tiers").add_argument
    add(
        "--tiers",
        metavar="TIERS",
        default=tiers,
        help="measure on simulated servers: mini, 5m, 100m, 1b, or SB:RAM in GB such as 2:8,4:16+4cpus+gp3",
    )
    add(
        "--tier-method",
        choices=METHODS,
        help="how memory is held back with --local: by a control group for the server, or by reserving huge"
        " pages of the machine (default: auto); else by the limits of the containers",
    )
    add(
        "--restart-command",
        metavar="COMMAND",
        help="how to restart a server that is not ours, such as 'systemctl restart postgresql'",
    )


def check_options(args: argparse.Namespace) -> None:
    """Refuse what cannot go together with tiers."""
    if args.build_only:
        raise UserError("--build-only measures nothing: leave --tiers out")
    if args.parallelism > 1:
        raise UserError("tiers are measured one after the other: leave --parallelism at 1")
    if not args.local:
        for option in ("tier_method", "restart_command"):
            if getattr(args, option) is not None:
                raise UserError(
                    f"--{option.replace('_', '-')} is for servers outside of containers: add --local"
                )
        for option in ("memory", "cpuset"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option} is what tiers set: leave it out")
