"""A bundle checked: every file, every point, what they say together, and what a reviewer reads of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.numbers import counted, size_text
from ann_benchmarks.common.text import DAMAGE
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.records import Record, read_record
from ann_benchmarks.statistics.intervals import interval_text

from ..copies import private_in_file
from ..manifest import MANIFEST, Manifest
from ..patterns import IN_WORDS
from ..private import Private
from .attributes import attribute_problems
from .claims import check_claims, check_report, check_system
from .complete import check_complete
from .conditions import check_age, check_conditions
from .curves import TOGETHER, Copies
from .points import FOREIGN, RECORD, CheckedPoint, OpenedBundle, open_bundle
from .reading import opened_file
from .relations import RELATIONS, broken_arrays
from .rules import MEASURE, Findings
from .truth import different_distances, places, repeats, tolerance
from .vectors import RealVectors

MOST_WARNINGS = 30


@dataclass(frozen=True)
class CheckedBundle:
    """What a check has found; without a manifest that cannot be read."""

    findings: Findings
    manifest: Manifest | None = None
    points: Sequence[CheckedPoint] = ()  # without their arrays
    records: Sequence[Record] = ()  # of workloads that write
    compared_with_data: bool = False


def check_bundle(
    folder: Path, now: datetime, compares_data: bool = False, data: Path | None = None
) -> CheckedBundle:
    """Check a bundle at a time of UTC; `compares_data` with the real vectors, in `data` or by their names."""
    findings = Findings()
    opened = open_bundle(folder, findings)
    if opened is None:
        return CheckedBundle(findings)
    manifest, files = opened.manifest, opened.files
    with RealVectors(data, manifest, findings) if compares_data else nullcontext() as real:
        if real is not None:
            real.check_truth(opened.truths)
        points = check_points(opened, opened.points(), real)
    check_age(points, manifest, now, findings)
    check_complete(opened, points)
    records = list[Record]()
    for file in (name for name in files if name.endswith(RECORD)):
        with findings.refusing(file, "readable"):
            records.append(read_record(folder / file))
    check_report(opened, points)
    check_system(opened, points, records)
    private = Private((), [point.attrs for point in points])
    for file in (MANIFEST, *files):
        is_known = findings.mentions(file)  # the reading of results has said why it cannot be read
        with suppress(UserError, *DAMAGE) if is_known else findings.refusing(file, "private"):
            found = set(private_in_file(folder / file, private, manifest.contact, opened_file))
            findings.refuse(
                file, "private", *(f"has {IN_WORDS[kind]} {where}" for kind, where in sorted(found))
            )
    return CheckedBundle(findings, manifest, points, records, compares_data)


def check_points(
    opened: OpenedBundle, points: Iterable[CheckedPoint], real: RealVectors | None = None
) -> list[CheckedPoint]:
    """Check points by themselves, together, and beside the claims; return them without their arrays."""
    findings, claims, copies = opened.findings, opened.manifest.claims, Copies()
    claimed, found = {claim.file for claim in claims}, []
    for point in points:
        if point.is_foreign:
            findings.refuse(point.file, "readable", FOREIGN, advice=MEASURE)
            continue
        check_point(point, point.file in claimed, findings, real)
        findings.refuse(point.file, "duplicate", *copies.problems(point))
        found.append(point.drop_arrays())
    for rule, problems in TOGETHER:
        for file, problem in problems(found):
            findings.refuse(file, rule, problem)
    check_claims(opened, {point.file: point for point in found})
    return found


def check_point(
    point: CheckedPoint, is_claimed: bool, findings: Findings, real: RealVectors | None = None
) -> None:
    """Check a point by itself, with the real vectors where they are given."""
    if problems_of_answers := impossible_answers(point):
        findings.refuse(point.file, "answers", *problems_of_answers)
    elif real is not None:
        real.check_point(point)
    broken = list(broken_arrays(point))
    for rule, problem in (*broken, *attribute_problems(point, bool(broken))):
        findings.refuse(point.file, rule, problem)
    for rule, problems in () if broken else RELATIONS:
        findings.refuse(point.file, rule, *problems(point))
    check_conditions(point, is_claimed, findings)


def summary(checked: CheckedBundle) -> Iterator[str]:
    """Yield what a reviewer reads: who, which machine, versions, data, claims and warnings."""
    manifest, refused = checked.manifest, checked.findings.refused
    if manifest is not None:
        yield from (f"{name + ':':<13}{one_line(text, 300)}" for name, text in _facts(checked, manifest))
        yield ""
    kinds: dict[str, list[str]] = {}
    for finding in checked.findings.warnings:
        kinds.setdefault(f"[{finding.rule}] {finding.text}", []).append(finding.file)
    for text, files in list(kinds.items())[:MOST_WARNINGS]:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"warning: {files[0]}{more}: {text}"
    if len(kinds) > MOST_WARNINGS:
        yield f"warning: and {len(kinds) - MOST_WARNINGS} more kinds"
    if manifest is not None and not checked.compared_with_data:
        yield (
            "Not compared with the vectors: distances and true neighbours are consistent with each other at"
            " most. Compare them with --data."
        )
    if checked.records:
        yield f"{counted(len(checked.records), 'record')} of workloads that write were not recomputed."
    rules = Counter(finding.rule for finding in refused)
    text = ", ".join(f"{rule} {number}" for rule, number in sorted(rules.items()))
    if refused:
        yield f"refused: {counted(len(refused), 'finding')} ({text}); the rules are in docs/rules.md"
    else:
        yield f"passed, with {counted(len(checked.findings.warnings), 'warning')}"


def _facts(checked: CheckedBundle, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the lines above the warnings, each with its name."""
    points = checked.points
    experiment = f", experiment {manifest.experiment}" if manifest.experiment else ""
    release = manifest.project_version or "an unknown release"
    yield "title", manifest.title
    yield "by", manifest.contact or "no contact is given"
    yield "made", f"{manifest.made} with {release} {manifest.commit[:12]}".rstrip()
    yield "division", f"{manifest.division}{experiment}{', a miniature' * manifest.mini}"
    yield "holds", f"{counted(len(points), 'point')} in {len({point.curve for point in points}):,} series"
    yield "left out", "; ".join(manifest.left_out) or "nothing"
    machines, versions = dict[str, None](), set[str]()
    for point in points:
        attrs, memory = point.attrs, point.number("memory_bytes")
        size = memory and size_text(memory)
        parts = [attrs.get("cpu"), f"{attrs.get('cores')} cores", size, attrs.get("kernel")]
        machines.setdefault(", ".join(str(part) for part in parts if part))
        versions |= {f"{title} {attrs[name]}" for name, title in version_names(attrs).items()}
    days = [str(point.attrs.get("ended_at"))[:10] for point in points]
    yield "machine", "; ".join(machines)
    yield "versions", "; ".join(sorted(versions))
    yield "measured", f"{min(days)} to {max(days)}" if days else "nothing"
    for name, one in sorted(manifest.datasets.items()):
        filters = f", filters {', '.join(one.filters)}" if one.filters else ""
        shape = f"{one.rows:,} rows of {one.dimension:,}, {one.metric}, {one.queries:,} queries"
        yield "dataset", f"{name}: {shape}, fingerprint {one.fingerprint}{filters}"
    for claim in manifest.claims:
        qps = f"{claim.qps:.5g} queries/s{interval_text((claim.qps_low, claim.qps_high))}"
        yield "claim", f"{claim.dataset}, {claim.series}: recall {claim.recall:.4f}, {qps}"


def impossible_answers(point: CheckedPoint) -> list[str]:
    """Say which answers no search of this dataset can give, else where they contradict the truth."""
    rows, distances, truth = point.rows, point.distances, point.truth
    none, twice = rows < 0, int(repeats(rows).sum())
    rules = {
        f"has rows that a dataset of {point.facts.rows:,} has not": rows.max() >= point.facts.rows,
        f"has a row twice in the answers to {twice:,} queries": twice,
        "has rows after the end of an answer": (np.diff(none.astype(np.int8), axis=1) < 0).any(),
        "has rows without a distance, or distances without a row": (np.isposinf(distances) != none).any(),
    }
    if found := [text for text, is_broken in rules.items() if is_broken]:
        return found
    ordered = np.sort(distances, axis=1)
    width = min(ordered.shape[1], truth.distances.shape[1])
    best, last = truth.distances[:, :width], truth.distances[:, -1:]
    with np.errstate(invalid="ignore"):
        nearer = (places(truth.rows, rows) < 0) & (rows >= 0) & (distances < last - tolerance(last))
        broken = {
            "has answers to {} queries that are nearer than the true nearest rows": (
                ordered[:, :width] < best - tolerance(best)),
            "has other distances than the truth of the same rows, for {} queries": (
                different_distances(rows, distances, truth)),
            "has rows that would be among the true nearest of {} queries, and are not": nearer,
        }  # fmt: skip
    counts = {text: int(places.any(axis=1).sum()) for text, places in broken.items()}
    return [text.format(f"{count:,}") for text, count in counts.items() if count]
