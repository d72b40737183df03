"""What a picture can have a panel for: each number of clients, load, tier, server or filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.results.comparable import clients, memory_of
from ann_benchmarks.results.environment import (
    SERVER,
    UNKNOWN,
    Facts,
    environments,
    names_of,
)
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.series import Series, series_from

ONE_PROCESS = "one process"  # which sends one query after the other
WHOLE_MACHINE = "the machine as it is"
ONE_SERVER = "one server"
NO_FILTER = "no filter"
_LOAD = ("clients", "query_order", "distinct_queries", "rate", "objective", "driver", "is_cold", "payload")
_TIER = ("tier_method", "tier_cpus", "tier_disk", "tier_memory")


@dataclass(frozen=True)
class Facet:
    """A kind of panels: the fields of a series that panels differ in, and what one panel is for."""

    fields: Sequence[str]
    of_each: str

    def without(self, series: Series) -> Series:
        """Return a series as its curve is called in every panel."""
        kept = {name: value for name, value in vars(series).items() if name not in self.fields}
        return series_from(kept)


FACETS: Mapping[str, Facet] = {
    "clients": Facet(("clients",), "number of clients"),
    "load": Facet(_LOAD, "load"),
    "tier": Facet(_TIER, "tier"),
    "server": Facet(("environment",), "server"),
    "filter": Facet(("filter",), "filter"),
}
NO_FACET = Facet((), "")


def panels(runs: Sequence[Run], facet: Facet) -> dict[str, list[Run]]:
    """Return the results of each panel by its heading, in order; their series lack what panels differ in."""
    if facet is FACETS["server"]:
        places, _, names = servers(runs)
        of_run = [names[place] or ONE_SERVER for place in places]
        order = sorted(set(of_run), key=lambda name: (name == UNKNOWN, name))
    else:
        of_run = [_heading(run.series, facet) for run in runs]
        ranked = sorted(zip(runs, of_run, strict=True), key=lambda item: (_place(item[0], facet), item[1]))
        order = list(dict.fromkeys(name for _, name in ranked))
    found: dict[str, list[Run]] = {name: [] for name in order}
    for run, name in zip(runs, of_run, strict=True):
        found[name].append(replace(run, series=facet.without(run.series)))
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


def load_text(series: Series) -> str:
    """Write what is special about how a series was measured, apart from the algorithm and its server."""
    clients = f"-c{series.clients}"
    rest = series.conditions.removeprefix(clients).removeprefix("-")
    number = ONE_PROCESS if series.clients is None else counted(series.clients, "client")
    return f"{number}, {rest}" if rest else number


def _heading(series: Series, facet: Facet) -> str:
    of_facet = Series("", **{name: getattr(series, name) for name in facet.fields})
    if facet is FACETS["tier"]:
        return of_facet.conditions[1:] or WHOLE_MACHINE
    if facet is FACETS["filter"]:
        return series.filter or NO_FILTER
    return load_text(of_facet)


def _place(run: Run, facet: Facet) -> tuple[float, ...]:
    return memory_of(run) if facet is FACETS["tier"] else (run.series.clients is not None, clients(run))
