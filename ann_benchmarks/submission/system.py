"""system.json: what results were measured on, as their attributes say, a part for each server."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.text import from_json
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.environment import environment_of, environments, names_of
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

FORMAT = 1
# The parts of a server's description, with the attributes of results that each is made of.
MACHINE = (
    *("cpu", "cores", "memory_bytes", "container_memory_bytes", "container_memory_requested", "disk"),
    *("file_system", "kernel", "numa_nodes"),
)
SOFTWARE = (
    *("server", "server_address", "docker_image", "docker_image_id", "framework_version", "python"),
    *("postgres_version", "pgbench_version"),
)
TIER = "tier_"  # begins the names of what was simulated
SETTINGS = ("settings", "server_settings", "given_settings")  # texts in JSON: {name: value}
PLAN, PLANS = "plan", ("plans", "planner_plans")


def system_of(outcomes: Sequence[Run | Record]) -> dict[str, Any]:
    """Return the content of system.json.

    A fact that all results of a server share stands by itself; one that differs is a list of values, each
    with the series that have it. Settings are those that are not the server's defaults. Of the plans of a
    series, one is whole, and all are named with their shares.
    """
    places, groups = environments([environment_of(outcome.attrs) for outcome in outcomes])
    servers = []
    for number, (name, _) in enumerate(zip(names_of(groups), groups, strict=True)):
        its_own = [one for one, place in zip(outcomes, places, strict=True) if place == number]
        servers.append({"name": name, "results": len(its_own), **_server(its_own)})
    return {"format": FORMAT, "servers": servers}


def _server(outcomes: Sequence[Run | Record]) -> dict[str, Any]:
    labelled = [(one.series.label, one.attrs) for one in outcomes]
    every = [attrs for _, attrs in labelled]
    software = [*SOFTWARE, *sorted({name for attrs in every for name in version_names(attrs)})]
    titles = {name: title for attrs in every for name, title in version_names(attrs).items()}
    tiers = sorted({name for attrs in every for name in attrs if name == "tier" or name.startswith(TIER)})
    return {
        "machine": _facts(labelled, MACHINE),
        "software": {
            titles.get(name, name): value for name, value in _facts(labelled, dict.fromkeys(software)).items()
        },
        "tiers": _facts(labelled, tiers),
        **{name: _settings(labelled, name) for name in SETTINGS},
        "plans": _plans(labelled),
    }


def _facts(labelled: Iterable[tuple[str, Mapping[str, Any]]], names: Iterable[str]) -> dict[str, Any]:
    """Return each fact that is known: its value, or its values with the series that have them."""
    labelled = list(labelled)
    found = {}
    for name in names:
        values: dict[str, tuple[Any, list[str]]] = {}
        for label, attrs in labelled:
            if name in attrs:
                values.setdefault(str(attrs[name]), (attrs[name], []))[1].append(label)
        if len(values) == 1:
            found[name] = next(iter(values.values()))[0]
        elif values:
            found[name] = [
                {"value": value, "series": sorted(set(labels))} for value, labels in values.values()
            ]
    return found


def _settings(labelled: Iterable[tuple[str, Mapping[str, Any]]], attribute: str) -> dict[str, Any]:
    known = [
        (label, from_json(attrs.get(attribute), dict[str, Any]()))
        for label, attrs in labelled
        if attribute in attrs
    ]
    return _facts(known, sorted({name for _, settings in known for name in settings}))


def _plans(labelled: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return by series the shares of its plans, and one plan as the server has explained it."""
    found: dict[str, Any] = {}
    for label, attrs in labelled:
        of_series = found.setdefault(label, {})
        for name in (PLAN, *PLANS):
            if name in attrs and name not in of_series:
                content: Any = from_json(attrs[name], dict[str, Any]())
                of_series[name] = content or from_json(attrs[name], list[Any]()) or attrs[name]
    return {label: plans for label, plans in sorted(found.items()) if plans}
