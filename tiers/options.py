"""run.py's options of tiers: what they are, what cannot go together, and what they request."""

import argparse
from collections.abc import Iterable, Sequence

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.jobs.procedure import Conditions
from ann_benchmarks.run.simulation import Simulation

from .in_containers import ContainerSweep
from .parse import parse_tiers
from .servers import Servers
from .sweep import Sweep, TieredServer
from .tier import SimulatedServer

METHODS = ("auto", "hugepages", "cgroup")


def add_tier_options(parser: argparse.ArgumentParser, tiers: str | None) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("tiers").add_argument
    add(
        "--tiers",
        metavar="TIERS",
        default=tiers,
        help="measure on simulated servers: mini, short, 5m, 100m, 1b, or SB:RAM in GB, as 2:8,4:16+4cpus",
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


def check_tier_options(args: argparse.Namespace) -> None:
    """Refuse what cannot go together with tiers, or without them."""
    if args.tiers is None:
        for option in ("tier_method", "restart_command"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option.replace('_', '-')} is of tiers: add --tiers, or leave it out")
        return
    if args.settings:
        raise UserError("--setting cannot be had with --tiers, which set servers up: leave one of them out")
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


def requested_simulation(args: argparse.Namespace, definitions: Sequence[Definition]) -> Simulation:
    """Return what simulates the tiers of --tiers for the servers of these definitions."""
    server = server_of(definitions, args.restart_command)
    if not args.local:
        return ContainerSweep(args.tiers, server)
    return Sweep(args.tiers, args.tier_method or "auto", server, Servers.of(definitions))


def server_of(definitions: Iterable[Definition], restart_command: str | None) -> TieredServer:
    """Return the server behind these definitions; UserError where the plug-in of none runs any."""
    problem = UserError("no algorithm is requested whose server tiers could simulate: leave --tiers out")
    for definition in {(each.module, each.constructor): each for each in definitions}.values():
        try:
            server: TieredServer = plugin_class(definition).simulated_server(restart_command)
            return server
        except RuntimeError as error:
            raise UserError(str(error)) from None
        except UserError as error:
            problem = error
        except ImportError as error:
            problem = UserError(f"'{definition.algorithm}' cannot be imported, which tiers need: {error}")
    raise problem


def possible_conditions(args: argparse.Namespace, rows: int, dimension: int) -> list[Conditions]:
    """Return every tier by every method that may have held its memory."""
    if args.tiers is None:
        return []
    methods = [method for method in METHODS if method != "auto"] if args.local else ["container"]
    if args.tier_method not in (None, "auto"):
        methods = [args.tier_method]
    tiers = parse_tiers(args.tiers, rows, dimension)
    return [SimulatedServer(tier, method) for tier in tiers for method in methods]
