"""Definitions: an algorithm with its build arguments and the query arguments it is measured with."""

import importlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.layout import own_algorithms
from ann_benchmarks.data.datasets.registry import aliases
from ann_benchmarks.plugin import Plugin, PluginClass

from .configs import ANY_METRIC, Config
from .servers import ONE_SERVER, Servers


@dataclass(frozen=True)
class Definition:
    """What one built index is: the constructor's arguments, and the query arguments to go through."""

    algorithm: str
    constructor: str
    module: str
    docker_tag: str
    arguments: list[Any]
    query_argument_groups: list[list[Any]]
    disabled: bool
    version: str = ""  # the tag that the user named; its results make a curve of their own
    settings: Mapping[str, str] = field(default_factory=dict)  # given by the user for its server
    varied: tuple[str, ...] = ()  # names of settings with several values: a curve for each
    servers: Servers = ONE_SERVER  # what answers its queries

    @property
    def variant(self) -> str:
        """Its values of settings that have several, such as "jit=off work_mem=64MB", as names of curves."""
        values = {name: re.sub(r"[^\w.+%-]+", "-", self.settings[name]) for name in self.varied}
        return " ".join(f"{name}={value}" for name, value in values.items())

    @property
    def plain(self) -> "Definition":
        """The same on one server, without settings."""
        return replace(self, settings={}, varied=(), servers=ONE_SERVER)

    @property
    def family(self) -> str:
        """The algorithm with its version, servers and variant."""
        parts = [self.algorithm, self.version, str(self.servers), self.variant.replace(" ", "-")]
        return "-".join(filter(None, parts))

    def __str__(self) -> str:
        return label(self.family, self.arguments)

    def points(self) -> list[list[Any]]:
        """Query arguments of each point; one empty group without any to set."""
        return self.query_argument_groups or [[]]


def apply_servers(definitions: Sequence[Definition], servers: Sequence[Servers]) -> list[Definition]:
    """Return each definition on each of the servers."""
    return [replace(one, servers=each) for one in definitions for each in servers]


def label(algorithm: str, arguments: list[Any]) -> str:
    """Name an algorithm with its arguments on one line, e.g. `annoy("euclidean", 100)`."""
    return f"{algorithm}({json.dumps(arguments, default=str)[1:-1]})"


@dataclass(frozen=True)
class Data:
    """What definitions depend on of a dataset."""

    name: str
    rows: int
    dimension: int
    metric: str
    point_type: str = "float"
    row_values: int = 0  # numbers of 4 bytes that a row takes
    filtered: bool = False  # whether queries have a filter


def get_definitions(configs: Iterable[Config], data: Data, count: int) -> list[Definition]:
    """Return every definition for a kind of data, in the order of the configs.

    A name under both "any" and the metric is the metric's. `@metric`, `@dimension` and `@count` in build
    arguments are replaced. Run groups that are meant for another dataset or number of rows are left out.
    """
    variables = {"@metric": data.metric, "@dimension": data.dimension, "@count": count}
    definitions = []
    for config in configs:
        metrics = config.entries.get(data.point_type, {})
        keys = (ANY_METRIC, data.metric)
        entries = {entry["name"]: entry for key in keys for entry in metrics.get(key, [])}
        for entry in entries.values():
            groups = entry["run_groups"] | entry.get("more_run_groups", {})
            groups = _meant_for(_query_groups(groups.values(), data.filtered), data.name, data.rows)
            definitions += _definitions_of(entry, groups, variables)
    return definitions


def _query_groups(groups: Iterable[dict[str, Any]], filtered: bool) -> list[dict[str, Any]]:
    """The run groups for queries with a filter, where there are some; else, and without one, the others."""
    every = list(groups)
    others = [group for group in every if not group.get("filtered", False)]
    return ([group for group in every if group.get("filtered", False)] or others) if filtered else others


def _meant_for(groups: Iterable[dict[str, Any]], dataset: str, rows: int) -> list[dict[str, Any]]:
    """The run groups that name the dataset or, without any, those that name no dataset at all."""
    fitting = [group for group in groups if _is_between(rows, *group.get("rows", (None, None)))]
    naming = [group for group in fitting if _is_named(dataset, group.get("datasets", ()))]
    return naming or [group for group in fitting if "datasets" not in group]


def _is_between(number: int, first: int | None, last: int | None) -> bool:
    return (first is None or first <= number) and (last is None or number < last)


def _is_named(dataset: str, names: Iterable[str]) -> bool:
    others = aliases()
    return others.get(dataset, dataset) in (others.get(name, name) for name in names)


def _definitions_of(
    entry: dict[str, Any], groups: Iterable[dict[str, Any]], variables: dict[str, Any]
) -> list[Definition]:
    definitions = []
    for group in groups:
        for arguments in _expanded(group, "args", "arg_groups"):
            build = [
                *entry.get("base_args", []),
                *(arguments if isinstance(arguments, list) else [arguments]),
            ]
            definitions.append(
                Definition(
                    algorithm=entry["name"],
                    constructor=entry["constructor"],
                    module=entry["module"],
                    docker_tag=entry["docker_tag"],
                    arguments=_substituted(build, variables),
                    query_argument_groups=_expanded(group, "query_args", "query_arg_groups"),
                    disabled=entry.get("disabled", False),
                )
            )
    return definitions


def _expanded(group: dict[str, Any], plain: str, grouped: str) -> list[Any]:
    """All combinations of a run group's arguments; the grouped form goes before the plain one."""
    if grouped in group:
        return _combinations([_combinations(g) if isinstance(g, dict) else g for g in group[grouped]])
    return _combinations(group[plain]) if plain in group else []


def _combinations(arguments: list[Any] | dict[str, Any]) -> list[Any]:
    """Cartesian product over the values that are lists: of lists for a list, of mappings for a mapping."""
    values = arguments.values() if isinstance(arguments, dict) else arguments
    chosen = product(*(value if isinstance(value, list) else [value] for value in values))
    if isinstance(arguments, dict):
        return [dict(zip(arguments, choice, strict=True)) for choice in chosen]
    return [list(choice) for choice in chosen]


def _substituted(argument: Any, variables: dict[str, Any]) -> Any:
    if isinstance(argument, dict):
        return {key: _substituted(value, variables) for key, value in argument.items()}
    if isinstance(argument, list):
        return [_substituted(value, variables) for value in argument]
    return variables.get(argument, argument) if isinstance(argument, str) else argument


def supported_data(configs: Iterable[Config]) -> dict[str, dict[str, list[str]]]:
    """Algorithm -> point type -> metrics, for every algorithm of every config."""
    supported: dict[str, dict[str, list[str]]] = {}
    for config in configs:
        for point_type, metrics in config.entries.items():
            for metric, entries in metrics.items():
                for entry in entries:
                    supported.setdefault(entry["name"], {}).setdefault(point_type, []).append(metric)
    return supported


class MissingFolder(UserError):
    """A plug-in imports from a folder beside its own that was not copied with it."""

    is_unavailable = True  # the others can run, for example if a package is missing


def plugin_class(definition: Definition) -> PluginClass:
    """Import the plug-in's module and return its class; an ImportError means that it needs something."""
    name = f"{definition.module}.module"
    if (beside := own_algorithms()) is not None:  # its plug-ins have the imports of those that come along
        places: list[str] = vars(importlib.import_module("ann_benchmarks.algorithms"))["__path__"]
        places += [] if str(beside) in places else [str(beside)]
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise UserError(
                f"the config.yml of '{definition.algorithm}' names the module '{definition.module}', but"
                f" '{error.name}' does not exist; Python looks in its path (PYTHONPATH)"
            ) from None
        parent, _, own = definition.module.rpartition(".")
        if parent and error.name and error.name.startswith(f"{parent}."):
            other = error.name.removeprefix(f"{parent}.").partition(".")[0]
            raise MissingFolder(
                f"the plug-in folder '{own}' imports '{error.name}', which does not exist:"
                f" copy the folder '{other}' next to it, too"
            ) from None
        raise
    try:
        return PluginClass(getattr(module, definition.constructor))
    except AttributeError:
        public = [name for name in vars(module) if not name.startswith("_")]
        raise UserError(
            f"{module.__file__} has no '{definition.constructor}', which the config.yml of"
            f" '{definition.algorithm}' names as constructor; {closest(definition.constructor, public)}"
        ) from None


def construct(definition: Definition) -> Plugin:
    """Import a plug-in and construct its algorithm with the definition's build arguments."""
    constructor = plugin_class(definition).constructor
    try:
        inspect.signature(constructor).bind(*definition.arguments)
    except TypeError as error:
        raise UserError(
            f"the config.yml of '{definition.algorithm}' does not fit {definition.constructor}: {error};"
            " write an index's options as one mapping"
        ) from None
    return Plugin(constructor(*definition.arguments))
