"""A sweep: every tier brought about in its turn, and its jobs measured on a server that has no more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ann_benchmarks.algorithms.postgres.environment import PREFIX, server_kind
from ann_benchmarks.algorithms.postgres.servers import current_server, numa
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import warn
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.run.worker import NoWorker, ProcessWorker, Worker

from .capacity import check_capacity
from .console import SweepConsole
from .control_groups import MEMORY, choose_groups
from .external import External
from .holding import CONTROL_GROUP, HUGE_PAGES, Holding
from .parse import parse_tiers
from .settings import build_settings, check_settings, tier_settings, variable
from .simulated import SimulatedServer
from .tier import Tier


class Sweep:
    """All tiers that a run is asked for, on servers of this machine."""

    def __init__(self, tiers: str, method: str, restart_command: str | None) -> None:
        """Take what the command line says; UserError where the server cannot be restarted for each tier."""
        self._text = tiers
        self._method = chosen_method(method)
        self._holding: Holding | None = None
        self._external = External(restart_command) if server_kind() == "external" else None
        if self._external is None and restart_command is not None:
            raise UserError("--restart-command is for a server that is not ours: leave it out")

    def conditions(self, rows: int, dimension: int) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that this machine cannot hold."""
        tiers = parse_tiers(self._text, rows, dimension)
        if self._external is not None:
            self._external.check(tiers)
        elif advised := numa.advice():
            warn(advised)
        if self._data_folder() is not None:  # else the server's memory is that of another machine
            check_capacity(tiers, self._method)
        check_settings(tiers)
        return [SimulatedServer(tier, self._method) for tier in tiers]

    def builder(self, job: Job) -> Worker:
        """Start a worker whose server leaves the memory to the build and to the system's cache."""
        return ProcessWorker(variable(build_settings()) if self._external is None else {})

    @contextmanager
    def begun(self) -> Iterator[Callable[[Job], Worker]]:
        """Hold back what tiers do not have, until the end; the value starts a worker for a job."""
        with ExitStack() as stack:
            if self._external is not None:
                stack.callback(self._external.give_back)  # when all else is given back
            self._holding = stack.enter_context(Holding(self._method, self._data_folder()))
            yield partial(self._start, self._holding)

    def terms(self, job: Job) -> None:
        """None: there are no containers."""

    def observer(self, jobs: Sequence[Job]) -> SweepConsole:
        """Return who says which tier is begun, and how long the rest may take."""
        return SweepConsole(jobs, lambda: self._holding.trouble if self._holding else None)

    def _data_folder(self) -> Path | None:
        return current_server().data_folder if self._external is None else self._external.data_folder()

    def _start(self, holding: Holding, job: Job) -> Worker:
        if not isinstance(job.procedure.conditions, SimulatedServer):
            return ProcessWorker()
        tier = job.procedure.conditions.tier
        settings: dict[str, str] = {}
        try:
            if self._external is None:
                holding.apply(tier)
                settings = tier_settings(tier)
            else:
                holding.apply(Tier())
                # Started anew first: hardly any of its shared_buffers is in use when memory is measured.
                postmaster = self._external.serve(tier)
                holding.apply(tier)
                if postmaster is not None:
                    holding.adopt(postmaster)
        except UserError as error:
            return NoWorker(str(error))
        server = replace(job.procedure.conditions, memory=holding.memory, held=holding.facts)
        return TierWorker(server, settings, holding.groups)


def chosen_method(method: str) -> str:
    """Return how memory is held back: for "auto" by a control group, where there are such."""
    if method != "auto":
        return method
    try:
        choose_groups([MEMORY], "ann-benchmarks-tier")
    except UserError:
        return HUGE_PAGES
    return CONTROL_GROUP


class TierWorker(ProcessWorker):
    """A process whose server has what a tier has."""

    def __init__(self, server: SimulatedServer, settings: Mapping[str, str], groups: Sequence[Path]) -> None:
        """Start it when the tier is set; `settings` and control `groups` are for a server of ours."""
        self._server = server
        super().__init__(variable(settings) | {f"{PREFIX}GROUPS": ":".join(map(str, groups))})

    def send(self, request: Any) -> None:
        """Hand over a job, with what is known of its tier now that it is set."""
        super().send(
            replace(request, conditions=self._server) if isinstance(request, JobRequest) else request
        )
