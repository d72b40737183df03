"""What shards, replicas and poolers change beside one server: a table, and lines over their number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import UNKNOWN, figure_text, share_text, size_text
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.at_recall import (
    LOWER_BOUND,
    AtRecall,
    find_at_recall,
    latency_notes,
    ratio_of_throughputs,
)
from ann_benchmarks.results.comparable import is_on_tier, ram
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.runs import Run, number
from ann_benchmarks.statistics.differences import ERROR_RATE

from .parts import Part, known_table, notes_on, speedup_text
from .points import Point, point_at

ONE_SERVER = "one server"
NOT_REACHED = "not reached"
LATENCIES = ("p50", "p99")
CPU = ("server", "coordinator", "pooler")
MOST_RAM = (
    f"The ratios are to {ONE_SERVER} with the most RAM. Several servers together have their number times that"
    " of each."
)
ONE_MACHINE = (
    "Servers of one machine share its CPUs. The ratios are then what it costs to ask several servers, and not"
    " what several machines would answer."
)


@dataclass(frozen=True)
class ServerPlace:
    """What answered, as a series of its server fields, and the RAM of each server in bytes.

    `ram` is 0 off tiers, and infinity where it is all of the machine's.
    """

    servers: Series
    ram: float

    @property
    def count(self) -> int:
        """The number of shards or replicas, 0 without."""
        return self.servers.shards or self.servers.replicas or 0

    @property
    def is_alone(self) -> bool:
        """Whether one server has answered without anything in front of it."""
        return self.servers == Series("")

    @property
    def name(self) -> str:
        """Name the servers."""
        return ", ".join(self.servers.words("servers")) or ONE_SERVER

    @property
    def line(self) -> str:
        """Name what a line over the number of servers is of."""
        kind = ", ".join(self.servers.drop("shards", "replicas").words("servers"))
        memory = f", {self.memory} each" if self.ram else ""
        return (kind or ("replicas" if self.count else ONE_SERVER)) + memory

    @property
    def memory(self) -> str:
        """Write the RAM of each server."""
        if not self.ram:
            return UNKNOWN
        return "all memory" if self.ram == float("inf") else size_text(int(self.ram))

    @property
    def order(self) -> tuple[bool, int, str, float]:
        """What places are sorted by: one server comes first."""
        return not self.is_alone, self.count, self.name, self.ram


@dataclass(frozen=True)
class OnServers:
    """A curve's results at a recall, by where they were measured; `name` is without that.

    `short` has the result with the highest recall of each place where none reaches it.
    """

    name: str
    at: Mapping[ServerPlace, AtRecall]
    short: Mapping[ServerPlace, Run]

    @property
    def whole(self) -> AtRecall | None:
        """What one server alone does, that with the most RAM; None where it was not measured."""
        alone = [place for place in self.at if place.is_alone]
        return self.at[max(alone, key=lambda place: place.ram)] if alone else None


def curves_on_servers(runs: Iterable[Run], target: float) -> list[OnServers]:
    """Return the curves that have results on more than one server; UserError without any."""
    groups: dict[str, dict[ServerPlace, list[Run]]] = {}
    for run in runs:
        if not run.series.is_open:
            place = ServerPlace(run.series.only("servers"), ram(run) if is_on_tier(run) else 0.0)
            name = run.series.drop("servers", "tier_memory").label
            groups.setdefault(name, {}).setdefault(place, []).append(run)
    found = []
    for name, places in sorted(groups.items()):
        if not all(place.is_alone for place in places):
            at = dict(sorted(find_at_recall(places, target).items(), key=lambda item: item[0].order))
            short = {
                place: max(group, key=lambda run: run.metrics["recall"])
                for place, group in places.items()
                if place not in at
            }
            found.append(OnServers(name, at, short))
    if not found:
        raise UserError("no result is on shards, on replicas or through a pooler")
    return found


def server_lines(
    runs: Iterable[Run], target: float, metric: str
) -> tuple[dict[str, list[Point]], dict[str, str]]:
    """Return lines over the number of servers by their names, and the kind of servers of each.

    One server is a level to compare with.
    """
    lines: dict[str, list[Point]] = {}
    kinds: dict[str, str] = {}
    for curve in curves_on_servers(runs, target):
        counts = sorted({place.count for place in curve.at if place.count})
        for place, at in curve.at.items() if counts else ():
            name = f"{curve.name}, {place.line}"
            kinds[name] = place.line
            points = lines.setdefault(name, [])
            points += [point_at(at, metric, x) for x in ([place.count] if place.count else counts)]
    if not lines:
        raise UserError(f"no result on several servers reaches a recall of {target:g}")
    return lines, kinds


def server_tables(runs: Iterable[Run], target: float) -> list[Part]:
    """Return for each curve how it does on its servers, and the throughput over that of one server."""
    parts: list[Part] = []
    for curve in curves_on_servers(runs, target):
        at, whole = curve.at, curve.whole
        results = {**{place: one.run for place, one in at.items()}, **curve.short}
        places = sorted(results, key=lambda place: place.order)
        shown = [results[place] for place in places]
        rate = ERROR_RATE / max(len(at) - 1, 1)
        ratios = {
            i: ratio_of_throughputs(at[place], whole, rate)
            for i, place in enumerate(places)
            if whole and place in at and at[place] is not whole
        }
        qps = {place: f"{LOWER_BOUND * one.is_bound}{figure_text(one.qps)}" for place, one in at.items()}
        compared = [
            speedup_text(ratios[i], at[place].is_bound, whole.is_bound) if whole and i in ratios else UNKNOWN
            for i, place in enumerate(places)
        ]
        columns = {
            "Servers": [place.name for place in places],
            "RAM of each": [place.memory for place in places],
            "Recall": [share_text(run.metrics["recall"]) for run in shown],
            all_metrics[QPS_AT_RECALL].title: [qps.get(place, NOT_REACHED) for place in places],
            f"QPS / {ONE_SERVER}": compared,
        }
        for name in LATENCIES:
            metric = all_metrics[name]
            columns[metric.title] = [metric.write(run.metrics[name]) for run in shown]
        for name in CPU:
            columns[f"{name.capitalize()} CPU (ms/query)"] = [cpu_text(run, name) for run in shown]
        caption = f"{curve.name} on several servers, at a recall of {target:g}"
        parts.append(known_table(columns, caption, frozenset({"Servers"})))
        parts += [MOST_RAM] if len({place.ram for place in at}) > 1 else []
        parts += notes_on(ratios, shown, whole.run) if whole else ()
        parts += latency_notes(at.values())
    return [*parts, ONE_MACHINE]


def cpu_text(run: Run, name: str) -> str:
    """Write the CPU time of a query."""
    seconds = number(run, f"{name}_cpu_seconds_per_query")
    return figure_text(1e3 * seconds) if seconds else UNKNOWN
