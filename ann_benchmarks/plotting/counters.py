"""Which counters of the machine and the server the dashboard shows, and which of them share a panel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.common.text import from_json
from ann_benchmarks.monitoring import Monitored

WAITS = ("cpu", "io", "lwlock", "lock", "client", "other")


@dataclass(frozen=True)
class Trace:
    """One curve of a panel: the counter, and its name in the legend."""

    column: str
    label: str


@dataclass(frozen=True)
class Panel:
    """One of the small pictures, all with the same time axis."""

    title: str
    lines: Sequence[Trace]
    unit: str  # "bytes", "bytes/s", "%" or that of what is counted
    top: float | None = None
    is_logarithmic: bool = False


def panels_of(monitored: Monitored) -> list[Panel]:
    """Choose what to show of what there is."""
    columns = monitored.columns

    def lines(*possible: tuple[str, str]) -> list[Trace]:
        return [Trace(column, label) for column, label in possible if column in columns]

    where = " (of the whole host)" if monitored.attrs.get("in_container") else ""
    disks = {name.split(".")[1] for name in columns if name.startswith("disk.")}
    of_disks = [
        (f"disk.{disk}.{kind}_bytes", f"{disk} {kind}s")
        for disk in sorted(disks, key=disk_order(columns))[:3]
        for kind in ("read", "write")
    ]
    others: dict[str, list[tuple[str, str]]] = {}
    for name, title in from_json(monitored.attrs.get("panels"), dict[str, str]()).items():
        others.setdefault(str(title).replace("$", r"\$"), []).append(
            (name, name.partition(".")[2].replace("_", " "))
        )
    sessions = [(f"postgresql.{wait}_sessions", wait if wait != "cpu" else "on a CPU") for wait in WAITS]
    return [
        Panel(
            f"CPU{where}",
            lines(("machine.cpu_percent", "all cores"), ("machine.busiest_core_percent", "busiest core"),
                  ("machine.iowait_percent", "waiting for disks"), ("machine.steal_percent", "stolen")),
            "%", 100,
        ),
        Panel(
            f"memory{where}",
            lines(("machine.memory_used_bytes", "used"), ("machine.page_cache_bytes", "page cache"),
                  ("machine.memory_shared_bytes", "shared, as buffers")),
            "bytes",
        ),
        Panel(f"disks{where}", lines(*of_disks), "bytes/s"),
        Panel(
            "network of the container" if where else "network",
            lines(("network.received_bytes", "received"), ("network.sent_bytes", "sent")),
            "bytes/s",
        ),
        Panel(
            "PostgreSQL: blocks",
            lines(("postgresql.blocks_hit", "hit"), ("postgresql.blocks_read", "read"),
                  ("postgresql.io_writes", "written"), ("postgresql.io_extends", "added")),
            "1/s", is_logarithmic=True,
        ),
        Panel(
            "PostgreSQL: log and checkpoints",
            lines(("postgresql.wal_bytes", "log"), ("postgresql.checkpoint_bytes", "checkpoints")),
            "bytes/s",
        ),
        Panel("PostgreSQL: sessions, by what they wait for", lines(*sessions), "sessions"),
        *(
            Panel(title, lines(*named), monitored.units.get(named[0][0], ""))
            for title, named in others.items()
        ),
    ]  # fmt: skip


def disk_order(columns: Mapping[str, np.ndarray]) -> Callable[[str], float]:
    """Return the key that sorts disks, the one with the most bytes first."""

    def key(disk: str) -> float:
        kinds = (columns.get(f"disk.{disk}.{kind}_bytes", np.zeros(1)) for kind in ("read", "write"))
        return -float(sum(np.nansum(kind) for kind in kinds))

    return key
