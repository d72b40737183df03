"""Whether a published division has every point of its run groups, and no others."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.file import result_path

from ..manifest import PUBLISHED, Manifest
from .expected import Expected, QueryArguments, expected_of, servers_text
from .points import CheckedPoint
from .rules import Findings

ADVICE = "measure and add it, or hand the bundle in under the open division"
Curve = tuple[str, int, str]
Place = tuple[str, int, Series]


def check_complete(
    folder: Path,
    manifest: Manifest,
    points: Sequence[CheckedPoint],
    files: Collection[str],
    findings: Findings,
) -> None:
    """Refuse a published division that lacks points, or has arguments that no run group has.

    `files` are those of the bundle: a result among them that cannot be judged is not missing.
    """
    if manifest.experiment is None:  # whose steps have numbers of clients of their own
        check_clients_alike(points, findings, manifest.division == PUBLISHED)
    if manifest.division != PUBLISHED:
        return
    try:
        steps = expected_of(folder, manifest)
    except UserError as error:
        findings.refuse("experiment.yml", "division", str(error), "hand it in under the open division")
        return
    curves: dict[Curve, list[CheckedPoint]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    for curve in curves.values():
        if not any("target_parameter" in point.attrs for point in curve):
            _check_curve(curve, steps, manifest, files, findings)
    for step in steps:
        _check_step(step, curves.values(), findings)


def _check_curve(
    curve: Sequence[CheckedPoint],
    steps: Sequence[Expected],
    manifest: Manifest,
    files: Collection[str],
    findings: Findings,
) -> None:
    """Compare the points of a curve with the step that has the most of them."""
    first = curve[0]
    series, dataset = first.series, manifest.datasets[first.dataset]
    own = (series.algorithm, first.dataset, dataset, first.count, bool(series.filter))
    fitting = [step for step in steps if _fits(step, first)]
    expected = [_names(first, indexes) for step in fitting for indexes in step.indexes(*own)]
    have = {point.name for point in curve}
    place = f"results/{first.dataset}/{first.count}/{first.folder}"
    if not any(expected):
        what = f"no run group has '{shown(series.algorithm)}' on this dataset"
        findings.refuse(place, "division", what, "hand it in under the open division")
        return
    known = set().union(*expected)
    for name in sorted(have - known):
        what = "has arguments that no run group has"
        findings.refuse(f"{place}/{name}.hdf5", "division", what, "hand it in under the open division")
    best = max(expected, key=lambda names: (len(have & names), -len(names)))
    for file in sorted(f"{place}/{name}.hdf5" for name in best - have):
        if file not in files:
            findings.refuse(file, "complete", "is missing from its curve", ADVICE)


def _names(point: CheckedPoint, indexes: Mapping[str, QueryArguments]) -> set[str]:
    """Return the names of the files of all points of some indexes."""
    return {
        result_path(point.dataset, point.count, point.folder, json.loads(build) + query).stem
        for build, every in indexes.items()
        for query in every
    }


def _fits(step: Expected, point: CheckedPoint) -> bool:
    """Whether a point may be of a step."""
    series = point.series
    return (
        (not step.datasets or point.dataset in step.datasets)
        and (not step.algorithms or series.algorithm in step.algorithms)
        and (not step.clients or (series.clients or 1) in step.clients)
        and (series.filter in step.filters if step.filters else not (series.filter and step.datasets))
        and (not step.datasets or servers_text(series) in step.servers)
    )


def _check_step(step: Expected, curves: Iterable[Sequence[CheckedPoint]], findings: Findings) -> None:
    """Refuse an experiment without a curve of each algorithm, number of clients and filter of a step."""
    firsts = [curve[0] for curve in curves]
    how = step.clients or (None,), step.filters or [""], step.servers
    for dataset, algorithm, clients, filter_set, servers in product(step.datasets, step.algorithms, *how):
        found = any(
            point.dataset == dataset
            and point.series.algorithm == algorithm
            and clients in (None, point.series.clients or 1)
            and point.series.filter == filter_set
            and servers_text(point.series) == servers
            for point in firsts
        )
        if not found:
            on = "-".join(filter(None, [shown(algorithm), servers]))
            by = "" if clients is None else f" by {clients} clients"
            under = f" under {filter_set}" if filter_set else ""
            what = f"there is no series of {on}{by}{under}"
            findings.refuse(f"results/{dataset}", "complete", what, ADVICE)


def check_clients_alike(points: Sequence[CheckedPoint], findings: Findings, refuses: bool) -> None:
    """Refuse indexes that were measured by some of the numbers of clients that others were measured by."""
    numbers: dict[Place, set[int]] = {}
    by_point: dict[Place, dict[str, set[int]]] = {}
    for point in points:
        if point.is_open or point.series.clients is None:
            continue
        plain = point.series.without("algorithm", "servers", "settings", "environment", "clients")
        where = (point.dataset, point.count, plain)
        own = f"{point.series.without('clients').folder}/{point.name}.hdf5"
        numbers.setdefault(where, set()).add(point.series.clients)
        by_point.setdefault(where, {}).setdefault(own, set()).add(point.series.clients)
    for where, every in by_point.items():
        for own, mine in sorted(every.items()):
            if lacking := sorted(numbers[where] - mine):
                what = f"was not measured by {', '.join(map(str, lacking))} clients, as others were"
                file = f"results/{where[0]}/{where[1]}/{own}"
                if refuses:
                    findings.refuse(file, "complete", what, ADVICE)
                else:
                    findings.warn(file, "complete", what)
