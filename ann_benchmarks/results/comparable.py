"""What a result was measured with, beside the index: the end of its curve's name, and what to compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.numbers import size_text

from .metrics import qps_at_recall
from .runs import Run, number
from .tiers import algorithm_of

ONE_CLIENT = 1
USUAL_ORDER = "shuffled"


def without_memory(run: Run) -> str:
    """Return the name of a curve without the memory of its tier."""
    return run.algorithm.removesuffix(str(run.attrs.get("tier_memory_series", "")))


def family(run: Run) -> str:
    """Return the algorithm of a curve: its name before clients and tier."""
    return algorithm_of(without_memory(run), run, str(run.attrs.get("tier_method") or ""))


def conditions(run: Run) -> str:
    """Return what the name of a curve adds to its algorithm: results with the same can be compared."""
    return run.algorithm.removeprefix(family(run)) + ("-batch" if run.batch else "")


def clients(run: Run) -> int:
    """Return how many clients asked; one process that asks by itself is one."""
    return int(number(run, "clients") or ONE_CLIENT)


def is_open(run: Run) -> bool:
    """Whether the throughput was given, and is none of the index's."""
    return run.attrs.get("loop") == "open"


def is_cold(run: Run) -> bool:
    """Whether each run began with cold caches."""
    return "caches_dropped" in run.attrs or run.algorithm.endswith("-cold") or "-cold-" in run.algorithm


def is_usual(run: Run) -> bool:
    """Whether nothing but clients and memory is special: no rate, cold start, disk, CPUs or odd queries."""
    special = ("tier_cpus", "tier_disk", "distinct_queries")
    return (
        not is_open(run)
        and not is_cold(run)
        and not any(run.attrs.get(name) for name in special)
        and str(run.attrs.get("query_order", USUAL_ORDER)) == USUAL_ORDER
        and str(run.attrs.get("driver", "own")) == "own"
    )


def comparable(runs: Iterable[Run]) -> list[Run]:
    """Return those that are special in nothing but clients and memory; where none is, all at no rate."""
    closed = [run for run in runs if not is_open(run)]
    return [run for run in closed if is_usual(run)] or closed


def is_on_tier(run: Run) -> bool:
    """Whether a server with less of something was simulated."""
    return bool(run.attrs.get("tier"))


def ram(run: Run) -> float:
    """Return the available RAM in bytes, infinity for all of the machine's."""
    return number(run, "tier_ram") or float("inf")


def memory_of(run: Run) -> tuple[float, float]:
    """Return available RAM and shared_buffers in bytes, to choose the tier with the most."""
    return ram(run), number(run, "tier_shared_buffers") or 0.0


@dataclass(frozen=True)
class Comparison:
    """Results under the same conditions: of each algorithm all of them, and the fastest at a recall."""

    clients: int
    runs: Sequence[Run]
    fastest: dict[str, Run]  # the fastest algorithm first

    @property
    def who_asks(self) -> str:
        """Say how many clients asked."""
        batch = " in batch mode" if self.runs[0].batch else ""
        return f"{self.clients} client{'s' * (self.clients > 1)}{batch}"

    @property
    def where(self) -> str:
        """Say on what tier it was and what else was special, nothing for the machine as it is."""
        run = self.runs[0]
        told = []
        if cpus := number(run, "tier_cpus"):
            told.append(f"with {cpus:g} CPUs")
        if disk := run.attrs.get("tier_disk"):
            told.append(f"on the disk {disk}")
        buffers = number(run, "tier_shared_buffers")
        if is_on_tier(run) and (buffers or ram(run) < float("inf")):
            much = "all memory" if ram(run) == float("inf") else f"{size_text(ram(run))} of available RAM"
            told.append(f"with {much}" + (f" and shared_buffers of {size_text(buffers)}" if buffers else ""))
        if (order := str(run.attrs.get("query_order", USUAL_ORDER))) != USUAL_ORDER:
            told.append(f"queries in the order {order}")
        if distinct := number(run, "distinct_queries"):
            told.append(f"asked {distinct:,.0f} different queries")
        if is_cold(run):
            told.append("with cold caches")
        return "".join(f", {text}" for text in told)


def comparisons(runs: Iterable[Run], target: float) -> list[Comparison]:
    """Return for each number of clients, ascending, the conditions under which to compare algorithms.

    Where several are possible, they are those of most algorithms, with the most memory; the machine as it
    is goes before any tier. Only where nothing else was measured may more than that be special.
    """
    groups: dict[tuple[int, str], list[Run]] = {}
    for run in comparable(runs):
        groups.setdefault((clients(run), conditions(run)), []).append(run)

    def worth(item: tuple[tuple[int, str], list[Run]]) -> tuple[Any, ...]:
        (_, name), group = item
        reached = len(fastest_of_each(group, target))
        families = len({family(run) for run in group})
        return reached, families, not is_on_tier(group[0]), memory_of(group[0]), name

    chosen = []
    for number_of_clients in sorted({key[0] for key in groups}):
        items = [item for item in groups.items() if item[0][0] == number_of_clients]
        (_, group) = max(items, key=worth)
        chosen.append(Comparison(number_of_clients, group, fastest_of_each(group, target)))
    return chosen


def with_least_memory(runs: Iterable[Run], target: float, compared: Comparison) -> Comparison | None:
    """Return the same comparison with the least available RAM that was tried of all of its algorithms.

    None where there is no tier with less of it than the comparison has.
    """
    groups: dict[str, list[Run]] = {}
    for run in comparable(runs):
        if clients(run) == compared.clients and ram(run) < ram(compared.runs[0]):
            groups.setdefault(conditions(run), []).append(run)
    by_memory = sorted(groups.values(), key=lambda group: memory_of(group[0]))
    fastest = ((group, fastest_of_each(group, target)) for group in by_memory)
    whole = ((group, found) for group, found in fastest if found.keys() >= compared.fastest.keys())
    return next((Comparison(compared.clients, group, found) for group, found in whole), None)


def fastest_of_each(runs: Iterable[Run], target: float) -> dict[str, Run]:
    """Return the fastest result of each algorithm that reaches a recall, the fastest algorithm first."""
    fastest: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: -run.metrics["qps"]):
        if qps_at_recall(run.metrics, target) > 0:
            fastest.setdefault(family(run), run)
    return fastest
