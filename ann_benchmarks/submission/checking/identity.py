"""Whether a result lies where its series and arguments say, and says one thing of itself."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from ann_benchmarks.definitions.servers import ROUTED
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.results.file import LONGEST_NAME

from ..files import without_brackets
from ..manifest import BundledDataset
from .arithmetic import Neighborhood
from .points import CheckedPoint
from .rules import Findings
from .tiers import other_server
from .truth import mark_of

RELEASES = {"pgvector": "vector_version", "vchord": "vchord_version", "pgvectorscale": "vectorscale_version"}
ROUNDING = 1e-9  # of a share
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def check_identity(
    point: CheckedPoint, dataset: BundledDataset, truth: Neighborhood, findings: Findings
) -> None:
    """Refuse a point whose attributes contradict each other, its place or its dataset."""
    advice = "restore the file, or measure the point again"
    for name in point.stored.contradictions:
        what = f"holds its attribute '{name}' twice, with two values"
        findings.refuse(point.file, "attributes", what, advice)
    attrs, series = point.attrs, point.series
    if (folder := without_brackets(series.folder)) != point.folder:
        what = f"its series is '{folder}', and it lies in '{point.folder}'"
        findings.refuse(point.file, "series", what, advice)
    if (said := attrs.get("algo")) != series.label:
        findings.refuse(
            point.file, "series", f"says algo '{said}', and its series is '{series.label}'", advice
        )
    others = other_fields(point), _other_load(point), _other_shards(point, dataset.rows), other_server(point)
    for what in chain.from_iterable(others):
        findings.refuse(point.file, "series", what, advice)
    _check_version(point, findings, advice)
    check_name(point, findings, advice)
    expected_of = {"dataset": point.dataset, "count": point.count, "distance": dataset.metric}
    for name, value in expected_of.items():
        if attrs.get(name) != value:
            what = f"says {name} {attrs.get(name)}, and the bundle {value}"
            findings.refuse(point.file, "dataset", what, advice)
    if truth.matches is not None:
        share, said = float(truth.matches.mean()) / dataset.rows, point.number("selectivity")
        if said is None or abs(said - share) > ROUNDING:
            what = f"says selectivity {said}, and {share:.6g} of the rows pass its filters"
            findings.refuse(point.file, "dataset", what, advice)
    mark = mark_of(truth.distances[:, : point.count])
    if attrs.get("truth") != mark:
        what = f"was measured against true neighbours with the mark {attrs.get('truth')}, not {mark}"
        findings.refuse(point.file, "dataset", what, "add the results of this dataset alone")


def other_fields(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point says another thing of itself than the fields of its series."""
    for field in FIELDS.values():
        name, expected = field.attribute, getattr(point.series, field.name)
        said, is_special = point.attrs.get(name), expected != field.default
        if name and said is None and is_special:
            yield f"does not say {name}, and its series does"
        elif said is not None and said != expected and (is_special or not field.is_also_measured):
            yield f"says {name} {said}, and its series {expected}"
        name, is_number = field.evidence, field.kind is int
        there = len(point.numbers(name)) if is_number else name in point.attrs
        if name and there != ((expected or 0) if is_number else is_special):
            of_them = f"of {there} {field.id}" if is_number else point.attrs.get(name)
            yield f"says {name} {of_them}, and its series '{expected or ''}'"


def _other_load(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point was measured under another load than its series says."""
    attrs, series = point.attrs, point.series
    if point.is_open != series.is_open:
        at = "a rate" if series.is_open else "no rate"
        yield f"says loop {attrs.get('loop')}, and its series has {at}"
    if series.is_cold and attrs.get("warmup") != "off":
        yield f"says warmup {attrs.get('warmup')}, and its series is cold"
    read = [point.number(f"{what}_blocks_read_per_query") for what in ("index", "table")]
    if series.is_cold and attrs.get("caches_dropped") and None not in read and not any(read):
        yield "its server has read no block in its runs, and its series is cold"


def _other_shards(point: CheckedPoint, rows: int) -> Iterator[str]:
    """Yield in what a point was measured on other shards than its series says."""
    series, sizes = point.series, point.numbers("shard_rows")
    count, probes = series.shards or 0, series.shard_probes
    on = f"{series.shards or 'no'} shards asked by '{series.shard_engine}'"
    if (series.shards is None) != (series.shard_engine == ""):
        yield f"has a series of {on}"
    elif (probes is None) == (series.shard_engine == ROUTED) or not 0 < (probes or 1) <= max(count, 1):
        yield f"has a series of {on}, {probes} of them"
    elif (sizes or probes) and (len(sizes) != count or sum(sizes) != rows):
        yield f"says {sum(sizes):,.0f} rows of {len(sizes)} shards, and has {rows:,} on {on}"
    elif probes:
        share, ordered = point.number("searched_rows_share"), sorted(sizes)
        least, most = sum(ordered[:probes]) / rows, sum(ordered[-probes:]) / rows
        if share is None or not least - ROUNDING <= share <= most + ROUNDING:
            what = f"{probes} of its shards have {least:.3g} to {most:.3g} of the rows"
            yield f"says searched_rows_share {share}, and {what}"


def _check_version(point: CheckedPoint, findings: Findings, advice: str) -> None:
    """A tag that is a release is that of the attribute, where the plug-in stores one."""
    tag = point.series.version
    if not re.fullmatch(r"v?\d+(\.\d+)+", tag):
        return
    for stem, name in RELEASES.items():
        said = point.attrs.get(name)
        if point.series.algorithm.startswith(stem) and said is not None and str(said) != tag.lstrip("v"):
            what = f"says {name} {said}, and its series the version {tag}"
            findings.refuse(point.file, "series", what, advice)


def check_name(point: CheckedPoint, findings: Findings, advice: str) -> None:
    """The name of a file is made of the build arguments, which are stored, and the query arguments."""
    build = point.build_arguments
    if build is None:
        findings.refuse(point.file, "series", "does not say its build arguments", advice)
        return
    if len(point.name) < LONGEST_NAME and not point.name.startswith(tuple(_names(build))):
        what = f"its build arguments are {json.dumps(build)}, which its name does not begin with"
        findings.refuse(point.file, "series", what, advice)
    target = point.target
    if "target_parameter" not in point.attrs or len(point.name) >= LONGEST_NAME:
        return
    if target is None or point.name not in _names(build, f"target_recall={target:g}"):
        what = f"was searched for a recall of {target}, which its name does not say"
        findings.refuse(point.file, "series", what, advice)


def file_name(arguments: list[object]) -> str:
    """Return the name of the file of arguments, as result files have it, where it is not too long."""
    return re.sub(r"\W+", "_", json.dumps(arguments, sort_keys=True)).strip("_")


def _names(build: list[object], *others: object) -> list[str]:
    """Return the names that arguments may have: an array of HDF5 has whole numbers as floats among others."""
    whole = [int(one) if isinstance(one, float) and one.is_integer() else one for one in build]
    return [file_name([*either, *others]) for either in (build, whole)]


def check_swapped(points: Iterable[CheckedPoint], findings: Findings) -> None:
    """Refuse files of one index whose query arguments are in the description of another file, not their own.

    A plug-in need not write its arguments into its description: only what contradicts itself is refused. The
    name of a point that was searched for has the target, and its description what was found.
    """
    groups: dict[tuple[object, ...], list[CheckedPoint]] = {}
    for point in points:
        if "target_parameter" in point.attrs:
            continue
        groups.setdefault((*point.curve, json.dumps(point.build_arguments)), []).append(point)
    for group in groups.values():
        said = {point.file: set(_NUMBER.findall(str(point.attrs.get("name")))) for point in group}
        own = {point.file: _arguments(point) for point in group}
        every: list[set[str]] = [*own.values()]
        varied = set[str]().union(*every) - every[0].intersection(*every)
        for point in group:
            numbers = own[point.file] & varied
            others = [other.file for other in group if numbers and numbers <= said[other.file]]
            if numbers and not numbers <= said[point.file] and others:
                what = f"its arguments are those that {others[0]} describes, and it describes others"
                findings.refuse(point.file, "series", what, "give the files their own names")


def _arguments(point: CheckedPoint) -> set[str]:
    build = next((name for name in _names(point.build_arguments or []) if point.name.startswith(name)), "")
    return set(_NUMBER.findall(point.name.removeprefix(build)))
