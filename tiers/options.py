"""run.py's options of tiers: what they are, what cannot go together, and what they request."""

import argparse
from collections.abc import Iterable, Sequence

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.definitions.servers import largest
from ann_benchmarks.jobs.procedure import Conditions
from ann_benchmarks.run.simulation import Simulation

from .groups import MEMORY, find_place
from .limits import choose_groups
from .locked_memory import require_rights
from .machine import require_linux
from .parse import parse_tiers
from .sweep import ANY_NAME, ContainerSweep, Sweep
from .tier import CONTAINER, CONTROL_GROUP, HUGE_PAGES, SimulatedServer, TieredServer

METHODS = (HUGE_PAGES, CONTROL_GROUP)


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
        choices=("auto", *METHODS),
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

    def first_given(*names: str) -> str:
        return next((f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None), "")

    given, limit = first_given("tier_method", "restart_command"), first_given("memory", "cpuset")
    problems = {
        f"{given} needs --tiers: add --tiers, or leave it out": given and args.tiers is None,
        "--setting excludes --tiers, which set servers up: leave one of them out": args.settings,
        "--build-only measures nothing: leave --tiers out": args.build_only,
        "tiers are measured one after the other: leave --parallelism at 1": args.parallelism > 1,
        f"{given} is for servers outside of containers: add --local": given and not args.local,
        f"{limit} is what tiers set: leave it out": limit and not args.local,
    }
    for number, (problem, is_so) in enumerate(problems.items()):
        if is_so and (number == 0 or args.tiers is not None):
            raise UserError(problem)


def requested_simulation(args: argparse.Namespace, definitions: Sequence[Definition]) -> Simulation:
    """Return what simulates the tiers of --tiers for the servers of these definitions."""
    server = find_server(definitions, args.restart_command)
    if not args.local:
        return ContainerSweep(args.tiers, server)
    servers = largest(each.servers for each in definitions)
    return Sweep(args.tiers, choose_method(args.tier_method or "auto"), server, servers)


def choose_method(method: str) -> str:
    """Return how memory is held back; "auto": by a control group, else huge pages; UserError for neither."""
    require_linux()
    if method == HUGE_PAGES:
        require_rights()
        return HUGE_PAGES
    try:
        choose_groups([MEMORY], ANY_NAME)
        return CONTROL_GROUP
    except UserError as no_groups:
        if method == CONTROL_GROUP:
            raise
        try:
            return choose_method(HUGE_PAGES)
        except UserError as no_pages:
            raise (no_pages if find_place(MEMORY) is None else no_groups) from None


def find_server(definitions: Iterable[Definition], restart_command: str | None) -> TieredServer:
    """Return the server behind these definitions; UserError where the plug-in of none runs any."""
    problem = UserError("--tiers needs an algorithm that runs a server: request one, or leave --tiers out")
    for definition in {(each.module, each.constructor): each for each in definitions}.values():
        try:
            server: TieredServer = plugin_class(definition).simulated_server(restart_command)
            return server
        except RuntimeError as error:
            raise UserError(str(error)) from None
        except UserError as error:
            problem = error
        except ImportError as error:
            problem = UserError(f"'{definition.algorithm}' must be importable for --tiers: {error}")
    raise problem


def possible_conditions(args: argparse.Namespace, rows: int, dimension: int) -> list[Conditions]:
    """Return every tier by every method that may have held its memory."""
    if args.tiers is None:
        return []
    methods = METHODS if args.local else (CONTAINER,)
    if args.tier_method not in (None, "auto"):
        methods = (args.tier_method,)
    tiers = parse_tiers(args.tiers, rows, dimension)
    return [SimulatedServer(tier, method) for tier in tiers for method in methods]
