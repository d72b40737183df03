"""What a published division is to measure: the points of the run groups of an experiment or of config.yml."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.data.filters import canonical_filter
from ann_benchmarks.definitions.configs import Config, read_configs
from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER, Data, get_definitions
from ann_benchmarks.definitions.servers import ENGINES, Replicas, every_pooled, every_shards
from ann_benchmarks.fields.series import Series

from ..manifest import BundledDataset, Manifest

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
NONE = "none"
POINT_TYPES = ("float", "bit", "int", "sparse")
QueryArguments = Sequence[list[Any]]


@dataclass(frozen=True)
class Expected:
    """What one step is to measure, or all that config.yml has; an empty list means that all are allowed.

    `groups` are the run groups of some algorithms instead of their config's.
    """

    datasets: Sequence[str] = ()
    algorithms: Sequence[str] = ()
    clients: Sequence[int] = ()
    filters: Sequence[str] = ()
    groups: Mapping[str, Any] | None = None
    servers: Sequence[str] = ("",)  # of an experiment: what answers, as the names of curves have it

    def indexes(
        self, algorithm: str, name: str, dataset: BundledDataset, count: int, is_filtered: bool
    ) -> Iterator[dict[str, QueryArguments]]:
        """Yield the query arguments of each index of an algorithm, by its build arguments as JSON.

        A bundle does not say of which type its points are: there is a mapping for each that may be.
        """
        configs = [self._with_groups(config) for config in _configs()]
        for point_type in POINT_TYPES:
            found: dict[str, list[list[Any]]] = {}
            facts = (name, dataset.rows, dataset.dimension, dataset.metric, point_type)
            for one in get_definitions(configs, Data(*facts, filtered=is_filtered), count):
                if one.algorithm == algorithm and not one.disabled:
                    found.setdefault(json.dumps(one.arguments), []).extend(one.points())
            if found:
                yield dict(found)

    def _with_groups(self, config: Config) -> Config:
        groups = self.groups or {}
        entries = {
            point_type: {
                metric: [
                    entry | {"run_groups": groups[entry["name"]], "more_run_groups": {}}
                    if entry["name"] in groups
                    else entry
                    for entry in listed
                ]
                for metric, listed in metrics.items()
            }
            for point_type, metrics in config.entries.items()
        }
        return replace(config, entries=entries)


def expected_of(folder: Path, manifest: Manifest) -> list[Expected]:
    """Return what the bundle is to hold; UserError where its experiment is none of the project's."""
    if manifest.experiment is None:
        return [Expected()]
    own = YamlFile(folder / "experiment.yml", "an experiment").content
    name = manifest.experiment.removesuffix("-mini") if manifest.mini else manifest.experiment
    known = EXPERIMENTS / f"{name}.yml"
    if not known.is_file() or YamlFile(known, "an experiment").content != own:
        raise UserError(f"it is no experiment '{name}' of this release")
    steps = [_merged(step, manifest.mini) for step in own["steps"]]
    return [_step(step) for step in steps if not step.get("skip") and "workload" not in step.get("run", {})]


def _merged(step: Mapping[str, Any], is_mini: bool) -> dict[str, Any]:
    """Return a step, or its miniature, whose mappings are merged with the step's."""
    found = {key: value for key, value in step.items() if key != "mini"}
    for key, value in (step.get("mini") or {}).items() if is_mini else ():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if both else value
    return found


def _step(step: Mapping[str, Any]) -> Expected:
    run = step.get("run", {})
    return Expected(
        datasets=_words(run.get("dataset")),
        algorithms=[word.partition(":")[0] for word in _words(run.get("algorithm"))],
        clients=[int(word) for word in _words(run.get("clients")) if word.isdecimal()],
        filters=[canonical_filter(word) for word in _words(run.get("filter"))],
        groups=step.get("groups"),
        servers=_servers(run),
    )


def servers_text(series: Series) -> str:
    """Return what answers the queries of a series, "" for one server."""
    return "-".join(series.parts("servers"))


def _servers(run: Mapping[str, Any]) -> list[str]:
    """Return every combination of shards, poolers and replicas that a step names."""
    counts = _numbers(run.get("shards")) or [0]
    engines = _words(run.get("shard-engine")) or [ENGINES[0]]
    shards = every_shards(counts, engines, _numbers(run.get("shard-probes")) or [1])
    names = [None if name == NONE else name for name in _words(run.get("pooler")) or [NONE]]
    poolers = [str(one) for one in every_pooled(names, _numbers(run.get("pool-size")) or [None])]
    replicas = [str(Replicas(count)) for count in _numbers(run.get("replicas")) or [0]]
    each = product([str(one) for one in shards], poolers, replicas)
    return list(dict.fromkeys("-".join(filter(None, names)) for names in each))


def _numbers(value: Any) -> list[int]:
    """Return the numbers of an option, of which 'none' is 0."""
    return [0 if word == NONE else int(word) for word in _words(value)]


def _words(value: Any) -> list[str]:
    """Return the values of an option, which are a list, or words separated by commas."""
    values: Iterable[Any] = value if isinstance(value, list) else [] if value is None else [value]
    return [word.strip() for one in values for word in str(one).split(",")]


def _configs() -> list[Config]:
    if not _known:
        _known.extend(read_configs(DEFINITIONS_FOLDER)[0])
    return _known


_known: list[Config] = []
