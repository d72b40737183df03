"""What was run, facts that all results share once and others by algorithm, and what the machine did then."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import natural_order
from ann_benchmarks.common.numbers import UNKNOWN, size_text
from ann_benchmarks.common.text import from_json
from ann_benchmarks.data.datasets import get_dataset, is_present
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.monitoring.stored import Monitored, monitored_from, read_monitoring
from ann_benchmarks.results.at_recall import may_reach
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.comparable import clients
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run
from ann_benchmarks.views.monitoring import activity_table, monitoring_chart
from ann_benchmarks.views.parts import Table

from .content import Report, Shown
from .document import Block, Heading, Listing, Paragraph

MOST_VALUES = 6  # written out of a fact
MOST_COMMANDS = 20
DASHBOARDS = 2
MONITORED = "monitoring_cpu_seconds"  # an attribute of results that were monitored
MEASURED = "How it was measured"
# By chapter: attributes and their names. Versions and settings have names of their own.
KNOWN = {
    "Machine": {
        "cpu": "CPU", "cores": "Usable cores", "memory_bytes": "Memory", "disk": "Disk",
        "file_system": "File system", "kernel": "Kernel", "container_memory_bytes": "Memory of the container",
    },
    "Software": {
        "docker_image": "Docker image", "docker_image_id": "Docker image ID", "server": "Server",
        "framework_version": "This benchmark", "python": "Python",
    },
    MEASURED: {
        "run_count": "Runs of a point", "loop": "Loop", "warmup": "Warm-up", "prewarmed_by": "Prewarmed by",
        "target_recall": "Target recall of the search", "tier": "Tiers (shared_buffers:available RAM)",
        "tier_iops": "I/O operations/s of the tier's disk",
        "tier_bandwidth": "Bandwidth of the tier's disk, per second",
    },
}  # fmt: skip
SETTINGS = "Settings other than PostgreSQL's defaults"
BUFFERS = "shared_buffers"
IN_BYTES = {"memory_bytes", "container_memory_bytes", "tier_bandwidth", BUFFERS}
COMMAND = "command_line"

Attributes = Mapping[str, Any]
Fact = tuple[str, str]  # chapter and name


def run_blocks(report: Report) -> list[Block]:
    """Return what was run: data, machine, software, settings, command lines."""
    by_algorithm: dict[str, list[Attributes]] = {}
    by_dataset: dict[tuple[str, int], list[Attributes]] = {}
    outcomes: list[Run | Record] = [*report.runs, *report.records]
    for outcome in outcomes:
        by_algorithm.setdefault(outcome.series.family, []).append(outcome.attrs)
        by_dataset.setdefault((outcome.dataset, outcome.count), []).append(outcome.attrs)
    every = [attrs for of_name in by_algorithm.values() for attrs in of_name]
    return [
        Heading(2, "What was run"),
        *([Listing(report.command)] if report.command else []),
        *describe_period(every),
        *([data_table(by_dataset)] if by_dataset else []),
        *tabulate_facts(by_algorithm),
        *commands(every),
    ]


def chapters() -> dict[str, dict[str, str]]:
    """Return the attributes of each chapter with their names, those of fields among them."""
    field_names = {one.attribute: one.heading for one in FIELDS.values() if one.attribute and one.title}
    return {**KNOWN, MEASURED: {**KNOWN[MEASURED], **field_names}}


def fact_text(attribute: str, value: Any) -> str:
    """Write the value of an attribute."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if attribute in IN_BYTES and value > 0:
            return size_text(value)
        return f"{value:,.10g}" if abs(value) >= 10_000 else f"{value:.10g}"
    return value if isinstance(value, str) else json.dumps(value)


def result_facts(attrs: Attributes) -> dict[Fact, str]:
    """Return what the attributes of a result say, by chapter and name."""
    facts = {}
    for chapter, known in chapters().items():
        for attribute, name in known.items():
            if attribute in attrs:
                facts[chapter, name] = fact_text(attribute, attrs[attribute])
    for attribute, name in version_names(attrs).items():
        facts["Software", name] = fact_text(attribute, attrs[attribute])
    for name, value in from_json(attrs.get("settings"), dict[str, Any]()).items():
        facts[SETTINGS, name] = fact_text("", value)
    if isinstance(attrs.get(BUFFERS), (int, float)):  # the settings lack a default
        facts[SETTINGS, BUFFERS] = fact_text(BUFFERS, attrs[BUFFERS])
    return facts


def tabulate_facts(by_algorithm: Mapping[str, Sequence[Attributes]]) -> list[Block]:
    """Return the facts as tables, from the attributes of the results of each algorithm."""
    facts = {name: [result_facts(attrs) for attrs in every] for name, every in by_algorithm.items()}
    known = dict.fromkeys(fact for every in facts.values() for of_result in every for fact in of_result)
    blocks: list[Block] = []
    for chapter in (*KNOWN, SETTINGS):
        same, differing = [], []
        for fact in sorted((fact for fact in known if fact[0] == chapter), key=fact_place):
            texts = [dict.fromkeys(of_result.get(fact) for of_result in every) for every in facts.values()]
            distinct = {text for of_name in texts for text in of_name}
            if len(distinct) == 1:
                same.append([fact[1], *map(str, distinct)])
            else:
                differing.append([fact[1], *(several(text for text in of_name if text) for of_name in texts)])
        if same:
            blocks.append(Table(("What", "Value"), same, chapter, ("What", "Value")))
        if differing:
            columns = ("What", *facts)
            blocks.append(Table(columns, differing, f"{chapter}: differences", columns))
    return blocks


def fact_place(fact: Fact) -> tuple[int, str]:
    """Return what the facts of a chapter are sorted by: those without a place above first, by name."""
    places = {name: i for i, name in enumerate(chapters().get(fact[0], {}).values())}
    return places.get(fact[1], -1), fact[1].lower()


def several(texts: Iterable[str]) -> str:
    """Write all values of a fact, or the first of them and how many more there are."""
    values = sorted(texts, key=natural_order)
    if len(values) <= MOST_VALUES:
        return "; ".join(values) or UNKNOWN
    return f"{'; '.join(values[: MOST_VALUES - 1])} and {len(values) - MOST_VALUES + 1} more"


def data_table(by_dataset: Mapping[tuple[str, int], Sequence[Attributes]]) -> Table:
    """Return what is known of each dataset, with the fingerprint of its true neighbours."""
    rows = []
    for (dataset, count), all_attrs in by_dataset.items():
        distances, marks = (
            several(dict.fromkeys(str(attrs.get(name, UNKNOWN)) for attrs in all_attrs))
            for name in ("distance", TRUTH_ATTRIBUTE)
        )
        rows.append([dataset, *dataset_shape(dataset), distances, str(count), marks])
    columns = ("Dataset", "Vectors", "Dimensions", "Queries", "Distance", "k", "Fingerprint")
    return Table(columns, rows, "Data", ("Dataset", "Distance", "Fingerprint"))


def dataset_shape(dataset: str) -> tuple[str, str, str]:
    """Return vectors, dimensions and queries of a dataset that is here; nothing is downloaded for it."""
    try:
        if is_present(dataset):
            with get_dataset(dataset)[0] as opened:
                return f"{opened.rows:,}", f"{opened.attrs['dimension']:,}", f"{len(opened.test()):,}"
    except (UserError, OSError, KeyError, ValueError):
        pass
    return UNKNOWN, UNKNOWN, UNKNOWN


def describe_period(all_attrs: Iterable[Attributes]) -> list[Block]:
    """Say from when to when it was measured."""
    begun = [attrs for attrs in all_attrs if "started_at" in attrs]
    if not begun:
        return []
    starts = sorted(str(attrs["started_at"]) for attrs in begun)
    ends = [str(attrs["ended_at"]) for attrs in begun if "ended_at" in attrs]
    if len(ends) == len(begun):
        return [Paragraph(f"Measured from {starts[0]} to {max(ends)}.")]
    # Results of earlier versions do not say when they ended.
    last = f", the last at {starts[-1]}" if starts[-1] != starts[0] else ""
    return [Paragraph(f"The first result was begun at {starts[0]}{last}.")]


def commands(all_attrs: Iterable[Attributes]) -> list[Block]:
    """Return the command lines that results remember."""
    lines = list(dict.fromkeys(str(attrs[COMMAND]) for attrs in all_attrs if attrs.get(COMMAND)))
    if not lines:
        return []
    more = len(lines) - MOST_COMMANDS
    blocks: list[Block] = [Heading(3, "Command lines"), Listing("\n".join(lines[:MOST_COMMANDS]))]
    return [*blocks, *([Paragraph(f"and {more} more: {COMMAND} of each result")] if more > 0 else [])]


def dashboard_pictures(shown: Shown) -> list[Block]:
    """Draw the samples of machine and server, for a few results and workloads."""
    blocks: list[Block] = []
    for number, (sampled, name, done) in enumerate(find_samples(shown)):
        caption = f"Machine and server while {name} was {done}."
        blocks.append(shown.picture("dashboard", monitoring_chart(sampled, name), caption, number))
    return blocks


def activity_tables(shown: Shown) -> list[Block]:
    """Return the means of the same samples by phase."""
    return [
        activity_table(sampled, f"By phase, while {name} was {done}")
        for sampled, name, done in find_samples(shown)
    ]


def find_samples(shown: Shown) -> list[tuple[Monitored, str, str]]:
    """Return samples of a few results and workloads, with the name of each and what was done.

    UserError where nothing was monitored.
    """
    samples = []
    for run in monitored_results(shown.runs, shown.target)[:DASHBOARDS]:
        if (sampled := read_monitoring(run.path)) is not None:
            samples.append((sampled, f"{run.algorithm}: {run.parameters}", "measured"))
    for record in [record for record in shown.records if record.monitoring is not None][:DASHBOARDS]:
        samples.append((monitored_from(record.monitoring), f"{record.algo}: {record.name}", "written to"))
    if not samples:
        raise UserError("no result was monitored")
    return samples


def monitored_results(runs: Iterable[Run], target: float) -> list[Run]:
    """Return of each algorithm the monitored result with the most clients: the fastest at a recall."""

    def worth(run: Run) -> tuple[int, float, float]:
        return clients(run), may_reach(run, target), run.metrics["qps"]

    best: dict[str, Run] = {}
    for run in sorted((run for run in runs if MONITORED in run.attrs), key=worth, reverse=True):
        best.setdefault(run.series.family, run)
    return list(best.values())
