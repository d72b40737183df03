"""Whether a published division has every point of its run groups, and no others."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER, shared
from ann_benchmarks.common.yaml_file import YamlFile, merged
from ann_benchmarks.data.datasets.samples import sample_name
from ann_benchmarks.definitions.configs import Config, read_configs, replace_run_groups
from ann_benchmarks.definitions.definition import Data, get_definitions
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.file import result_path
from ann_benchmarks.run.command_line import option_words
from ann_benchmarks.run.request import read_request

from ..files import EXPERIMENT
from ..manifest import PUBLISHED, Manifest
from .curves import curves_of
from .points import CheckedPoint, OpenedBundle

EXPERIMENTS = shared("experiments")
POINT_TYPES = ("float", "bit", "int")
COMPARED = ("algorithm", "clients", "filter", "servers")  # fields that the series of a step differ in


class ExpectedStep(NamedTuple):
    """What is to be measured: series, by the fields that are compared, on a dataset; without any, anything.

    `groups` are the run groups of some algorithms instead of their config's.
    """

    dataset: str = ""
    series: Sequence[Series] = ()
    groups: Mapping[str, Any] = {}

    def has(self, point: CheckedPoint, series: Series) -> bool:
        """Whether a point is of one of its series, by any number of clients where that has none."""
        free = ("version",) if series.clients else ("version", "clients")
        is_alike = point.series.only(*COMPARED).drop(*free) == series
        return is_alike and point.dataset == self.dataset

    def fits(self, point: CheckedPoint) -> bool:
        """Whether a point may be of the step."""
        return not self.series or any(self.has(point, one) for one in self.series)

    def missing(self, firsts: Sequence[CheckedPoint]) -> list[Series]:
        """Return the series that are not there; `firsts` have a point of each curve."""
        return [one for one in self.series if not any(self.has(first, one) for first in firsts)]

    def files(self, point: CheckedPoint, are_given: bool, targets: set[float]) -> list[set[str]]:
        """Return the files of a point's curve with each index of its algorithm that has run groups.

        They have the query arguments that `are_given`, and those that were searched for `targets`. A bundle
        does not state the type of its points, so each possible type counts.
        """
        configs = replace_run_groups(known_configs(), self.groups)
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


def expected_steps(folder: Path, manifest: Manifest) -> list[ExpectedStep]:
    """Return what the bundle is to hold; UserError where its experiment is not one of the project's."""
    if manifest.experiment is None:
        return [ExpectedStep()]
    own = YamlFile(folder / EXPERIMENT, "an experiment").content
    name = manifest.experiment.removesuffix("-mini") if manifest.mini else manifest.experiment
    known = EXPERIMENTS / f"{name}.yml"
    if not known.is_file() or YamlFile(known, "an experiment").content != own:
        raise UserError(f"it is not the experiment '{name}' of this release")
    steps = [merged(step, (step.get("mini") or {}) if manifest.mini else {}) for step in own["steps"]]
    return [read_step(step) for step in steps if not step.get("skip") and "workload" not in step["run"]]


def read_step(step: Mapping[str, Any]) -> ExpectedStep:
    """Return what a step of an experiment's file is to measure."""
    request = read_request([word for option in step["run"].items() for word in option_words(*option)])
    algorithms = [word.partition(":")[0] for word in request.algorithm]
    planned = product(algorithms, request.procedures(), request.servers)
    series = [Series(name, **how.series, **servers.fields).only(*COMPARED) for name, how, servers in planned]
    dataset = sample_name(request.dataset, step.get("sample", 1))
    return ExpectedStep(dataset, [*dict.fromkeys(series)], step.get("groups", {}))


def check_complete(opened: OpenedBundle, points: Sequence[CheckedPoint]) -> None:
    """Refuse a published division that lacks points, or has arguments that no run group has.

    A result that cannot be judged is not missing.
    """
    manifest, findings = opened.manifest, opened.findings
    if manifest.division != PUBLISHED:
        return
    with findings.refusing(EXPERIMENT, "division"):
        steps, curves = expected_steps(opened.folder, manifest), list(curves_of(points))
        for curve in curves:
            _check_curve(curve, steps, opened)
        firsts = [curve[0] for curve in curves]
        for step in steps:
            for series in step.missing(firsts):
                findings.refuse(f"results/{step.dataset}", "complete", f"it lacks the series {series.label}")


def _check_curve(curve: Sequence[CheckedPoint], steps: Sequence[ExpectedStep], opened: OpenedBundle) -> None:
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
