"""What it costs to ask several servers: pictures over the number of shards, and a table beside one server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import UNKNOWN, counted, figure_text, percent_text, share_text, size_text
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.points import Point
from ann_benchmarks.results.at_recall import (
    LOWER_BOUND,
    AtRecall,
    at_recall,
    of_latencies,
    ratio_of_throughputs,
)
from ann_benchmarks.results.comparable import is_on_tier, ram
from ann_benchmarks.results.judging import ERROR_RATE
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.runs import Run, interval, number

from .content import Shown, known_table
from .document import Block, Paragraph, Picture
from .ratio_words import notes_on, speedup_text

ONE_SERVER = "one server"
NOT_REACHED = "not reached"
PICTURES = {"qps": "up is better", "p50": "down is better"}
LATENCIES = ("p50", "p99")
CPU = {"Server CPU": "server_cpu_seconds_per_query", "Coordinator CPU": "coordinator_cpu_seconds_per_query"}


class Sharding(NamedTuple):
    """The number of shards, 0 without, their engine, and how many of them a query asks, 0 for all.

    `ram` is that of each server in bytes, on a tier; 0 off tiers, infinity where it is all of the machine's.
    """

    shards: int
    engine: str
    probes: int
    ram: float = 0.0

    @property
    def line(self) -> str:
        """Name what a line over the number of shards is of."""
        probes = f", {counted(self.probes, 'probe')}" if self.probes else ""
        ram = f", {self.memory} each" if self.ram else ""
        return (f"{self.engine}{probes}" if self.shards else ONE_SERVER) + ram

    @property
    def memory(self) -> str:
        """Write the RAM of each server."""
        if not self.ram:
            return UNKNOWN
        return "all memory" if self.ram == float("inf") else size_text(int(self.ram))


@dataclass(frozen=True)
class Sharded:
    """A curve's results at a recall, by where and how they were measured; `name` is without that.

    `short` has the result with the highest recall of each place where none reaches it.
    """

    name: str
    at: Mapping[Sharding, AtRecall]
    short: Mapping[Sharding, Run]

    @property
    def whole(self) -> AtRecall | None:
        """What one server without shards does, that with the most RAM; None where it was not measured."""
        alone = [place for place in self.at if not place.shards]
        return self.at[max(alone, key=lambda place: place.ram)] if alone else None

    def result(self, place: Sharding) -> Run:
        """Return the result next to the recall."""
        return self.at[place].run if place in self.at else self.short[place]


def sharded(shown: Shown, is_reached: bool = False) -> list[Sharded]:
    """Return the curves that have results on shards; UserError where there is none.

    With `is_reached`, one of these results has to reach the recall.
    """
    groups: dict[str, dict[Sharding, list[Run]]] = {}
    for run in shown.runs:
        if not run.series.is_open:
            series = run.series
            memory = ram(run) if is_on_tier(run) else 0.0
            place = Sharding(series.shards or 0, series.shard_engine, series.shard_probes or 0, memory)
            name = series.without("shards", "shard_engine", "shard_probes", "tier_memory").label
            groups.setdefault(name, {}).setdefault(place, []).append(run)
    found = []
    for name, places in sorted(groups.items()):
        at = dict(sorted(at_recall(places, shown.target).items()))
        if any(place.shards for place in (at if is_reached else places)):
            short = {place: _highest(runs) for place, runs in places.items() if place not in at}
            found.append(Sharded(name, at, short))
    if not found:
        raise UserError(
            f"no result on shards reaches a recall of {shown.target:g}"
            if is_reached
            else "there is no result on shards"
        )
    return found


def shard_pictures(shown: Shown) -> list[Block]:
    """Draw throughput and median latency over the number of shards, a line for each engine."""
    curves = sharded(shown, is_reached=True)
    blocks: list[Block] = []
    for metric, direction in PICTURES.items():
        lines: dict[str, list[Point]] = {}
        kinds: dict[str, tuple[str, str]] = {}
        for curve in curves:
            counts = sorted({place.shards for place in curve.at if place.shards})
            for place, at in curve.at.items():
                # One server is a level to compare with.
                name = f"{curve.name}, {place.line}"
                kinds[name] = place.line, curve.name
                lines.setdefault(name, []).extend(
                    _point(metric, at, x) for x in ([place.shards] if place.shards else counts)
                )
        path = shown.file("shards" if metric == "qps" else f"shards-{metric}")
        plot = LinePlot("Shards", all_metrics[metric].description, "", "", shown.title, direction)
        draw_lines(lines, path, plot, kinds=kinds)
        caption = f"{all_metrics[metric].description} by number of shards, at a recall of {shown.target:g}"
        caption += "" if metric == "qps" else ", of the result next to it"
        blocks.append(Picture(path.name, f"{caption}; {ONE_SERVER} has all rows."))
    return blocks


def shard_table(shown: Shown) -> list[Block]:
    """Return for each curve how it does on shards, and the throughput over that of one server."""
    blocks: list[Block] = []
    for curve in sharded(shown):
        found = list(curve.at.values())
        rate = ERROR_RATE / max(len(found) - 1, 1)
        whole = curve.whole
        ratios = {
            i: ratio_of_throughputs(at, whole, rate)
            for i, at in enumerate(found)
            if whole is not None and at is not whole
        }
        qps = {place: f"{LOWER_BOUND * at.is_bound}{figure_text(at.qps)}" for place, at in curve.at.items()}
        compared = {
            place: speedup_text(ratios[i], at.is_bound, whole.is_bound)
            for i, (place, at) in enumerate(curve.at.items())
            if whole is not None and i in ratios
        }
        places = sorted({*curve.at, *curve.short})
        runs = [curve.result(place) for place in places]
        columns = {
            "Shards": [str(place.shards) if place.shards else ONE_SERVER for place in places],
            "Engine": [place.engine or UNKNOWN for place in places],
            "RAM of each": [place.memory for place in places],
            "Probes": [str(place.probes) if place.probes else UNKNOWN for place in places],
            "Rows searched": [_share(run) for run in runs],
            "Rows of a shard": [_sizes(run) for run in runs],
            "Recall": [share_text(run.metrics["recall"]) for run in runs],
            all_metrics[QPS_AT_RECALL].title: [qps.get(place, NOT_REACHED) for place in places],
            f"QPS / {ONE_SERVER}": [compared.get(place, UNKNOWN) for place in places],
        }
        for name in LATENCIES:
            metric = all_metrics[name]
            columns[metric.title] = [metric.write(run.metrics[name]) for run in runs]
        for title, attribute in CPU.items():
            columns[f"{title} (ms/query)"] = [_milliseconds(run, attribute) for run in runs]
        caption = f"{curve.name} on several servers, at a recall of {shown.target:g}"
        blocks.append(known_table(columns, caption, frozenset({"Shards", "Engine"})))
        notes = [
            *([_MOST_RAM] if len({place.ram for place in curve.at}) > 1 else []),
            *(notes_on(ratios, [at.run for at in found], whole.run) if whole else ()),
            *of_latencies(found),
        ]
        blocks += [Paragraph(text, is_note=True) for text in notes]
    return [*blocks, Paragraph(_ON_ONE_MACHINE, is_note=True)]


_MOST_RAM = (
    f"The ratios are to {ONE_SERVER} with the most RAM. All shards together have their number times that of"
    " each."
)
_ON_ONE_MACHINE = (
    "Servers of one machine share its CPUs. The ratios are then what it costs to ask several servers, and not"
    " what several machines would answer."
)


def _highest(runs: Sequence[Run]) -> Run:
    return max(runs, key=lambda run: run.metrics["recall"])


def _share(run: Run) -> str:
    share = number(run, "searched_rows_share")
    return percent_text(share) if share else UNKNOWN


def _sizes(run: Run) -> str:
    """Write how many rows the smallest and the largest shard have, where that differs much."""
    sizes = run.attrs.get("shard_rows")
    if run.series.shard_probes is None or not isinstance(sizes, list) or not sizes:
        return UNKNOWN
    return f"{min(sizes):,.0f} to {max(sizes):,.0f}"


def _point(metric: str, at: AtRecall, x: int) -> Point:
    if metric == "qps":
        return Point(x, at.qps, None, at.interval)
    return Point(x, at.run.metrics[metric], None, interval(at.run, metric))


def _milliseconds(run: Run, attribute: str) -> str:
    seconds = number(run, attribute)
    return figure_text(1e3 * seconds) if seconds else UNKNOWN
