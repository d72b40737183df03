"""Tiers of servers in containers: Docker sets the limits, and a keeper corrects that of the memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import memory_bytes
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Job

from .control_groups import MEMORY, find_place
from .disk import block_device, device_name, drop_caches
from .keeper import Keeper, keep_limit
from .memory import MIB, ControlGroup, readable
from .parse import available_memory, check_capacity, parse_tiers
from .sweep import SweepConsole, TieredServer, plugin_errors
from .tier import CONTAINER, Disk, SimulatedServer, Tier

_FOR_PROCESSES = 256 * MIB  # at first, on top of what is to be available


@dataclass(frozen=True)
class OwnGroup:
    """The memory that this process's own group leaves it: of a container, from inside."""

    def available(self) -> int:
        """Bytes; OSError where the groups cannot be seen."""
        place = find_place(MEMORY)
        if place is None:
            raise OSError("no control group of the memory can be seen")
        return ControlGroup(place.own, place.version).available()

    def kills(self) -> int:
        """0: the engine says of a container whether its memory was used up."""
        return 0


class ContainerSweep:
    """All tiers of a run, on servers in containers."""

    builder = None  # the terms of a container that builds say what is special about it

    def __init__(self, tiers: str, server: TieredServer) -> None:
        """Take the text of --tiers, and the server that is given the tiers."""
        self._text, self._server = tiers, server
        self._tiers: Sequence[Tier] = ()
        self._keepers: dict[str, Keeper | None] = {}

    def conditions(self, rows: int, dimension: int) -> Sequence[SimulatedServer]:
        """Return the tiers, largest memory first; UserError for those that this machine cannot hold."""
        tiers = parse_tiers(self._text, rows, dimension)
        check_capacity(tiers, CONTAINER)
        with plugin_errors():
            for tier in tiers:
                self._server.environment(tier)  # refuses what it cannot give
        self._tiers = tiers
        return [SimulatedServer(tier, CONTAINER, OwnGroup()) for tier in tiers]

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> str | None:
        """Say which tiers the machine does not have for a container of each image at the same time."""
        images = len({definition.docker_tag for definition in definitions})
        available = available_memory()
        short = [tier for tier in self._tiers if images * (_memory_at_start(tier) or 0) > available]
        if not short or images == 1:
            return None
        return (
            f"{readable(available)} of memory is too little for containers of {images} images at the same"
            f" time on {', '.join(map(str, short))}: indexes are measured one after the other, not in rounds;"
            " leave these tiers out, or add --local"
        )

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Nothing is held back of the machine: what has limits are the containers."""
        yield

    def terms(self, job: Job) -> "ContainerTerms":
        """Return what a job's container gets."""
        conditions = job.procedure.conditions
        tier = conditions.tier if isinstance(conditions, SimulatedServer) else None
        environment = self._server.environment(tier)
        return ContainerTerms(tier or Tier(), environment, self._keepers, is_build=tier is None)

    def observer(self, jobs: Sequence[Job]) -> SweepConsole:
        """Return what shows the tier that is begun, and an estimate of the time left."""
        return SweepConsole(jobs, self._trouble)

    def _trouble(self) -> str | None:
        errors = (keeper.error for keeper in self._keepers.values() if keeper is not None)
        return next(filter(None, errors), None)


@dataclass(frozen=True)
class ContainerTerms:
    """Of a container whose server has what a tier has, or of one that builds, with all there is."""

    tier: Tier
    environment: Mapping[str, str]  # the settings of its server
    keepers: dict[str, Keeper | None]  # of all containers that run, by their ids; None: no limit to correct
    is_build: bool = False

    @property
    def memory(self) -> int | None:
        """Bytes at its start; what its processes take on top of the tier's memory is seen later."""
        return _memory_at_start(self.tier)

    @property
    def cpus(self) -> int | None:
        """How many."""
        return self.tier.cpus

    def options(self, storage: Path) -> dict[str, Any]:
        """Take the files of a tier's server out of the cache, where others pay for them; limit the disk.

        Containers that take turns with it keep what they have in the cache.
        """
        if not self.is_build:
            drop_caches(storage, everything=not self.keepers)
        disk = self.tier.limited_disk
        return {} if disk is None else _disk_options(disk, storage)

    def keep(self, container: Any) -> Callable[[], None]:
        """Correct the limit while it runs, where the group can be seen: not through a virtual machine."""
        keeper = self.keepers[container.id] = self._keeper(container)

        def end() -> None:
            if keeper is not None:
                keeper.stop()
            del self.keepers[container.id]

        return end

    def _keeper(self, container: Any) -> Keeper | None:
        if self.tier.ram is None:
            return None
        from docker.errors import DockerException

        try:
            container.reload()
            place = find_place(MEMORY, pid=container.attrs["State"]["Pid"])
        except (DockerException, OSError):
            place = None  # it has just ended, or runs where its processes are not ours to see
        if place is None:
            return None

        def set_limit(size: int) -> None:
            container.update(mem_limit=size, memswap_limit=size)

        group = ControlGroup(place.own, place.version)
        return Keeper(partial(keep_limit, group, self.tier.ram, set_limit))


def _memory_at_start(tier: Tier) -> int | None:
    return None if tier.ram is None else min(tier.ram + _FOR_PROCESSES, memory_bytes())


def _disk_options(disk: Disk, folder: Path) -> dict[str, Any]:
    """Docker's options for a disk; UserError where the folder is on none."""
    device = f"/dev/{device_name(block_device(folder))}"
    if not Path(device).exists():
        raise UserError(
            f"{folder} is on a disk that has no name in /dev: limit it without containers (--local)"
        )
    limits = {"bps": disk.bandwidth, "iops": disk.iops}
    return {
        f"device_{direction}_{name}": [{"Path": device, "Rate": value}]
        for direction in ("read", "write")
        for name, value in limits.items()
        if value is not None
    }
