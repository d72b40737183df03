"""Where a point was measured: server, versions, machine and settings, as far as its attributes say.

Points of two environments never make one curve, and neither finishes the other's. What is not known
contradicts nothing. Results that say nothing of it, as ann-benchmarks' do, are an environment of their own.
"""

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.series import stored_series

from .attributes import version_names

UNKNOWN = "unknown server"
LONGEST_MARK = 40  # characters
MARK = re.compile(r"[\w+=](?:[\w.+=-]*[\w+=])?")  # in the name of a folder
MEMORY = "memory"
MEMORY_SLACK = 0.05  # what firmware and kernel take of a machine's memory changes with their versions
DEFAULTS = "default settings"
MEMORY_DIVIDED = "memory_divided_by"  # attribute: servers that share the memory of one machine
# The facts other than versions.
SERVER = {
    *("container", "server", "address", "cpu", "cores", "memory", "container memory", "memory divided by"),
    *("settings", "server settings"),
}
_MACHINE = {"cpu": "cpu", "cores": "cores", MEMORY: "memory_bytes"}
_SETTINGS = {"settings": "given_settings", "server settings": "server_settings"}

Facts = Mapping[str, Any]


def environment_of(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of where a result was measured, what names it best first; empty for nothing.

    A simulated server has the cores, the memory and the settings of its tier, which the series says, as it
    does of settings that were compared.
    """
    facts: dict[str, Any] = {}
    for name, title in sorted(version_names(attrs).items(), key=lambda item: item[0] != "postgres_version"):
        facts[title] = str(attrs[name]).partition(" ")[0]  # Debian adds that of its package
    if "docker_image" in attrs or "cpu" in attrs:  # only this project stores these
        facts["container"] = "docker_image" in attrs
    if "server" in attrs and not facts.get("container"):
        facts["server"] = str(attrs["server"])
    if "server_address" in attrs:
        facts["address"] = str(attrs["server_address"])
    machine = {"cpu": _MACHINE["cpu"]} if attrs.get("tier") else _MACHINE
    facts |= {name: attrs[attribute] for name, attribute in machine.items() if attribute in attrs}
    if "container_memory_requested" in attrs and not attrs.get("tier"):
        facts["container memory"] = attrs["container_memory_requested"]
    # Whose servers have the memory that they were given, or machines of their own, do not share it out.
    own_memory = "shared_buffers" in from_json(attrs.get("given_settings"), dict[str, Any]())
    if MEMORY_DIVIDED in attrs and attrs.get("server") != "external" and not own_memory:
        facts["memory divided by"] = attrs[MEMORY_DIVIDED]
    series = stored_series(attrs)
    compared = {word.partition("=")[0] for word in series.settings.split()} if series else set[str]()
    for name, attribute in _SETTINGS.items():
        if attribute in attrs:
            settings = from_json(attrs[attribute], dict[str, Any]())
            facts[name] = {
                key: value
                for key, value in settings.items()
                if f"tier_{key}" not in attrs and key not in compared
            }
    return facts


def add_settings(
    attrs: Mapping[str, Any], settings: Mapping[str, str], compared: Iterable[str]
) -> dict[str, Any]:
    """Return what is known of a server, by attributes, as it will be with more settings given to it.

    Those that are `compared` are in the name of a series, and of no environment.
    """
    changed = dict(attrs)
    for attribute, more in (("given_settings", settings), ("server_settings", {})):
        if attribute in attrs:
            known = {**from_json(attrs[attribute], dict[str, Any]()), **more}
            changed[attribute] = json.dumps({key: known[key] for key in known if key not in compared})
    return changed


def differences(one: Facts, other: Facts) -> list[str]:
    """Return the names of the facts that are known of both and differ."""
    return [name for name in one if name in other and not _alike(name, one[name], other[name])]


def _alike(name: str, one: Any, other: Any) -> bool:
    if name == MEMORY and one and other:
        return bool(abs(one / other - 1) <= MEMORY_SLACK)
    return bool(one == other)


def environments(every: Sequence[Facts]) -> tuple[list[int], list[Facts]]:
    """Group what contradicts nothing in its group; return the group of each, and what is known of the groups.

    Those of which most is known make the groups, so that the order of the files has no part in it.
    """
    groups: list[dict[str, Any]] = []
    places = [0] * len(every)
    for place in sorted(range(len(every)), key=lambda place: (-len(every[place]), str(every[place]))):
        facts = every[place]
        fitting = (
            number
            for number, group in enumerate(groups)
            if bool(group) == bool(facts) and not differences(group, facts)
        )
        number = next(fitting, len(groups))
        if number == len(groups):
            groups.append({})
        groups[number] = {**facts, **groups[number]}
        places[place] = number
    return places, list(groups)


def names_of(groups: Sequence[Facts]) -> list[str]:
    """Return what tells each of several environments from the others, in as few words as do; "" of one."""
    chosen: list[str] = []
    possible = dict.fromkeys(name for group in groups for name in group)
    for name in sorted(possible, key=lambda name: any(group and name not in group for group in groups)):
        if len(_values(groups, [*chosen, name])) > len(_values(groups, chosen)):
            chosen.append(name)
    return [
        ", ".join(filter(None, (_own_words(name, group, groups) for name in chosen)))
        or (UNKNOWN if len(groups) > 1 else "")
        for group in groups
    ]


def _values(groups: Sequence[Facts], names: Iterable[str]) -> set[str]:
    return {str([group.get(name) for name in names]) for group in groups}


def _own_words(name: str, group: Facts, groups: Sequence[Facts]) -> str:
    """Write a fact of a group; of settings, those that not all groups have."""
    value = group.get(name)
    if value is None:
        return ""
    if isinstance(value, Mapping):
        others = [other[name] for other in groups if name in other]
        value = {key: text for key, text in value.items() if any(other.get(key) != text for other in others)}
    return fact_words(name, value)


def fact_words(name: str, value: Any) -> str:
    """Write a fact."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={text}" for key, text in value.items()) or DEFAULTS
    if name == "container":
        return "in a container" if value else "without a container"
    if name in (MEMORY, "container memory"):
        return f"{name} {size_text(value)}" if value else "all memory"
    words = {
        "cpu": f"{value}",
        "cores": f"{value} cores",
        "server": f"{value} server",
        "address": f"at {value}",
    }
    return words.get(name, f"{name} {value}")


def new_mark(facts: Facts, known: Sequence[Facts], taken: Iterable[str]) -> str:
    """Return a name for the folder of an environment that none of the `known` ones is."""
    _, groups = environments(known)
    text = names_of([*groups, facts])[-1]
    mark = re.sub(r"[^\w.+=]+", "-", text)[:LONGEST_MARK].strip("-.").removesuffix("-batch") or "other"
    used = set(taken)
    return next(
        name for name in chain([mark], (f"{mark}-{number}" for number in count(2))) if name not in used
    )


def environment_names(every: Sequence[Mapping[str, Any]], kinds: Sequence[Hashable]) -> list[str]:
    """Return what tells the environment of each result from the others of its kind, "" where there is one.

    `every` are the attributes of results; those of one kind would make one curve.
    """
    names = [""] * len(every)
    for kind in dict.fromkeys(kinds):
        places = [place for place, one in enumerate(kinds) if one == kind]
        numbers, groups = environments([environment_of(every[place]) for place in places])
        called = names_of(groups)
        for place, number in zip(places, numbers, strict=True):
            names[place] = called[number]
    return names
