"""Whether a published division has every point of its run groups, and no others."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

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


class Required(NamedTuple):
    """What the series of a step differ in, None for any. `servers` is as the names of curves have it."""

    dataset: str | None = None
    algorithm: str | None = None
    clients: int | None = None
    filter: str | None = None
    servers: str | None = None

    def holds(self, point: CheckedPoint) -> bool:
        """Whether a point is of it."""
        series = point.series
        servers = "-".join(series.parts("servers"))
        has = (point.dataset, series.algorithm, series.clients or 1, series.filter, servers)
        return all(one in (None, other) for one, other in zip(self, has, strict=True))

    def __str__(self) -> str:
        on = "-".join(filter(None, [shown(str(self.algorithm)), self.servers]))
        by = "" if self.clients is None else f" by {self.clients} clients"
        return f"{on}{by}{f' under {self.filter}' if self.filter else ''}"


class Expected(NamedTuple):
    """What one step is to measure, by default anything.

    `groups` are the run groups of some algorithms instead of their config's.
    """

    kinds: Sequence[Required] = (Required(),)
    groups: Mapping[str, Any] | None = None

    def fits(self, point: CheckedPoint) -> bool:
        """Whether a point may be of the step."""
        return any(kind.holds(point) for kind in self.kinds)

    def missing(self, firsts: Sequence[CheckedPoint]) -> list[Required]:
        """Return the kinds of series that are not there; `firsts` have a point of each curve."""
        named = (kind for kind in self.kinds if kind.dataset)
        return [kind for kind in named if not any(map(kind.holds, firsts))]

    def files(self, point: CheckedPoint, are_given: bool, targets: set[float]) -> list[set[str]]:
        """Return the files of a point's curve with each index of its algorithm that has run groups.

        They have the query arguments that `are_given`, and those that were searched for `targets`. A bundle
        does not state the type of its points, so each possible type counts.
        """
        configs = replace_run_groups(known_configs(), self.groups or {})
        dataset, found = point.facts, defaultdict[str, set[str]](set)
        searched = [[f"target_recall={target:g}"] for target in targets]
        for point_type in POINT_TYPES:
            facts = (point.dataset, dataset.rows, dataset.dimension, dataset.metric, point_type)
            data = Data(*facts, filtered=bool(point.series.filter))
            for one in get_definitions(configs, data, point.count):
                if one.algorithm == point.series.algorithm and not one.disabled:
                    for query in [*(one.points() if are_given else []), *searched]:
                        place = result_path(point.dataset, point.count, point.folder, one.arguments + query)
                        found[f"{point_type} {one.arguments}"].add(place.as_posix())
        return [*found.values()]


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
    return [
        expected_of(step) for step in steps if not step.get("skip") and "workload" not in step.get("run", {})
    ]


def _merged(step: Mapping[str, Any], is_mini: bool) -> dict[str, Any]:
    """Return a step, or its miniature, whose mappings are merged with the step's."""
    found = {key: value for key, value in step.items() if key != "mini"}
    for key, value in (step.get("mini") or {}).items() if is_mini else ():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if both else value
    return found


def expected_of(step: Mapping[str, Any]) -> Expected:
    """Return what a step is to measure."""
    request = read_request([*_words(step["run"])])
    algorithms = [word.partition(":")[0] for word in request.algorithm]
    servers = [str(one) for one in request.servers]
    how = request.clients or [None], request.filters or [""], servers
    kinds = [Required(*one) for one in product([request.dataset], algorithms, *how)]
    return Expected(kinds, step.get("groups"))


def _words(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command line of a step's options."""
    takes_words = {option_name(one.name) for one in fields(CommandLine) if "nargs" in one.metadata}
    for name, value in run.items():
        if value is None or value is False:
            continue
        yield (option := f"--{name}")
        several = [str(one) for one in (value if isinstance(value, list) else [value]) if one is not True]
        yield from several if option in takes_words or not several else [",".join(several)]


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
        for kind in [kind for step in steps for kind in step.missing([curve[0] for curve in curves])]:
            findings.refuse(f"results/{kind.dataset}", "complete", f"it lacks a series of {kind}")


def _check_curve(curve: Sequence[CheckedPoint], steps: Sequence[Expected], opened: OpenedBundle) -> None:
    """Compare the points of a curve with the index of a step that has the most of them."""
    first, findings, have = curve[0], opened.findings, {point.file for point in curve}
    targets = {point.target for point in curve}
    searched = {target for target in targets if target is not None}
    fitting = [step for step in steps if step.fits(first)]
    expected = [files for step in fitting for files in step.files(first, None in targets, searched)]
    if not expected:
        place = f"results/{first.dataset}/{first.count}/{first.folder}"
        what = f"no run group has '{shown(first.series.algorithm)}' on this dataset"
        findings.refuse(place, "division", what)
        return
    for file in sorted(have.difference(*expected)):
        findings.refuse(file, "division", "has arguments that no run group has")
    best = max(expected, key=lambda names: (len(have & names), -len(names)))
    for file in sorted(best - have - {*opened.files}):
        findings.refuse(file, "complete", "is missing from its curve")


def check_clients_alike(points: Sequence[CheckedPoint], findings: Findings, refuses: bool) -> None:
    """Refuse indexes that were measured by some of the numbers of clients that others were measured by."""
    measured: dict[tuple[str, int, Series], dict[str, set[int]]] = {}
    for point in points:
        if point.series.is_open or point.series.clients is None:
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
