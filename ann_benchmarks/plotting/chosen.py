"""Which results a picture shows: what can be compared at a glance, or what was requested by name."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.output import counted
from ann_benchmarks.results.comparable import is_on_tier, memory_of
from ann_benchmarks.results.environment import SERVER, environment_of, environments, names_of
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.series import Series

ALL = "all"
ONE_PROCESS = "one process"  # which sends one query after the other
MOST_NAMED = 4  # loads that are named

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Choice:
    """The results that are drawn; `load` is what they share where others were left out, as `notes` say."""

    runs: Sequence[Run]
    load: str = ""
    notes: Sequence[str] = ()


def chosen(runs: Sequence[Run], patterns: Sequence[str]) -> Choice:
    """Return the results of the series that patterns name, such as 'pgvector*-c4', or of all.

    Without patterns, those that were measured by the load with the most points on the server with the most.
    UserError where a pattern names none.
    """
    if not patterns:
        return of_one_load(runs)
    names = sorted({run.algorithm for run in runs})
    for pattern in patterns:
        if pattern != ALL and not any(fnmatchcase(name, pattern) for name in names):
            raise UserError(f"--series: there is no series '{pattern}'; {closest(pattern, names)}")
    fitting = {name for name in names if any(one == ALL or fnmatchcase(name, one) for one in patterns)}
    return Choice([run for run in runs if run.algorithm in fitting])


def of_one_load(runs: Sequence[Run]) -> Choice:
    """Return the results of the load and server with the most points, and say which others there are."""
    loads = _groups(runs, lambda run: run.series.conditions)
    if not loads:
        return Choice(runs)
    first, *others = sorted(loads.values(), key=_worth, reverse=True)
    notes = []
    if others:
        named = [
            f"{group[0].series.conditions[1:] or ONE_PROCESS} ({counted(len(group), 'point')})"
            for group in others[:MOST_NAMED]
        ]
        more = counted(len(others) - MOST_NAMED, "other load") if len(others) > MOST_NAMED else ""
        notes.append(f"left out: {', '.join(filter(None, [*named, more]))}")
    kept, servers = _of_one_server(first)
    if servers:
        notes.append(f"left out: {counted(len(first) - len(kept), 'point')} of {' and of '.join(servers)}")
    if notes:
        tiers = ", --tiers those with less memory" if any(is_on_tier(run) for run in runs) else ""
        notes.append(
            f"drawn: {load_text(first[0].series)}, with the most points; --series {ALL} draws everything,"
            f" --series '*-c1' a choice by name{tiers}"
        )
    return Choice(kept, load_text(first[0].series) if others else "", notes)


def load_text(series: Series) -> str:
    """Write what is special about how a series was measured, apart from the algorithm and its server."""
    clients = f"-c{series.clients}"
    rest = series.conditions.removeprefix(clients).removeprefix("-")
    number = ONE_PROCESS if series.clients is None else counted(series.clients, "client")
    return f"{number}, {rest}" if rest else number


def _worth(group: Sequence[Run]) -> tuple[Any, ...]:
    """Return what the load that is drawn has most of: points, algorithms, memory; at no given rate."""
    series, families = group[0].series, {run.series.family for run in group}
    memory = (not is_on_tier(group[0]), *memory_of(group[0]))
    return len(group), len(families), not series.is_open, *memory, -(series.clients or 0), series.conditions


def _of_one_server(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Return the results of the server with the most, and the names of the others.

    What says nothing of its server is kept. Releases that tags name are of several servers on purpose.
    """
    facts = []
    for run in runs:
        every = environment_of(run.attrs)
        kept = every.keys() & SERVER if run.series.version else every.keys()
        facts.append({name: value for name, value in every.items() if name in kept})
    places, groups = environments(facts)
    known = [place for place in places if groups[place]]
    if not known:
        return list(runs), []
    most = max(dict.fromkeys(known), key=known.count)
    names = names_of(groups)
    others = dict.fromkeys(names[place] for place in known if place != most)
    return [run for run, place in zip(runs, places, strict=True) if place == most or not groups[place]], list(
        others
    )


def _groups(runs: Sequence[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups
