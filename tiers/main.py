"""run.py with tiers."""

import argparse
from collections.abc import Sequence

from ann_benchmarks.errors import UserError
from ann_benchmarks.main import make_parser, run

METHODS = ("auto", "hugepages", "cgroup")


def main(arguments: Sequence[str] | None = None, program: str = "run.py", tiers: str | None = None) -> int:
    """Run what the command line asks for; `tiers` is the default of --tiers, None: the machine as it is."""
    parser = make_parser(program)
    add_tier_options(parser, tiers)
    args = parser.parse_args(arguments)
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
