"""What a picture can have a panel for: groups of fields in which the panels differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.comparable import clients, memory_of
from ann_benchmarks.results.environment import (
    SERVER,
    UNKNOWN,
    Facts,
    environments,
    names_of,
)
from ann_benchmarks.results.runs import Run

ONE_PROCESS = "one process"  # it sends one query after the other
ONE_SERVER = "one server"


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
