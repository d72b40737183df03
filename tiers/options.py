"""What run.py's options of tiers request."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import say
from ann_benchmarks.definitions.configs import OWN_INDEX
from ann_benchmarks.definitions.definition import Data, Definition, plugin_class
from ann_benchmarks.definitions.servers import largest
from ann_benchmarks.jobs.job import Conditions, Job, Procedure
from ann_benchmarks.results.comparable import is_on_tier
from ann_benchmarks.results.measurement import TIERS_LEFT_OUT
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.run.request import Request
from ann_benchmarks.run.worker import Simulation
from ann_benchmarks.views.choice import rank_indexes
from ann_benchmarks.views.memory import needs

from .groups import MEMORY, find_place
from .limits import choose_groups
from .locked_memory import require_rights
from .machine import require_linux
from .parse import AUTO, memory_note, parse_tiers
from .sweep import ANY_NAME, ContainerSweep, Sweep
from .tier import CONTAINER, CONTROL_GROUP, HUGE_PAGES, SimulatedServer, TieredServer

METHODS = (HUGE_PAGES, CONTROL_GROUP)
FINALISTS = 2  # kinds of index that are measured on the tiers of `auto`
NEEDS_RIGHTS = "as root, or with systemd (docs/tiers.md), the least memory is measured, too"


class Tiers(NamedTuple):
    """What simulates the tiers of --tiers, if anything does, and why those of `auto` are left out, if so."""

    simulation: Simulation | None = None
    conditions: Sequence[Conditions | None] = ()
    left_out: str = ""


def requested_simulation(request: Request, definitions: Sequence[Definition], data: Data) -> Tiers:
    """Return what simulates the tiers for the servers of these definitions.

    Those of `auto` are left out, which is said, where the data are too small for them or the machine lets
    nobody limit memory.
    """
    if request.tiers is None:
        return Tiers()
    size = data.rows, data.row_values
    if is_optional(request.tiers) and not parse_tiers(request.tiers, *size):
        say(f"no smaller servers are simulated: {memory_note(*size)}")
        return Tiers(left_out=memory_note(*size))
    needed = ""
    try:
        server = find_server(definitions)
        if request.local:
            require_linux()
            needed = NEEDS_RIGHTS
        simulation = _simulation(request, request.tiers, server, definitions)
        needed = ""
        return Tiers(simulation, [*machine_as_it_is(request), *simulation.conditions(*size)])
    except UserError as error:
        if not is_optional(request.tiers):
            raise
        say(f"no smaller servers are simulated: {needed or error}")
        return Tiers(left_out=needed or str(error))


def is_optional(tiers: str | None) -> bool:
    """Whether --tiers names the ladder that is measured only where the data and the machine allow it."""
    return tiers is not None and AUTO in re.split("[,+ ]+", tiers.lower())


def machine_as_it_is(request: Request) -> list[Conditions | None]:
    """Return the conditions of the machine as it is, with which `auto` compares tiers; else none."""
    return [None] if is_optional(request.tiers) else []


def finals(procedures: Iterable[Procedure], request: Request) -> list[Procedure]:
    """Return procedures with less time for the tiers of `auto`, which few contenders reach."""
    is_final = is_optional(request.tiers)
    return [
        replace(how, rounds=how.rounds.final) if is_final and how.rounds and how.conditions else how
        for how in procedures
    ]


def finalists(jobs: Sequence[Job], every: Sequence[Job]) -> list[Job]:
    """Return the jobs of `auto` without those on tiers whose index cannot be the answer there.

    By the results that `every` job has, the best index and the best of another kind may be it, and one's own,
    with the most clients, as long as no larger tier was surely too small. Without results, any may be.
    """
    places = {path: job for job in every for path, _ in job.paths() if path.exists()}
    runs = [*load_runs(places)]
    target = every[0].procedure.target_recall or 0.0
    as_it_is = [run for run in runs if not is_on_tier(run)]
    ranked = [places[run.path] for run in rank_indexes(as_it_is, target)] or [*every]
    kinds: dict[str, Job] = {}
    for job in ranked:
        own = job.definition.algorithm == OWN_INDEX
        if own or len(kinds.keys() - {OWN_INDEX}) < FINALISTS:
            kinds.setdefault(OWN_INDEX if own else job.definition.module, job)
    left_out = any(TIERS_LEFT_OUT in run.attrs for run in runs)
    lost = {need.algorithm for need in needs(runs, target) if need.perhaps is None}
    alike = [(str(job.definition), job.procedure.load) for job in kinds.values()]

    def is_final(job: Job) -> bool:
        is_lost = left_out or job.definition.family in lost
        if job.procedure.conditions is None or any(path in places for path, _ in job.paths()):
            return True
        return not is_lost and (str(job.definition), job.procedure.load) in alike

    return [job for job in jobs if is_final(job)]


def _simulation(
    request: Request, tiers: str, server: TieredServer, definitions: Sequence[Definition]
) -> Simulation:
    if not request.local:
        return ContainerSweep(tiers, server)
    servers = largest(each.servers for each in definitions)
    return Sweep(tiers, choose_method(request.tier_method or "auto"), server, servers)


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


def find_server(definitions: Iterable[Definition]) -> TieredServer:
    """Return the server behind these definitions; UserError where the plug-in of none runs any."""
    problem = UserError("--tiers needs an algorithm that runs a server: request one, or leave --tiers out")
    for definition in {(each.module, each.constructor): each for each in definitions}.values():
        try:
            server: TieredServer = plugin_class(definition).simulated_server()
            return server
        except RuntimeError as error:
            raise UserError(str(error)) from None
        except UserError as error:
            problem = error
        except ImportError as error:
            problem = UserError(f"'{definition.algorithm}' must be importable for --tiers: {error}")
    raise problem


def possible_conditions(request: Request, rows: int, dimension: int) -> list[Conditions | None]:
    """Return every tier by every method that may have held its memory; None: the machine as it is."""
    if request.tiers is None:
        return []
    methods: tuple[str, ...] = METHODS if request.local else (CONTAINER,)
    if request.tier_method not in (None, "auto"):
        methods = (request.tier_method,)
    tiers = parse_tiers(request.tiers, rows, dimension)
    on_tiers = (SimulatedServer(tier, method) for tier in tiers for method in methods)
    return [*machine_as_it_is(request), *on_tiers]
