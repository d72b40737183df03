"""The servers of results, simulated or as they are, and what an instance needs to match one."""

from dataclasses import dataclass

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, UNKNOWN, plain_number, size_text
from ann_benchmarks.results.comparable import is_on_tier
from ann_benchmarks.results.measurement import EXACT_SEARCH
from ann_benchmarks.results.runs import Run, number

from .prices import Capacity

STORAGE_MARGIN = 0.5  # of the table and the index, for the write-ahead log, temporary files and a rebuild
_EXTERNAL = "external"


@dataclass(frozen=True)
class MeasuredServer:
    """A server: its name, and CPUs, bytes of memory and the limits of its disk as far as they are known."""

    name: str
    is_simulated: bool
    cpus: int | None = None
    memory: int | None = None
    iops: int | None = None
    bandwidth: int | None = None
    processor: str = ""

    @property
    def disk(self) -> str:
        """The limits of its disk; a dash for one that is as fast as the machine's."""
        limits = [] if self.iops is None else [f"{self.iops:,} IOPS"]
        if self.bandwidth is not None:
            limits.append(f"{plain_number(self.bandwidth / 1e6)} MB/s")
        return ", ".join(limits) or UNKNOWN


def measured_server(run: Run) -> MeasuredServer:
    """Return the server of a result. What its tier does not limit is the machine's, or its container's."""
    is_external = run.attrs.get("server") == _EXTERNAL  # the machine's facts are then those of the clients
    cpus, memory = (
        _whole(run, *names[: 1 if is_external else None])
        for names in (("tier_cpus", "cores"), ("tier_ram", "container_memory_bytes", "memory_bytes"))
    )
    processor = "" if is_external else str(run.attrs.get("cpu", ""))
    if is_on_tier(run):
        name = f"tier {run.attrs['tier']}"
        return MeasuredServer(
            name, True, cpus, memory, _whole(run, "tier_iops"), _whole(run, "tier_bandwidth"), processor
        )
    name = "a server of one's own" if is_external else "the machine as it is"
    return MeasuredServer(name, False, cpus, memory, processor=processor)


def needed_capacity(run: Run) -> Capacity:
    """Return what an instance needs to match the server of a result; UserError says what is not known.

    The storage is the table, the index and `STORAGE_MARGIN` of both.
    """
    server = measured_server(run)
    is_exact = bool(run.attrs.get(EXACT_SEARCH)) and number(run, "index_size") is not None
    index, table = number(run, "index_size") or 0, number(run, "table_size") or 0  # KiB
    for is_so, problem in (
        (run.series.has_several_servers, "several servers have answered, and an instance is one"),
        (server.cpus is None, "the number of its CPUs is not known"),
        (server.memory is None, "its memory is not known"),
        (index < 0 or (index == 0 and not is_exact), "the size of its index is not known"),
        (table <= 0, "the size of its table is not known"),
    ):
        if is_so:
            raise UserError(problem)
    assert server.cpus is not None and server.memory is not None
    storage = round((index + table) * KIB * (1 + STORAGE_MARGIN))
    return Capacity(server.cpus, server.memory, storage, server.iops, server.bandwidth)


def capacity_text(server: MeasuredServer) -> str:
    """Write what a server has."""
    cpus = "CPUs unknown" if server.cpus is None else f"{server.cpus} CPU{'s' * (server.cpus > 1)}"
    memory = "memory unknown" if server.memory is None else size_text(server.memory)
    return ", ".join([cpus, memory, *([] if server.disk == UNKNOWN else [server.disk])])


def _whole(run: Run, *names: str) -> int | None:
    """Return the first of these attributes that is a positive number, as a whole one."""
    found = (number(run, name) for name in names)
    return next((int(value) for value in found if value is not None and value >= 1), None)
