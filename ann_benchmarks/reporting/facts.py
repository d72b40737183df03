"""What was run: what is the same for all results is said once, what differs by algorithm."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import UNKNOWN, size_text
from ann_benchmarks.data.datasets import get_dataset, is_present
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE

from .document import Block, Heading, Listing, Paragraph, Table

MOST_VALUES = 6  # of a fact, that are written out
MOST_COMMANDS = 20
WORDS = frozenset({"What", "Value"})


def as_size(value: Any) -> str:
    """Write bytes."""
    return size_text(value) if isinstance(value, (int, float)) and value > 0 else as_text(value)


def as_text(value: Any) -> str:
    """Write whatever an attribute holds."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,.10g}" if abs(value) >= 10_000 else f"{value:.10g}"
    return value if isinstance(value, str) else json.dumps(value)


# By chapter: attribute, how it is called and written. Versions and settings come by their own names.
KNOWN: dict[str, dict[str, tuple[str, Callable[[Any], str]]]] = {
    "Machine": {
        "cpu": ("CPU", as_text),
        "cores": ("Cores that could be used", as_text),
        "memory_bytes": ("Memory", as_size),
        "disk": ("Disk", as_text),
        "file_system": ("File system", as_text),
        "kernel": ("Kernel", as_text),
        "container_memory_bytes": ("Memory of the container", as_size),
    },
    "Software": {
        "docker_image": ("Docker image", as_text),
        "docker_image_id": ("Image's id", as_text),
        "server": ("Server", as_text),
        "framework_version": ("This benchmark", as_text),
        "python": ("Python", as_text),
    },
    "How it was measured": {
        "run_count": ("Runs of a point", as_text),
        "clients": ("Clients", as_text),
        "driver": ("Made by", as_text),
        "loop": ("Loop", as_text),
        "rate": ("Queries a second that were asked for", as_text),
        "query_order": ("Order of the queries", as_text),
        "distinct_queries": ("Different queries", as_text),
        "warmup": ("Warm-up", as_text),
        "prewarmed_by": ("Prewarmed by", as_text),
        "target_recall": ("Searched for a recall of", as_text),
        "tier": ("Tiers (shared_buffers:available RAM)", as_text),
        "tier_method": ("Memory limited by", as_text),
        "tier_disk": ("Disk of the tier", as_text),
        "tier_iops": ("Operations a second of it", as_text),
        "tier_bandwidth": ("Bytes a second of it", as_size),
        "tier_cpus": ("CPUs of the tier", as_text),
    },
}
SETTINGS = "Settings that are not PostgreSQL's defaults"
VERSION = "_version"
NAMES = {"postgres": "PostgreSQL", "vector": "pgvector", "vchord": "VectorChord"}
COMMAND = "command_line"
BUFFERS = "shared_buffers"
UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|TB)?")


def facts_of(attrs: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return what the attributes of a result say, by chapter and name."""
    facts = {}
    for chapter, known in KNOWN.items():
        for attribute, (name, write) in known.items():
            if attribute in attrs:
                facts[chapter, name] = write(attrs[attribute])
        if chapter == "Software":
            for attribute, value in attrs.items():
                if attribute.endswith(VERSION) and attribute not in known:
                    name = attribute.removesuffix(VERSION)
                    facts[chapter, NAMES.get(name, name)] = as_text(value)
    for name, value in settings(attrs).items():
        facts[SETTINGS, name] = as_text(value)
    if isinstance(attrs.get(BUFFERS), (int, float)):  # of which the settings tell only what is no default
        facts[SETTINGS, BUFFERS] = as_size(attrs[BUFFERS])
    return facts


def settings(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the server that are not its defaults."""
    try:
        found = json.loads(attrs.get("settings", "{}"))
    except (TypeError, ValueError):
        return {}
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def what_was_run(of_algorithm: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Block]:
    """Return the blocks that say it, from the attributes of the results of each algorithm."""
    values: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    numbers: dict[str, int] = {}
    told: dict[str, dict[tuple[str, str], int]] = {}
    for algorithm, all_attrs in of_algorithm.items():
        numbers[algorithm] = len(all_attrs)
        for attrs in all_attrs:
            for fact, text in facts_of(attrs).items():
                values.setdefault(fact, {}).setdefault(algorithm, {}).setdefault(text)
                counts = told.setdefault(algorithm, {})
                counts[fact] = counts.get(fact, 0) + 1

    def is_same(fact: tuple[str, str]) -> bool:
        texts = {text for found in values[fact].values() for text in found}
        return len(texts) == 1 and all(told.get(a, {}).get(fact) == numbers[a] for a in of_algorithm)

    blocks: list[Block] = []
    for chapter in (*KNOWN, SETTINGS):
        facts = sorted((f for f in values if f[0] == chapter), key=order_in(chapter))
        same = [[fact[1], *next(iter(values[fact].values()))] for fact in facts if is_same(fact)]
        if same:
            blocks.append(Table(("What", "Value"), same, chapter, WORDS))
        algorithms = list(of_algorithm)
        differing = [
            [fact[1], *(several(values[fact].get(name, {})) for name in algorithms)]
            for fact in facts
            if not is_same(fact)
        ]
        if differing:
            caption = f"{chapter}, where it differs" if len(algorithms) > 1 else f"{chapter}, several"
            blocks.append(Table(("What", *algorithms), differing, caption, frozenset({"What", *algorithms})))
    return blocks


def order_in(chapter: str) -> Callable[[tuple[str, str]], Any]:
    """Return what facts of a chapter are sorted by: those that are not listed above first, by name."""
    places = {name: i for i, (name, _) in enumerate(KNOWN.get(chapter, {}).values())}
    return lambda fact: (places.get(fact[1], -1), fact[1].lower())


def several(texts: Iterable[str]) -> str:
    """Write all values of a fact, or how many there are."""
    values = sorted(texts, key=by_size)
    if len(values) <= MOST_VALUES:
        return "; ".join(values) or UNKNOWN
    return f"{'; '.join(values[: MOST_VALUES - 1])} and {len(values) - MOST_VALUES + 1} more"


def by_size(text: str) -> tuple[Any, ...]:
    """Return what values are sorted by: the numbers in those that begin with one, else their letters."""
    numbers = [float(number) * UNITS.get(unit, 1.0) for number, unit in QUANTITY.findall(text)]
    return not text[:1].isdecimal(), numbers if text[:1].isdecimal() else [], text


def data_table(of_dataset: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]) -> Table:
    """Return what is known of each dataset, the fingerprint of its true neighbours included."""
    rows = []
    for (dataset, count), all_attrs in of_dataset.items():
        shape = shape_of(dataset)
        distances = several(dict.fromkeys(str(attrs.get("distance", UNKNOWN)) for attrs in all_attrs))
        marks = several(dict.fromkeys(str(attrs.get(TRUTH_ATTRIBUTE, UNKNOWN)) for attrs in all_attrs))
        rows.append([dataset, *shape, distances, str(count), marks])
    columns = ("Dataset", "Vectors", "Dimensions", "Queries", "Distance", "k", "Fingerprint")
    return Table(columns, rows, "Data", frozenset({"Dataset", "Distance", "Fingerprint"}))


def shape_of(dataset: str) -> tuple[str, str, str]:
    """Return vectors, dimensions and queries of a dataset that is here; nothing is downloaded for it."""
    try:
        if is_present(dataset):
            with get_dataset(dataset)[0] as opened:
                return f"{opened.rows:,}", f"{opened.attrs['dimension']:,}", f"{len(opened.test()):,}"
    except (UserError, OSError, KeyError, ValueError):
        pass
    return UNKNOWN, UNKNOWN, UNKNOWN


def when(all_attrs: Iterable[Mapping[str, Any]]) -> list[Block]:
    """Say from when to when it was measured."""
    moments = sorted({str(attrs["started_at"]) for attrs in all_attrs if "started_at" in attrs})
    if not moments:
        return []
    first, last = moments[0], moments[-1]
    return [Paragraph(f"Measured from {first} to {last}." if first != last else f"Measured at {first}.")]


def commands(all_attrs: Iterable[Mapping[str, Any]]) -> list[Block]:
    """Return the command lines that results remember."""
    lines = list(dict.fromkeys(str(attrs[COMMAND]) for attrs in all_attrs if attrs.get(COMMAND)))
    if not lines:
        return []
    more = len(lines) - MOST_COMMANDS
    blocks: list[Block] = [Heading(3, "Command lines"), Listing("\n".join(lines[:MOST_COMMANDS]))]
    return [*blocks, *([Paragraph(f"and {more} more: {COMMAND} in points.csv")] if more > 0 else [])]
