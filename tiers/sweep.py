"""A sweep: every tier brought about in its turn, and its jobs measured on a server that has no more."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import warn
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.run.workers import AnyWorker, NoWorker, Worker

from .console import SweepConsole
from .control_groups import MEMORY, choose_groups
from .holding import Holding
from .parse import check_capacity, parse_tiers
from .server import TieredServer, default_plugin, plugin_errors, server_of
from .simulated import SimulatedServer
from .tier import CONTROL_GROUP, HUGE_PAGES, Tier


class Sweep:
    """All tiers of a run, on servers of this machine."""

    def __init__(
        self, tiers: str, method: str, restart_command: str | None, server: TieredServer | None = None
    ) -> None:
        """Take what the command line says; `server` is given the tiers; None: that of the plug-in."""
        self._text = tiers
        self._method = chosen_method(method)
        self._restart_command = restart_command
        self._given_server = server
        self._holding: Holding | None = None

    def conditions(self, rows: int, dimension: int, plugin: Any = None) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that cannot be had here.

        `plugin` is the class of a plug-in among the jobs.
        """
        if self._given_server is None:
            self._given_server = server_of(plugin or default_plugin(), self._restart_command)
        tiers = parse_tiers(self._text, rows, dimension)
        with plugin_errors():
            if advice := self._server.check(tiers):
                warn(advice)
            folder = self._server.data_folder()
            for tier in tiers:
                self._server.environment(tier)  # refuses what it cannot give
        if folder is not None:  # else the server's memory is that of another machine
            check_capacity(tiers, self._method)
        return [SimulatedServer(tier, self._method) for tier in tiers]

    def builder(self, job: Job) -> AnyWorker:
        """Start a worker whose server leaves the memory to the build and to the system's cache."""
        return Worker(self._server.environment(None) if self._server.is_ours else {})

    @contextmanager
    def begun(self) -> Iterator[Callable[[Job], AnyWorker]]:
        """Hold back what tiers do not have, until the end; the value starts a worker for a job."""
        with ExitStack() as stack:
            stack.enter_context(plugin_errors())
            stack.callback(self._server.give_back)  # when all else is given back
            self._holding = stack.enter_context(Holding(self._method, self._server.data_folder()))
            yield partial(self._start, self._holding)

    def terms(self, job: Job) -> None:
        """None: there are no containers."""

    def observer(self, jobs: Sequence[Job]) -> SweepConsole:
        """Return who says which tier is begun, and how long the rest may take."""
        return SweepConsole(jobs, lambda: self._holding.trouble if self._holding else None)

    @property
    def _server(self) -> TieredServer:
        assert self._given_server is not None, "conditions() come first"
        return self._given_server

    def _start(self, holding: Holding, job: Job) -> AnyWorker:
        if not isinstance(job.conditions, SimulatedServer):
            return Worker()
        tier = job.conditions.tier
        try:
            with plugin_errors():
                self._bring_about(tier, holding)
        except UserError as error:
            return NoWorker(str(error))
        server = replace(job.conditions, memory=holding.memory, held=holding.facts)
        environment = self._server.environment(tier, holding.groups) if self._server.is_ours else {}
        return TierWorker(server, environment)

    def _bring_about(self, tier: Tier, holding: Holding) -> None:
        if self._server.is_ours:
            holding.apply(tier)
            return
        holding.apply(Tier())
        # Restarted first: hardly any of its shared_buffers is in use when memory is measured.
        postmaster = self._server.serve(tier)
        holding.apply(tier)
        if postmaster is not None:
            holding.adopt(postmaster)


def chosen_method(method: str) -> str:
    """Return how memory is held back: for "auto" by a control group, where there are such."""
    if method != "auto":
        return method
    try:
        choose_groups([MEMORY], "ann-benchmarks-tier")
    except UserError:
        return HUGE_PAGES
    return CONTROL_GROUP


class TierWorker(Worker):
    """A process whose server has what a tier has."""

    def __init__(self, server: SimulatedServer, environment: Any) -> None:
        """Start it when the tier is set, with the variables for a server of ours."""
        self._server = server
        super().__init__(environment)

    def send(self, request: Any) -> None:
        """Hand over a job, with what is known of its tier now that it is set."""
        super().send(replace(request, conditions=self._server) if isinstance(request, Job) else request)
