"""Results on tiers: what memory a result had, and the line that it belongs to."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ann_benchmarks.common.numbers import KIB
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.runs import Run, number


@dataclass(frozen=True)
class TierRun:
    """A result whose tier has an amount of memory; sizes in bytes.

    `name` is that of its line: the curve's without the memory. `ram` is None where the tier has all of the
    machine's, of which `available` was measured.
    """

    run: Run
    algorithm: str
    name: str
    clients: int
    method: str
    ram: int | None
    available: int | None
    shared_buffers: int | None
    index_size: float | None


def as_tier_run(run: Run) -> TierRun | None:
    """Return a result as one on a tier, None if it is none or its tier leaves the memory alone."""
    ram, measured, at_start, limit, buffers = (
        int(value) if (value := number(run, name)) and value > 0 else None
        for name in ("tier_ram", "tier_available", "tier_available_at_start", "container_memory_bytes",
                     "tier_shared_buffers")
    )  # fmt: skip
    available = measured or at_start or limit
    if not run.attrs.get("tier") or (ram is None and (buffers is None or available is None)):
        return None
    name = run.algorithm.removesuffix(str(run.attrs.get("tier_memory_series", "")))
    clients = number(run, "clients")
    method = str(run.attrs.get("tier_method") or "")
    index_size = run.metrics["indexsize"] * KIB
    return TierRun(
        run,
        algorithm_of(name, run, method),
        name,
        int(clients or 1),
        method,
        ram,
        available,
        buffers,
        index_size if index_size > 0 else None,
    )


def algorithm_of(name: str, run: Run, method: str) -> str:
    """Return the algorithm that a line's name begins with, before clients, CPUs, disk and method."""
    cpus, clients = number(run, "tier_cpus"), number(run, "clients")
    parts = [
        *([f"c{clients:.0f}"] if clients else []),
        *([f"{cpus:.0f}cpus"] if cpus else []),
        *([str(run.attrs["tier_disk"])] if run.attrs.get("tier_disk") else []),
        *([method] if method else []),
        "cold",
    ]
    return re.split(rf"-(?:{'|'.join(map(re.escape, parts))})(?=-|$)", name, maxsplit=1)[0]


def fastest(runs: Iterable[TierRun], target: float) -> list[TierRun]:
    """Return those that reach a recall, the fastest first."""
    reaching = [tier_run for tier_run in runs if qps_at_recall(tier_run.run.metrics, target) > 0]
    return sorted(reaching, key=lambda tier_run: -tier_run.run.metrics["qps"])


def whole_machine(runs: Iterable[TierRun]) -> int | None:
    """Return where tiers with all of the machine's RAM are drawn: the median of what was measured."""
    measured = [tier_run.available for tier_run in runs if tier_run.ram is None and tier_run.available]
    return round(median(measured)) if measured else None


def with_methods(runs: Sequence[TierRun]) -> list[tuple[str, TierRun]]:
    """Return each result with the label of its line, which names the method where one name has several.

    A result without a method, as where nothing had to be limited, belongs to the lines of all.
    """
    methods: dict[str, set[str]] = {}
    for tier_run in runs:
        methods.setdefault(tier_run.name, set()).update([tier_run.method] if tier_run.method else [])
    labelled = []
    for tier_run in runs:
        known = methods[tier_run.name]
        for method in [tier_run.method] if tier_run.method else sorted(known) or [""]:
            is_told = len(known) > 1
            labelled.append((f"{tier_run.name} ({method})" if is_told else tier_run.name, tier_run))
    return labelled
