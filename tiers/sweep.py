"""Sweeps: every tier brought about in its turn, on servers of this machine or in containers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import memory_bytes
from ann_benchmarks.common.numbers import MB, size_text
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import ONE_SERVER, Servers
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.rounds import Enter
from ann_benchmarks.run.process import ProcessWorker
from ann_benchmarks.run.worker import Terms, Worker

from .groups import MEMORY, Keeper, OwnGroup, find_place, keep_limit
from .holding import Holding, choose_limits
from .machine import block_device, device_name, drop_caches
from .parse import available_memory, check_capacity, parse_tiers
from .tier import CONTAINER, HUGE_PAGES, Disk, SimulatedServer, Tier, TieredServer, plugin_errors

ANY_NAME = "ann-benchmarks-tier"  # of groups that are not made
_PROCESS_BYTES = 256 * MB  # of a container at first, on top of what is to be available


class Sweep:
    """All tiers of a run, on servers of this machine."""

    def __init__(self, tiers: str, method: str, server: TieredServer, servers: Servers | None = None) -> None:
        """Take --tiers, how memory is held, the server that is given the tiers, and any beside it."""
        self._text, self._method, self._server = tiers, method, server
        self._servers = servers or ONE_SERVER
        self._holding: Holding | None = None

    def conditions(self, rows: int, dimension: int) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that cannot be had here."""
        tiers = parse_tiers(self._text, rows, dimension)
        if len(self._servers.numbers) > 1 and self._method == HUGE_PAGES:
            raise UserError(
                "huge pages hold back memory of the whole machine, and each server is to have its own: use"
                " --tier-method cgroup"
            )
        with plugin_errors():
            self._server.check(tiers)
            first, *_ = self._folders()
        check_capacity(tiers, self._method, self._servers)
        for tier in tiers:
            choose_limits(tier, self._method, first, ANY_NAME)
        return [SimulatedServer(tier, self._method) for tier in tiers]

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> None:
        """None: one server has the indexes of all."""

    def builder(self, job: Job) -> Worker:
        """Start a worker whose server leaves the memory to the build and to the system's cache."""
        return ProcessWorker(self._server.environment(None))

    @contextmanager
    def begun(self) -> Iterator[Callable[[Job], Worker]]:
        """Hold back what tiers do not have, until the end; the value starts a worker for a job."""
        with plugin_errors():
            folders = self._folders()
        with Holding(self._method, folders) as self._holding:
            yield partial(self._start, self._holding)

    def terms(self, job: Job) -> None:
        """Return None: tiers have no containers."""

    def trouble(self) -> str | None:
        """Say what went wrong since a tier was set."""
        return self._holding.trouble if self._holding else None

    def _folders(self) -> Sequence[Path]:
        return self._server.folders(self._servers.kind, self._servers.further)

    def _start(self, holding: Holding, job: Job) -> Worker:
        conditions = job.procedure.conditions
        if not isinstance(conditions, SimulatedServer):
            return ProcessWorker()
        tier = conditions.tier
        with plugin_errors():
            holding.apply(tier)
        server = replace(conditions, held=holding.facts, limits=holding.limits)
        return TierWorker(server, holding, self._server.environment(tier, holding.groups))


class TierWorker(ProcessWorker):
    """A process whose servers have what a tier has."""

    def __init__(self, server: SimulatedServer, holding: Holding, environment: Mapping[str, str]) -> None:
        """Start it when the tier is set, with the variables for a server of ours."""
        self._server, self._memory_of = server, holding.memory_of
        super().__init__(environment)

    def send(self, request: Any) -> None:
        """Hand over a job, with what is known of its tier now that it is set."""
        if isinstance(request, Enter):
            request = Enter(self._apply_conditions(request.request))
        elif isinstance(request, JobRequest):
            request = self._apply_conditions(request)
        super().send(request)

    def _apply_conditions(self, request: JobRequest) -> JobRequest:
        servers = request.job.definition.servers
        server = replace(self._server, memory=self._memory_of(servers.row_holders), queried=servers.queried)
        return replace(request, conditions=server)


class ContainerSweep:
    """All tiers of a run, in containers: Docker sets the limits, and a keeper corrects the memory's."""

    builder = None  # the terms of a container that builds say what is special about it

    def __init__(self, tiers: str, server: TieredServer) -> None:
        """Take the text of --tiers, and the server that is given the tiers."""
        self._text, self._server = tiers, server
        self._tiers: Sequence[Tier] = ()
        self._keepers: dict[str, Keeper | None] = {}  # of all containers that run; None: no limit to correct

    def conditions(self, rows: int, dimension: int) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that this machine cannot hold."""
        tiers = parse_tiers(self._text, rows, dimension)
        check_capacity(tiers, CONTAINER)
        with plugin_errors():
            for tier in tiers:
                self._server.environment(tier)  # refuses what it cannot give
        self._tiers = tiers
        return [SimulatedServer(tier, CONTAINER, OwnGroup(tier.shared_buffers)) for tier in tiers]

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> str | None:
        """Say which tiers the machine does not have for a container of each image at the same time."""
        images = len({definition.docker_tag for definition in definitions})
        available = available_memory()
        short = [tier for tier in self._tiers if images * (_memory_at_start(tier) or 0) > available]
        if not short or images == 1:
            return None
        return (
            f"{size_text(available)} of memory is too little for containers of {images} images at the same"
            f" time on {', '.join(map(str, short))}: indexes are measured one after the other, not in rounds;"
            " leave these tiers out, or add --local"
        )

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Nothing is held back of the machine: only the containers have limits."""
        yield

    def terms(self, job: Job) -> Terms:
        """Return what a job's container gets: what its tier has, or to build, all there is."""
        conditions = job.procedure.conditions
        if not isinstance(conditions, SimulatedServer):
            return Terms(environment=self._server.environment(None))
        tier = conditions.tier
        return Terms(
            _memory_at_start(tier),  # what its processes take on top of the tier's is seen later
            tier.cpus,
            self._server.environment(tier),
            partial(self._make_ready, tier),
            partial(self._keep, tier),
        )

    def trouble(self) -> str | None:
        """Say what went wrong with a limit."""
        errors = (keeper.error for keeper in self._keepers.values() if keeper is not None)
        return next(filter(None, errors), None)

    def _make_ready(self, tier: Tier, storage: Path) -> dict[str, Any]:
        """Take the files of a tier's server out of the cache, where others pay for them; limit the disk.

        Containers that take turns with it keep what they have in the cache.
        """
        drop_caches(storage, everything=not self._keepers)
        return {} if tier.limited_disk is None else disk_options(tier.limited_disk, storage)

    def _keep(self, tier: Tier, container: Any) -> Callable[[], None]:
        """Correct the limit while it runs, where the group can be seen: not through a virtual machine."""
        keeper = self._keepers[container.id] = _limit_keeper(container, tier)

        def end() -> None:
            if keeper is not None:
                keeper.stop()
            del self._keepers[container.id]

        return end


def _limit_keeper(container: Any, tier: Tier) -> Keeper | None:
    if tier.ram is None:
        return None
    from docker.errors import DockerException

    try:
        container.reload()
        place = find_place(MEMORY, pid=container.attrs["State"]["Pid"])
    except (DockerException, OSError, UserError):
        place = None  # it has just ended, or runs where its processes are not ours to see
    if place is None:
        return None

    def set_limit(size: int) -> None:
        container.update(mem_limit=size, memswap_limit=size)

    place = replace(place, buffers=tier.shared_buffers)
    return Keeper(partial(keep_limit, place, tier.ram, set_limit))


def _memory_at_start(tier: Tier) -> int | None:
    return None if tier.ram is None else min(tier.ram + _PROCESS_BYTES, memory_bytes())


def disk_options(disk: Disk, folder: Path) -> dict[str, Any]:
    """Return Docker's options for a disk; UserError where the folder is not on one."""
    device = f"/dev/{device_name(block_device(folder))}"
    if not Path(device).exists():
        raise UserError(
            f"{folder} is on a disk that has no name in /dev: limit it without containers (--local)"
        )
    return {
        f"device_{direction}_{name}": [{"Path": device, "Rate": value}]
        for direction in ("read", "write")
        for name, value in disk.limits.items()
        if value is not None
    }
