"""Which definitions a run is for: by algorithm, version, image and kind of data."""

from collections.abc import Sequence
from dataclasses import replace

from ann_benchmarks.common.errors import UserError, closest

from .configs import ANY_METRIC, BrokenConfig, Config
from .definition import Data, Definition, get_definitions, supported_data
from .tags import split_tag, tagged

Named = tuple[
    str | None, str | None
]  # an algorithm and a version; None: all of them, and the one that is here


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
        raise UserError(f"there is no algorithm '{algorithm}'; {closest(algorithm, names)}")
    return [f"{config.problem}; left out" for config in broken]


def select_definitions(
    configs: Sequence[Config],
    algorithms: Sequence[Named],
    data: Data,
    count: int,
    docker_tag: str | None = None,
    run_disabled: bool = False,
) -> list[Definition]:
    """Return the requested definitions for some data; UserError says why there is none of one of them."""
    known = get_definitions(configs, data, count)
    selected = []
    for algorithm, version in algorithms:
        chosen = _of_algorithm(known, configs, algorithm, data)
        if docker_tag is not None:
            chosen = _of_image(chosen, docker_tag)
        enabled = [d for d in chosen if run_disabled or not d.disabled]
        if not enabled:
            raise UserError("nothing to run: every requested definition is disabled; add --run-disabled")
        selected += [with_version(d, version) for d in enabled]
    return selected


def _of_algorithm(
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
        file = next(config.path for config in configs if algorithm in config.names())
        raise UserError(
            f"no run group of '{algorithm}' is meant for '{data.name}' with {data.rows:,} rows:"
            f" add one to {file}"
        )
    if algorithm is not None:
        has = "; ".join(f"{points}: {', '.join(metrics)}" for points, metrics in supported[algorithm].items())
        raise UserError(f"algorithm '{algorithm}' has no definition for {kind}; it has {has}")
    if fitting:
        raise UserError(
            f"no algorithm has a run group that is meant for '{data.name}' with {data.rows:,} rows"
        )
    raise UserError(f"no algorithm has a definition for {kind}")


def _of_image(definitions: Sequence[Definition], docker_tag: str) -> list[Definition]:
    tags = list(dict.fromkeys(d.docker_tag for d in definitions))
    base, tag = split_tag(docker_tag) if docker_tag not in tags else (docker_tag, None)
    chosen = [with_version(d, tag) for d in definitions if d.docker_tag == base]
    if not chosen:
        raise UserError(f"no definition has the Docker tag '{docker_tag}'; {closest(docker_tag, tags)}")
    return chosen


def with_version(definition: Definition, version: str | None) -> Definition:
    """Mean another version of its image or release; its results make a curve of their own."""
    if version is None:
        return definition
    return replace(definition, version=version, docker_tag=tagged(definition.docker_tag, version))


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
