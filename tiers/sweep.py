"""A sweep: every tier brought about in its turn, and its jobs measured on a server that has no more.

`TieredServer` is what tiers need of a database's server, whatever is measured on them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted, say, warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Event, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.rounds import Enter
from ann_benchmarks.run.console import Console
from ann_benchmarks.run.outcomes import JobOutcome
from ann_benchmarks.run.process import ProcessWorker
from ann_benchmarks.run.worker import NoWorker, Worker

from .control_groups import MEMORY, choose_groups, find_place
from .holding import Holding, limiting
from .locked_memory import require_rights
from .parse import check_capacity, parse_tiers
from .rights import require_linux
from .servers import Servers
from .tier import CONTROL_GROUP, HUGE_PAGES, SimulatedServer, Tier

_ANY_NAME = "ann-benchmarks-tier"  # of groups that are not made


class TieredServer(Protocol):
    """A server that is given what a tier has.

    Methods raise RuntimeError, whose text is one line for the user, where that cannot be.
    """

    @property
    def is_ours(self) -> bool:
        """Whether workers start it; else it is the user's, and serve() restarts it."""

    def check(self, tiers: Sequence[Tier]) -> str | None:
        """Refuse tiers that the server cannot be given, before anything is changed; return advice, if any."""

    def data_folder(self) -> Path | None:
        """Return the folder of its data, None where it is on another machine, or not ours to know."""

    def other_folders(self, shards: int, replicas: int) -> Sequence[Path]:
        """Return the folders of the data of servers beside it: of shards like it, and of its replicas.

        RuntimeError where there can be none.
        """

    def environment(self, tier: Tier | None, groups: Sequence[Path] = ()) -> Mapping[str, str]:
        """Return the variables of a worker, or a container, whose server is to have what a tier has.

        None: a server that builds, with all the machine's memory. A user's server has its settings and its
        groups otherwise. `groups` are the files that take
        the pids of its processes; where they have SERVER in their names, each server has files of its own.
        """

    def serve(self, tier: Tier) -> int | None:
        """Restart the user's server as the tier says; return its pid, None if it is on another machine."""

    def give_back(self) -> None:
        """Give the user's server its own settings back."""


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Turn the errors of plug-ins, which know no UserError, into that."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(str(error)) from None


class SweepConsole(Console):
    """Prints what run.py prints, and a line for each tier."""

    def __init__(self, jobs: Sequence[Job], trouble: Callable[[], str | None]) -> None:
        """Take all jobs, and show the order of their tiers; `trouble` returns what is wrong with one."""
        super().__init__()
        self._trouble = trouble
        self._said: str | None = None
        self._tiers = list(dict.fromkeys(str(job.procedure.conditions) for job in jobs))
        self._points = sum(len(job.points) for job in jobs)
        self._done = 0
        self._begun = time.monotonic()
        self._current: str | None = None
        say(f"{counted(len(self._tiers), 'tier')}, in this order: {', '.join(self._tiers)}")

    def started(self, job: Job) -> None:
        """Say that a definition is begun, and a tier if it is another one."""
        tier = str(job.procedure.conditions)
        if tier != self._current:
            self._current = tier
            left = f", {self._left()}" if self._done else ""
            place = f"tier {self._tiers.index(tier) + 1} of {len(self._tiers)}"
            say(f"{place}: {tier} ({self._done} of {counted(self._points, 'point')} done{left})")
        super().started(job)

    def event(self, job: Job, event: Event) -> None:
        """Show an event of a worker."""
        self._done += isinstance(event, PointDone | WorkloadDone | PointFailed)
        trouble = self._trouble()
        if trouble is not None and trouble != self._said:
            warn(trouble)
        self._said = trouble
        super().event(job, event)

    def failed(self, outcome: JobOutcome) -> None:
        """Say that a definition has failed; its other points will not be measured."""
        self._done += len(outcome.job.points) - outcome.done - outcome.failed_points
        super().failed(outcome)

    def _left(self) -> str:
        """Estimate the time left by the mean of the points that are done, starts of servers included."""
        seconds = (time.monotonic() - self._begun) / self._done * (self._points - self._done)
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"


class Sweep:
    """All tiers of a run, on servers of this machine."""

    def __init__(self, tiers: str, method: str, server: TieredServer, servers: Servers | None = None) -> None:
        """Take --tiers and --tier-method, the server that is given the tiers, and those beside it, if any."""
        self._text, self._server, self._servers = tiers, server, servers or Servers()
        self._method = method
        self._holding: Holding | None = None

    def conditions(self, rows: int, dimension: int) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that cannot be had here."""
        tiers = parse_tiers(self._text, rows, dimension)
        self._method = chosen_method(self._method)
        if self._servers.total > 1 and self._method == HUGE_PAGES:
            raise UserError(
                "huge pages hold back memory of the whole machine, and each server is to have its own: use"
                " --tier-method cgroup"
            )
        with plugin_errors():
            self._other_folders()
            if advice := self._server.check(tiers):
                warn(advice)
            folder = self._server.data_folder()
        if folder is not None:  # else the server's memory is that of another machine
            check_capacity(tiers, self._method, self._servers)
        for tier in tiers:
            limiting(tier, self._method, folder, _ANY_NAME)
        return [SimulatedServer(tier, self._method) for tier in tiers]

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> None:
        """None: one server has the indexes of all."""

    def builder(self, job: Job) -> Worker:
        """Start a worker whose server leaves the memory to the build and to the system's cache."""
        return ProcessWorker(self._server.environment(None))

    @contextmanager
    def begun(self) -> Iterator[Callable[[Job], Worker]]:
        """Hold back what tiers do not have, until the end; the value starts a worker for a job."""
        with ExitStack() as stack:
            stack.callback(self._give_back)  # when all else is given back
            with plugin_errors():
                folder, others = self._server.data_folder(), self._other_folders()
            self._holding = stack.enter_context(Holding(self._method, folder, other_folders=others))
            yield partial(self._start, self._holding)

    def terms(self, job: Job) -> None:
        """None: there are no containers."""

    def observer(self, jobs: Sequence[Job]) -> SweepConsole:
        """Return what shows the tier that is begun, and an estimate of the time left."""
        return SweepConsole(jobs, lambda: self._holding.trouble if self._holding else None)

    def _other_folders(self) -> Sequence[Path]:
        return self._server.other_folders(self._servers.shards, self._servers.replicas)

    def _give_back(self) -> None:
        with plugin_errors():
            self._server.give_back()

    def _start(self, holding: Holding, job: Job) -> Worker:
        conditions = job.procedure.conditions
        if not isinstance(conditions, SimulatedServer):
            return ProcessWorker()
        try:
            with plugin_errors():
                self._bring_about(conditions.tier, holding)
        except UserError as error:
            return NoWorker(str(error))
        server = replace(conditions, held=holding.facts, limits=holding.limits)
        return TierWorker(server, holding, self._server.environment(conditions.tier, holding.groups))

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
    """Return how memory is held back; "auto": by a control group, else huge pages; UserError for neither."""
    require_linux()
    if method == HUGE_PAGES:
        require_rights()
        return HUGE_PAGES
    try:
        choose_groups([MEMORY], _ANY_NAME)
        return CONTROL_GROUP
    except UserError as no_groups:
        if method == CONTROL_GROUP:
            raise
        try:
            return chosen_method(HUGE_PAGES)
        except UserError as no_pages:
            raise (no_pages if find_place(MEMORY) is None else no_groups) from None


class TierWorker(ProcessWorker):
    """A process whose servers have what a tier has."""

    def __init__(self, server: SimulatedServer, holding: Holding, environment: Mapping[str, str]) -> None:
        """Start it when the tier is set, with the variables for a server of ours."""
        self._server, self._memory_of = server, holding.memory_of
        super().__init__(environment)

    def send(self, request: Any) -> None:
        """Hand over a job, with what is known of its tier now that it is set."""
        if isinstance(request, Enter):
            request = Enter(self._under_conditions(request.request))
        elif isinstance(request, JobRequest):
            request = self._under_conditions(request)
        super().send(request)

    def _under_conditions(self, request: JobRequest) -> JobRequest:
        servers = Servers.of([request.job.definition])
        server = replace(self._server, memory=self._memory_of(servers.with_rows), queried=servers.queried)
        return replace(request, conditions=server)
