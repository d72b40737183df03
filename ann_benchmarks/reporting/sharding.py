"""What it costs to ask several servers: pictures over the number of shards, and a table beside one server."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import UNKNOWN, figure_text, share_text
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.points import Point
from ann_benchmarks.results.at_recall import (
    LOWER_BOUND,
    AtRecall,
    at_recall,
    of_latencies,
    ratio_of_throughputs,
)
from ann_benchmarks.results.comparable import is_open
from ann_benchmarks.results.judging import ERROR_RATE
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics
from ann_benchmarks.results.runs import Run, interval, number

from .content import Shown, known_table
from .document import Block, Paragraph, Picture
from .ratio_words import notes_on, speedup_text

ONE_SERVER = "one server"
PICTURES = {"qps": "up is better", "p50": "down is better"}
LATENCIES = ("p50", "p99")
CPU = {"Server CPU": "server_cpu_seconds_per_query", "Coordinator CPU": "coordinator_cpu_seconds_per_query"}

Place = tuple[int, str]  # number of shards, 0 without, and their engine


@dataclass(frozen=True)
class Sharded:
    """A curve's results at a recall, by the number of shards and the engine; `name` is without these."""

    name: str
    at: Mapping[Place, AtRecall]

    @property
    def whole(self) -> AtRecall | None:
        """What one server without shards does, None where it was not measured."""
        return self.at.get((0, ""))


def sharded(shown: Shown) -> list[Sharded]:
    """Return the curves of which some results are of shards; UserError where there is none."""
    groups: dict[str, dict[Place, list[Run]]] = {}
    for run in shown.runs:
        if not is_open(run):
            plain = replace(run.series, shards=None, shard_engine="")
            place = run.series.shards or 0, run.series.shard_engine
            groups.setdefault(plain.label, {}).setdefault(place, []).append(run)
    found = [
        Sharded(name, dict(sorted(at_recall(places, shown.target).items())))
        for name, places in sorted(groups.items())
        if any(count for count, _ in places)
    ]
    found = [one for one in found if any(count for count, _ in one.at)]
    if not found:
        raise UserError(f"no result on shards reaches a recall of {shown.target:g}")
    return found


def shard_pictures(shown: Shown) -> list[Block]:
    """Draw throughput and median latency over the number of shards, a line for each engine."""
    curves = sharded(shown)
    blocks: list[Block] = []
    for metric, direction in PICTURES.items():
        lines: dict[str, list[Point]] = {}
        for curve in curves:
            counts = sorted({count for count, _ in curve.at if count})
            for (count, engine), at in curve.at.items():
                name = f"{curve.name}, {engine or ONE_SERVER}"
                # One server is a level to compare with.
                lines.setdefault(name, []).extend(
                    _point(metric, at, x) for x in ([count] if count else counts)
                )
        path = shown.file("shards" if metric == "qps" else f"shards-{metric}")
        plot = LinePlot("Shards", all_metrics[metric].description, "", "", shown.title, direction)
        draw_lines(lines, path, plot)
        caption = f"{all_metrics[metric].description} by number of shards, at a recall of {shown.target:g}"
        caption += "" if metric == "qps" else ", of the result next to it"
        blocks.append(Picture(path.name, f"{caption}; {ONE_SERVER} has all rows."))
    return blocks


def shard_table(shown: Shown) -> list[Block]:
    """Return for each curve its numbers of shards and engines, and the throughput over that of one server."""
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
        columns = {
            "Shards": [str(count) if count else ONE_SERVER for count, _ in curve.at],
            "Engine": [engine or UNKNOWN for _, engine in curve.at],
            "Recall": [share_text(at.run.metrics["k-nn"]) for at in found],
            all_metrics[QPS_AT_RECALL].title: [
                f"{LOWER_BOUND * at.is_bound}{figure_text(at.qps)}" for at in found
            ],
            f"QPS / {ONE_SERVER}": [
                speedup_text(ratios[i], at.is_bound, whole.is_bound) if whole and i in ratios else UNKNOWN
                for i, at in enumerate(found)
            ],
        }
        for name in LATENCIES:
            metric = all_metrics[name]
            columns[metric.title] = [metric.write(at.run.metrics[name]) for at in found]
        for title, attribute in CPU.items():
            columns[f"{title} (ms/query)"] = [_milliseconds(at.run, attribute) for at in found]
        caption = f"{curve.name} on several servers, at a recall of {shown.target:g}"
        blocks.append(known_table(columns, caption, frozenset({"Shards", "Engine"})))
        notes = [
            *(notes_on(ratios, [at.run for at in found], whole.run) if whole else ()),
            *of_latencies(found),
        ]
        blocks += [Paragraph(text, is_note=True) for text in notes]
    return [*blocks, Paragraph(_ON_ONE_MACHINE, is_note=True)]


_ON_ONE_MACHINE = (
    "Servers of one machine share its CPUs. The ratios are then what it costs to ask several servers, and not"
    " what several machines would answer."
)


def _point(metric: str, at: AtRecall, x: int) -> Point:
    if metric == "qps":
        return Point(x, at.qps, None, at.interval)
    return Point(x, at.run.metrics[metric], None, interval(at.run, metric))


def _milliseconds(run: Run, attribute: str) -> str:
    seconds = number(run, attribute)
    return figure_text(1e3 * seconds) if seconds else UNKNOWN
