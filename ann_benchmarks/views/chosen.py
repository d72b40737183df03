"""Which results a picture shows by default, and by which names; and what a panel of its own is for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.names import star_pattern
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.data.datasets import dataset_names
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.at_recall import may_reach
from ann_benchmarks.results.comparable import clients, is_on_tier, memory_of
from ann_benchmarks.results.environment import SERVER, UNKNOWN, Facts, environments, names_of
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.records import Record, read_record
from ann_benchmarks.results.runs import Run, skipped

ONE_PROCESS = "one process"  # it sends one query after the other
ONE_SERVER = "one server"
ALL = "all"
PLAIN_LOAD = "the plain load"  # of any number of clients, without a rate, a filter or anything else
MOST_NAMED = 4  # loads that are named
OTHER_LOADS = "--series '*-c16*' chooses another load by the names of its series"


def load_text(series: Series) -> str:
    """Write what is special about how a series was measured, apart from the algorithm and its server."""
    number = ONE_PROCESS if series.clients is None else counted(series.clients, "client")
    return ", ".join(filter(None, [number, series.drop("clients").conditions[1:]]))


def order_by_clients(run: Run) -> tuple[float, ...]:
    """Return the place of a panel of clients and loads: one process goes first."""
    return run.series.clients is not None, clients(run)


@dataclass(frozen=True)
class Facet:
    """A kind of panels: the groups of fields that panels differ in, and how a panel is called."""

    groups: Sequence[str]
    of_each: str
    heading: Callable[[Series], str] = load_text  # of a series without other fields
    place: Callable[[Run], tuple[float, ...]] = order_by_clients

    def simplify(self, series: Series) -> Series:
        """Return a series as its curve is called in every panel."""
        return series.drop(*self.groups)


FACETS: Mapping[str, Facet] = {
    "clients": Facet(("clients",), "number of clients"),
    "load": Facet(("clients", "load", "payload", "caches"), "load"),
    "tier": Facet(
        ("tier",), "tier", lambda series: series.conditions[1:] or "the machine as it is", memory_of
    ),
    "server": Facet(("environment",), "server"),
    "servers": Facet(
        ("servers",),
        "number of servers, engine or pooler",
        lambda series: " ".join(series.words("servers")) or ONE_SERVER,
        lambda run: (run.series.shards or 0, run.series.replicas or 0),
    ),
    "filter": Facet(("filter",), "filter", lambda series: series.filter or "no filter"),
}
NO_FACET = Facet((), "")


def panels(runs: Sequence[Run], facet: Facet) -> dict[str, list[Run]]:
    """Return the results of each panel by its heading, in order; their series lack what panels differ in."""
    if facet is FACETS["server"]:
        places, _, names = servers(runs)
        of_run = [names[place] or ONE_SERVER for place in places]
        order = sorted(set(of_run), key=lambda name: (name == UNKNOWN, name))
    else:
        of_run = [facet.heading(run.series.only(*facet.groups)) for run in runs]
        ranked = sorted(zip(runs, of_run, strict=True), key=lambda item: (facet.place(item[0]), item[1]))
        order = list(dict.fromkeys(name for _, name in ranked))
    found: dict[str, list[Run]] = {name: [] for name in order}
    for run, name in zip(runs, of_run, strict=True):
        found[name].append(replace(run, series=facet.simplify(run.series)))
    return found


def servers(runs: Sequence[Run]) -> tuple[list[int], Sequence[Facts], list[str]]:
    """Return the number of each result's server, what is known of every server, and their names.

    Releases that tags name are of several servers on purpose, and no reason to tell these apart.
    """
    facts = []
    for run in runs:
        kept = run.facts.keys() & SERVER if run.series.version else run.facts.keys()
        facts.append({name: value for name, value in run.facts.items() if name in kept})
    places, groups = environments(facts)
    return list(places), groups, names_of(groups)


@dataclass(frozen=True)
class Choice:
    """The results that are drawn; `load` is what they share where others were left out, as `notes` say."""

    runs: Sequence[Run]
    load: str = ""
    notes: Sequence[str] = ()

    @property
    def left_out(self) -> list[str]:
        """Which results of other loads and servers are not shown."""
        return [text for text in self.notes if text.startswith("left out")]


def chosen(runs: Sequence[Run], patterns: Sequence[str], facet: Facet = NO_FACET) -> Choice:
    """Return the results of the series that patterns name, such as 'pgvector*-c4', or of all.

    Without patterns, those that were measured by the load with the most points on the server with the most;
    with a facet, by loads or on servers that differ in that alone. UserError where a pattern names none.
    """
    if not patterns:
        return choose_load(runs, facet)
    names = sorted({run.algorithm for run in runs})
    fitting = set(names) if ALL in patterns else set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, star_pattern(pattern))}
        if pattern != ALL and not found:
            raise UserError(f"--series: unknown series '{pattern}'; {closest(pattern, names)}")
        fitting |= found
    return Choice([run for run in runs if run.algorithm in fitting])


def choose_load(runs: Sequence[Run], facet: Facet = NO_FACET, ways: str = "") -> Choice:
    """Return the results of the load and server with the most points, and say which others there are.

    `ways` says how to see those, where not by a facet.
    """
    kept, others, servers_left_out = _most(runs, facet)
    if not kept:
        return Choice(runs)
    notes = []
    if others:
        named = [
            f"{_shared(group[0].series, facet)} ({counted(len(group), 'point')})"
            for group in others[:MOST_NAMED]
        ]
        more = counted(len(others) - MOST_NAMED, "other load") if len(others) > MOST_NAMED else ""
        notes.append(f"left out: {', '.join(filter(None, [*named, more]))}")
    if servers_left_out:
        number = len(runs) - len(kept) - sum(map(len, others))
        notes.append(f"left out: {counted(number, 'point')} of {' and of '.join(servers_left_out)}")
    same = facet.simplify(kept[0].series)
    text = _shared(same, facet) if "clients" in facet.groups else load_text(same)
    if notes:
        notes.append(f"drawn: {text}, with the most points; {ways or _ways(runs, kept)}")
    return Choice(kept, text if others and text != PLAIN_LOAD else "", notes)


def _shared(series: Series, facet: Facet) -> str:
    """Write the conditions that all panels share."""
    nothing = PLAIN_LOAD if "clients" in facet.groups else ONE_PROCESS
    return facet.simplify(series).conditions[1:] or nothing


def _most(runs: Sequence[Run], facet: Facet) -> tuple[list[Run], list[list[Run]], list[str]]:
    """Return the results under the load with the most, those under others, and the servers left out."""
    loads: dict[str, list[Run]] = {}
    for run in runs:
        loads.setdefault(facet.simplify(run.series).conditions, []).append(run)
    if not loads:
        return [], [], []
    first, *others = sorted(loads.values(), key=_worth, reverse=True)
    kept, left_out = _choose_server(first, facet)
    return kept, others, left_out


def _ways(runs: Sequence[Run], drawn: Sequence[Run]) -> str:
    """Say how others than those drawn can be seen: by the facet that shows the most of them, or by name."""
    known = set(map(id, drawn))
    more = {name: len({*map(id, _most(runs, facet)[0])} - known) for name, facet in FACETS.items()}
    name = max(more, key=lambda name: more[name])
    tiers = ", --tiers those with less memory" if any(is_on_tier(run) for run in runs) else ""
    return (
        f"--facet {name} draws a panel for each {FACETS[name].of_each}, --series {ALL} everything,"
        f" --series '*-c1' a choice by name{tiers}"
    )


def _worth(group: Sequence[Run]) -> tuple[Any, ...]:
    """Return what the load that is drawn has most of: points, algorithms, memory; at no given rate."""
    series, families = group[0].series, {run.series.family for run in group}
    memory = (not is_on_tier(group[0]), *memory_of(group[0]))
    return len(group), len(families), not series.is_open, *memory, -(series.clients or 0), series.conditions


def _choose_server(runs: Sequence[Run], facet: Facet) -> tuple[list[Run], list[str]]:
    """Return the results of the server with the most, and the names of the others.

    What says nothing of its server is kept.
    """
    places, groups, names = servers(runs)
    known = [place for place in places if groups[place]]
    if not known or facet is FACETS["server"]:
        return list(runs), []
    most = max(dict.fromkeys(known), key=known.count)
    kept = [run for run, place in zip(runs, places, strict=True) if place == most or not groups[place]]
    return kept, list(dict.fromkeys(names[place] for place in known if place != most))


def choose_filtered(runs: Sequence[Run]) -> Choice:
    """Return the filtered results in a closed loop, of the load and the server with the most points."""
    return choose_load(
        [run for run in runs if run.series.filter and not run.series.is_open], FACETS["filter"], OTHER_LOADS
    )


def checked_target(recall: float | None) -> float:
    """Return the recall to be reached; UserError if it is not a share above 0."""
    target = TARGET_RECALL if recall is None else recall
    if not 0 < target <= 1:
        raise UserError(f"--target-recall must be above 0 and at most 1, and not {target:g}")
    return target


def check_reached(runs: Sequence[Run], target: float) -> None:
    """Raise UserError, which names the highest recall, if no result may reach the target."""
    if not any(may_reach(run, target) for run in runs):
        highest = max(run.metrics["recall"] for run in runs)
        raise UserError(
            f"nothing to plot: no result reaches a recall of {target:g}; the highest is {highest:.4f}"
        )


def explain_missing(dataset: str, count: int) -> str:
    """Say why there is nothing to plot for a dataset, and what there is."""
    available: dict[str, set[int]] = {}
    for path in iter_result_paths():
        if path.parts[-3].isdecimal():
            available.setdefault(path.parts[-4], set()).add(int(path.parts[-3]))
    there_is = "; ".join(
        f"{name} (count {', '.join(map(str, sorted(counts)))})" for name, counts in sorted(available.items())
    )
    hint = f"there are results of {there_is}" if there_is else "results/ is empty: run run.py first"
    if dataset in available or dataset in dataset_names():
        return f"nothing to plot for {dataset} with count {count}: {hint}"
    return f"unknown dataset '{dataset}': {hint}"


def readable_records(paths: Iterable[Path]) -> Iterator[Record]:
    """Yield the records that can be read; say which cannot, and why."""
    for path in paths:
        try:
            yield read_record(path)
        except UserError as error:
            skipped(path, error)
