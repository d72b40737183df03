"""Which definitions a run is for: by algorithm, version, image and kind of data, with its server's settings.

A setting that has several values makes a contender of each of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from ann_benchmarks.common.errors import UserError, closest, shown

from .configs import ANY_METRIC, BrokenConfig, Config
from .definition import Data, Definition, get_definitions, supported_data

# An algorithm and a version; None: all of them, and the one that is here.
Named = tuple[str | None, str | None]
_SETTING = re.compile(r"[a-z_][a-z0-9_$]*(\.[a-z_][a-z0-9_$]*)*")
SettingValues = tuple[str, Sequence[str]]  # a name, and each value that it is to have


class NoRunGroup(UserError):
    """An algorithm has definitions, but none that is meant for these data."""


class NoDefinition(NoRunGroup):
    """An algorithm has no definition for such vectors, or such a metric."""


def named_algorithms(names: Sequence[str]) -> list[Named]:
    """Split NAME:TAG for each of the names, each once; no names mean all algorithms."""
    return [split_tag(name) for name in dict.fromkeys(names)] or [(None, None)]


def config_warnings(
    configs: Sequence[Config], broken: Sequence[BrokenConfig], algorithm: str | None
) -> list[str]:
    """Return warnings of broken files; UserError for an algorithm that is unknown or in one of them."""
    names = [name for config in configs for name in config.names()]
    if algorithm is not None and algorithm not in names:
        for config in broken:
            if config.mentions(algorithm):
                raise UserError(config.problem)
        raise UserError(f"unknown algorithm '{algorithm}'; {closest(algorithm, names)}")
    return [f"{config.problem}; left out" for config in broken]


def select_definitions(
    configs: Sequence[Config],
    algorithms: Sequence[Named],
    data: Data,
    count: int,
    docker_tag: str | None = None,
    run_disabled: bool = False,
) -> list[Definition]:
    """Return the requested definitions for some data; UserError says why one of them is missing."""
    known = get_definitions(configs, data, count)
    selected = []
    for algorithm, version in algorithms:
        chosen = _algorithm_definitions(known, configs, algorithm, data)
        if docker_tag is not None:
            chosen = _image_definitions(chosen, docker_tag)
        enabled = [d for d in chosen if run_disabled or not d.disabled]
        if not enabled:
            raise UserError("nothing to run: every requested definition is disabled; add --run-disabled")
        selected += [choose_version(d, version) for d in enabled]
    return selected


def _algorithm_definitions(
    definitions: Sequence[Definition], configs: Sequence[Config], algorithm: str | None, data: Data
) -> list[Definition]:
    """Return the definitions of one algorithm or of all; UserError where none fits the data."""
    supported = supported_data(configs)
    kind = f"{data.point_type} vectors with the metric '{data.metric}'"
    fitting = [
        name for name in supported if {data.metric, ANY_METRIC} & {*supported[name].get(data.point_type, [])}
    ]
    chosen = [d for d in definitions if algorithm in (None, d.algorithm)]
    if chosen:
        return chosen
    if algorithm in fitting:
        for_filters = get_definitions(configs, replace(data, filtered=True), 1)
        if any(definition.algorithm == algorithm for definition in for_filters):
            raise UserError(f"'{algorithm}' is a strategy of filtered queries: add --filter")
        file = next(config.path for config in configs if algorithm in config.names())
        raise NoRunGroup(
            f"no run group of '{algorithm}' is meant for '{data.name}' with {data.rows:,} rows:"
            f" add one to {file}"
        )
    if algorithm is not None:
        has = "; ".join(f"{points}: {', '.join(metrics)}" for points, metrics in supported[algorithm].items())
        raise NoDefinition(f"algorithm '{algorithm}' has no definition for {kind}; it has {has}")
    if fitting:
        raise UserError(
            f"no algorithm has a run group that is meant for '{data.name}' with {data.rows:,} rows"
        )
    raise UserError(f"no algorithm has a definition for {kind}")


def _image_definitions(definitions: Sequence[Definition], docker_tag: str) -> list[Definition]:
    tags = list(dict.fromkeys(d.docker_tag for d in definitions))
    base, tag = split_tag(docker_tag) if docker_tag not in tags else (docker_tag, None)
    chosen = [choose_version(d, tag) for d in definitions if d.docker_tag == base]
    if not chosen:
        raise UserError(f"no definition has the Docker tag '{docker_tag}'; {closest(docker_tag, tags)}")
    return chosen


def split_tag(name: str) -> tuple[str, str | None]:
    """Split NAME:TAG; None without a tag. UserError when it could not be one of an image."""
    base, colon, tag = name.partition(":")
    if not colon:
        return base, None
    if not re.fullmatch(r"\w[\w.-]{0,127}", tag, re.ASCII):
        raise UserError(
            f"'{tag}' must be a tag of an image: use letters, digits, '.', '_' and '-', as in {base}:0.8.0"
        )
    return base, tag


def tagged(docker_tag: str, tag: str | None) -> str:
    """Give an image's name a tag in place of its own."""
    return docker_tag if tag is None else f"{docker_tag.partition(':')[0]}:{tag}"


def choose_version(definition: Definition, version: str | None) -> Definition:
    """Mean another version of its image or release; its results make a curve of their own."""
    if version is None:
        return definition
    return replace(definition, version=version, docker_tag=tagged(definition.docker_tag, version))


def read_setting(text: str) -> SettingValues:
    """Read NAME=VALUE or NAME=VALUE,VALUE..., each value once; UserError says what is allowed."""
    name, equals, rest = text.partition("=")
    name = name.strip().lower()
    values = list(dict.fromkeys(value.strip() for value in rest.split(",")))
    if not equals or not _SETTING.fullmatch(name) or not all(values) or not rest.isprintable():
        raise UserError(f"'{shown(text)}' must be a setting: give NAME=VALUE, or NAME=VALUE,VALUE to compare")
    return name, values


def apply_settings(definitions: Sequence[Definition], settings: Sequence[SettingValues]) -> list[Definition]:
    """Return each definition with every combination of the values."""
    names = [name for name, _ in settings]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--setting names {repeated[0]} twice: write {repeated[0]}=VALUE,VALUE")
    varied = tuple(name for name, values in settings if len(values) > 1)
    found = [
        replace(definition, settings=dict(zip(names, values, strict=True)), varied=varied)
        for definition in definitions
        for values in product(*(values for _, values in settings))
    ]
    _refuse_one_name(found)
    return found


def _refuse_one_name(definitions: Sequence[Definition]) -> None:
    """Refuse values that would be one curve: the second would replace the first one's results."""
    called: dict[str, Mapping[str, str]] = {}
    for definition in definitions:
        # Names are compared as file systems compare them that ignore the case.
        first = called.setdefault(definition.family.casefold(), definition.settings)
        if first != definition.settings:
            name = next(name for name, value in first.items() if value != definition.settings[name])
            one, other = shown(first[name]), shown(definition.settings[name])
            raise UserError(
                f"--setting {name}: '{one}' and '{other}' would have one curve, {definition.family}:"
                " leave one of them out"
            )


def joined(definitions: Sequence[Definition]) -> list[Definition]:
    """Make one of definitions that build the same index, so that it is built once for all their points."""
    found: dict[tuple[str, str, str], Definition] = {}
    for definition in definitions:
        key = (str(definition), definition.module, definition.constructor)
        if key in found:
            points = found[key].points() + definition.points()
            # A point that sets no arguments is measured before others have set theirs.
            definition = replace(found[key], query_argument_groups=sorted(points, key=bool))
        found[key] = definition
    return list(found.values())
