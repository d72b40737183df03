"""Whether a published division has every point of its run groups, and no others."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ann_benchmarks.common.cli import option_name
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER, shared
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.definitions.configs import Config, read_configs, replace_run_groups
from ann_benchmarks.definitions.definition import Data, get_definitions
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.file import result_path
from ann_benchmarks.run.command_line import CommandLine
from ann_benchmarks.run.request import read_request

from ..files import EXPERIMENT
from ..manifest import PUBLISHED, Manifest
from .curves import curves_of
from .points import CheckedPoint, OpenedBundle
from .rules import Findings

EXPERIMENTS = shared("experiments")
POINT_TYPES = ("float", "bit", "int", "sparse")


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

    def fits(self, point: CheckedPoint) -> bool:
        """Whether a point may be of the step."""
        series = point.series
        return (
            (not self.datasets or point.dataset in self.datasets)
            and (not self.algorithms or series.algorithm in self.algorithms)
            and (not self.clients or (series.clients or 1) in self.clients)
            and (series.filter in self.filters if self.filters else not (series.filter and self.datasets))
            and (not self.datasets or _servers_text(series) in self.servers)
        )

    def indexes(self, point: CheckedPoint) -> Iterator[dict[str, list[list[Any]]]]:
        """Yield the query arguments of each index of a point's algorithm, by its build arguments as JSON.

        A bundle does not say of which type its points are: there is a mapping for each that may be.
        """
        configs = replace_run_groups(known_configs(), self.groups or {})
        dataset, series = point.facts, point.series
        for point_type in POINT_TYPES:
            found: dict[str, list[list[Any]]] = defaultdict(list)
            facts = (point.dataset, dataset.rows, dataset.dimension, dataset.metric, point_type)
            data = Data(*facts, filtered=bool(series.filter))
            for one in get_definitions(configs, data, point.count):
                if one.algorithm == series.algorithm and not one.disabled:
                    found[json.dumps(one.arguments)] += one.points()
            if found:
                yield dict(found)


@cache
def known_configs() -> list[Config]:
    """Return what the plug-ins of this release say of their arguments."""
    return read_configs(DEFINITIONS_FOLDER)[0]


def expected_steps(folder: Path, manifest: Manifest) -> list[Expected]:
    """Return what the bundle is to hold; UserError where its experiment is not one of the project's."""
    if manifest.experiment is None:
        return [Expected()]
    own = YamlFile(folder / EXPERIMENT, "an experiment").content
    name = manifest.experiment.removesuffix("-mini") if manifest.mini else manifest.experiment
    known = EXPERIMENTS / f"{name}.yml"
    if not known.is_file() or YamlFile(known, "an experiment").content != own:
        raise UserError(f"it is not the experiment '{name}' of this release")
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
    request = read_request([*_words(run)])
    return Expected(
        datasets=[request.dataset] if "dataset" in run else [],
        algorithms=[word.partition(":")[0] for word in request.algorithm],
        clients=request.clients,
        filters=request.filters,
        groups=step.get("groups"),
        servers=[str(one) for one in request.servers],
    )


def _words(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command line of a step's options."""
    takes_words = {option_name(one.name) for one in fields(CommandLine) if "nargs" in one.metadata}
    for name, value in run.items():
        if value is None or value is False:
            continue
        yield (option := f"--{name}")
        several = [str(one) for one in (value if isinstance(value, list) else [value]) if one is not True]
        yield from several if option in takes_words or not several else [",".join(several)]


def _servers_text(series: Series) -> str:
    """Return what answers the queries of a series, "" for one server."""
    return "-".join(series.parts("servers"))


def check_complete(opened: OpenedBundle, points: Sequence[CheckedPoint]) -> None:
    """Refuse a published division that lacks points, or has arguments that no run group has.

    A result that cannot be judged is not missing.
    """
    manifest, findings = opened.manifest, opened.findings
    if manifest.experiment is None:  # the steps of one have numbers of clients of their own
        check_clients_alike(points, findings, manifest.division == PUBLISHED)
    if manifest.division != PUBLISHED:
        return
    with findings.refusing(EXPERIMENT, "division"):
        steps, curves = expected_steps(opened.folder, manifest), list(curves_of(points))
        for curve in curves:
            _check_curve(curve, steps, opened)
        for step in steps:
            for dataset, what in missing_series(step, [curve[0] for curve in curves]):
                findings.refuse(f"results/{dataset}", "complete", what)


def _check_curve(curve: Sequence[CheckedPoint], steps: Sequence[Expected], opened: OpenedBundle) -> None:
    """Compare the points of a curve with the step that has the most of them.

    Points at a recall have searched for their own query arguments, and no others are expected beside them.
    """
    first, findings = curve[0], opened.findings
    targets = {point.target for point in curve}
    searched = [[f"target_recall={target:g}"] for target in targets if target is not None]
    are_given = None in targets
    expected = [
        {
            result_path(first.dataset, first.count, first.folder, json.loads(build) + query).as_posix()
            for build, queries in indexes.items()
            for query in [*(queries if are_given else []), *searched]
        }
        for step in steps
        if step.fits(first)
        for indexes in step.indexes(first)
    ]
    have = {point.file for point in curve}
    if not any(expected):
        what = f"no run group has '{shown(first.series.algorithm)}' on this dataset"
        place = f"results/{first.dataset}/{first.count}/{first.folder}"
        findings.refuse(place, "division", what)
        return
    for file in sorted(have.difference(*expected)):
        findings.refuse(file, "division", "has arguments that no run group has")
    best = max(expected, key=lambda names: (len(have & names), -len(names)))
    for file in sorted(best - have - {*opened.files}):
        findings.refuse(file, "complete", "is missing from its curve")


def missing_series(step: Expected, firsts: Sequence[CheckedPoint]) -> Iterator[tuple[str, str]]:
    """Yield each dataset of a step, and which series it lacks, by algorithm, clients, filter and servers.

    `firsts` have a point of each curve.
    """
    how = step.clients or (None,), step.filters or [""], step.servers
    for dataset, algorithm, clients, filter_set, servers in product(step.datasets, step.algorithms, *how):
        if not any(
            point.dataset == dataset
            and point.series.algorithm == algorithm
            and clients in (None, point.series.clients or 1)
            and point.series.filter == filter_set
            and _servers_text(point.series) == servers
            for point in firsts
        ):
            on = "-".join(filter(None, [shown(algorithm), servers]))
            by = "" if clients is None else f" by {clients} clients"
            under = f" under {filter_set}" if filter_set else ""
            yield dataset, f"it lacks a series of {on}{by}{under}"


def check_clients_alike(points: Sequence[CheckedPoint], findings: Findings, refuses: bool) -> None:
    """Refuse indexes that were measured by some of the numbers of clients that others were measured by."""
    measured: dict[tuple[str, int, Series], dict[str, set[int]]] = {}
    for point in points:
        if point.is_open or point.series.clients is None:
            continue
        plain = point.series.drop("algorithm", "servers", "settings", "environment", "clients")
        own = f"{point.series.drop('clients').folder}/{point.name}.hdf5"
        by_point = measured.setdefault((point.dataset, point.count, plain), {})
        by_point.setdefault(own, set()).add(point.series.clients)
    for (dataset, count, _), by_point in measured.items():
        every = set[int]().union(*by_point.values())
        for own, mine in sorted(by_point.items()):
            if lacking := sorted(every - mine):
                what = f"was not measured by {', '.join(map(str, lacking))} clients, as others were"
                file = f"results/{dataset}/{count}/{own}"
                (findings.refuse if refuses else findings.warn)(file, "complete", what)
