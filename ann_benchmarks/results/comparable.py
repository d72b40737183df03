"""How a result was measured, apart from its index, and which results can be compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.fields.rows import SPECIAL
from ann_benchmarks.statistics.contests import Contest
from ann_benchmarks.statistics.speeds import Speed

from .at_recall import AtRecall, compete, speed_of_run
from .runs import Run, number

ONE_CLIENT = 1


def conditions(run: Run) -> str:
    """Return what the name of a curve adds to its algorithm: results with the same can be compared."""
    return run.series.conditions + ("-batch" if run.batch else "")


def clients(run: Run) -> int:
    """Return the number of clients; an algorithm's own process is one."""
    return run.series.clients or ONE_CLIENT


def is_usual(run: Run) -> bool:
    """Whether nothing but clients and memory is special: no rate, cold start, disk, CPUs or odd queries."""
    return run.series.is_plain_but_for(
        *("algorithm", "servers", "settings", "strategy", "clients", "environment", "batch"),
        *("tier_method", "tier_memory"),
    )


def comparable(runs: Iterable[Run]) -> list[Run]:
    """Return those that are special in nothing but clients and memory; where none is, all at no rate."""
    closed = [run for run in runs if not run.series.is_open]
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
    """Results under the same conditions, all of each algorithm, compared at a recall.

    `speed` may have more required of a result than the recall.
    """

    clients: int
    runs: Sequence[Run]
    target: float
    speed: Callable[[Run], Speed] = speed_of_run

    @cached_property
    def _outcome(self) -> tuple[Contest, dict[str, AtRecall]]:
        families: dict[str, list[Run]] = {}
        for run in self.runs:
            families.setdefault(run.series.family, []).append(run)
        return compete(families, self.target, self.speed)

    @property
    def contest(self) -> Contest:
        """The algorithms at the recall."""
        return self._outcome[0]

    @property
    def standings(self) -> dict[str, AtRecall]:
        """How each algorithm stands that reaches the recall, the fastest first."""
        return self._outcome[1]

    @property
    def fastest(self) -> dict[str, Run]:
        """The result that stands for each algorithm that reaches the recall, the fastest algorithm first."""
        return {name: one.run for name, one in self.standings.items()}

    @property
    def client_text(self) -> str:
        """Write the number of clients."""
        batch = " in batch mode" if self.runs[0].batch else ""
        return f"{self.clients} client{'s' * (self.clients > 1)}{batch}"

    @property
    def place_text(self) -> str:
        """Say on what tier it was and what else was special, nothing for the machine as it is."""
        run, series = self.runs[0], self.runs[0].series
        parts = series.words("tier")
        buffers = number(run, "tier_shared_buffers")
        if is_on_tier(run) and (buffers or ram(run) < float("inf")):
            much = "all memory" if ram(run) == float("inf") else f"{size_text(ram(run))} of available RAM"
            much += f" and shared_buffers of {size_text(buffers)}" if buffers else ""
            has_several = any(run.series.has_several_servers for run in self.runs)
            parts.append(f"with {much}" + " for each server" * has_several)
        parts += series.words(*SPECIAL)
        return "".join(f", {text}" for text in parts)


def shared_place(compared: Sequence[Comparison]) -> str | None:
    """Return what was special about all of the comparisons, None where they differ in it."""
    places = {one.place_text for one in compared}
    return places.pop() if len(places) == 1 else None


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
        reached = len(Comparison(clients(group[0]), group, target).fastest)
        families = len({run.series.family for run in group})
        return reached, families, not is_on_tier(group[0]), memory_of(group[0]), name

    chosen = []
    for number_of_clients in sorted({key[0] for key in groups}):
        items = [item for item in groups.items() if item[0][0] == number_of_clients]
        (_, group) = max(items, key=worth)
        chosen.append(Comparison(number_of_clients, group, target))
    return chosen


def least_memory(runs: Iterable[Run], target: float, compared: Comparison) -> Comparison | None:
    """Return the same comparison with the least available RAM that was tried of all that had any less.

    None without a tier that has less of it than the comparison, or with a single algorithm there.
    """
    groups: dict[str, list[Run]] = {}
    first = compared.runs[0]
    for run in comparable(runs):
        is_alike = (clients(run), run.series.special) == (compared.clients, first.series.special)
        if is_alike and ram(run) < ram(first):
            groups.setdefault(conditions(run), []).append(run)
    by_memory = sorted(groups.values(), key=lambda group: memory_of(group[0]))
    names = {run.series.family for group in by_memory for run in group} & compared.fastest.keys()
    found = (Comparison(compared.clients, group, target) for group in by_memory)
    is_contested = len(names) > 1 or len(compared.fastest) == 1
    return next((one for one in found if is_contested and one.fastest.keys() >= names), None)
