"""A bundle checked: every file, every point, what they say together, and what a reviewer reads of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.numbers import counted, size_text
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.statistics.intervals import interval_text

from ..copies import private_in_file
from ..manifest import MANIFEST, Manifest
from ..patterns import IN_WORDS
from ..private import Private
from .claims import check_claims, check_report, check_system
from .complete import check_complete
from .conditions import AGAIN, check_age, check_conditions, memory_problems, target_problems
from .curves import Copies, mixed, out_of_turn, overlapping, repeated, swapped
from .figures import answer_remarks, figure_problems, impossible_answers
from .identity import contradictions, dataset_problems, series_problems
from .points import RECORD, CheckedPoint, open_bundle
from .reading import opened_file, read_json
from .rules import Findings
from .timings import timing_problems
from .vectors import RealVectors

RESTORE = "restore the file, or measure the point again"
MEASURE = "measure the point again"
LEAVE_OUT = "leave one of them out"
FOREIGN = (
    "has no series, as of an earlier version or of ann-benchmarks, or no seconds of its runs or mark of truth"
)
# What each point keeps: the rule, what yields how it is broken, and what to do then.
POINT_RULES: tuple[tuple[str, Callable[[CheckedPoint], Iterable[str]], str], ...] = (
    ("attributes", contradictions, RESTORE),
    ("series", series_problems, RESTORE),
    ("dataset", dataset_problems, RESTORE),
    ("timings", timing_problems, MEASURE),
    ("target", target_problems, AGAIN),
    ("tier", memory_problems, AGAIN),
)
# What all points keep together; the files that break it are yielded, too.
TOGETHER: tuple[tuple[str, Callable[[Sequence[CheckedPoint]], Iterable[tuple[str, str]]], str], ...] = (
    ("timings", overlapping, "measure one point after the other"),
    ("timings", out_of_turn, MEASURE),
    ("mixed", mixed, "measure the curve anew, or hand in two"),
    ("duplicate", repeated, LEAVE_OUT),
    ("series", swapped, "give the files their own names"),
)
MOST_WARNINGS = 30


@dataclass(frozen=True)
class CheckedBundle:
    """What a check has found; without a manifest that cannot be read."""

    findings: Findings
    manifest: Manifest | None = None
    points: Sequence[CheckedPoint] = ()  # without their arrays
    records: Sequence[str] = field(default_factory=list)  # files of workloads that write
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
    claimed = {claim.file for claim in manifest.claims}
    points, copies = [], Copies()
    with RealVectors(data, manifest, findings) if compares_data else nullcontext() as real:
        if real is not None:
            real.check_truth(opened.truths)
        for point in opened.points():
            if point.is_foreign:
                findings.refuse(point.file, "readable", FOREIGN, MEASURE)
                continue
            check_point(point, point.file in claimed, findings, real)
            findings.refuse_each(point.file, "duplicate", copies.problems(point), LEAVE_OUT)
            points.append(point.drop_arrays())
    for rule, problems, advice in TOGETHER:
        for file, problem in problems(points):
            findings.refuse(file, rule, problem, advice)
    check_age(points, manifest, now, findings)
    check_complete(folder, manifest, points, set(files), findings)
    check_claims(manifest, {point.file: point for point in points}, files, findings)
    check_report(folder, files, points, findings)
    check_system(folder, files, points, findings)
    private = Private((), [point.attrs for point in points])
    for file in (MANIFEST, *files):
        try:
            found = set(private_in_file(folder / file, private, manifest.contact, opened_file))
        except UserError as error:
            if not file.endswith(".hdf5"):  # else the reading of results says why
                findings.refuse(file, "private", str(error), "leave it out")
            continue
        facts = (f"has {IN_WORDS[kind]} {where}" for kind, where in sorted(found))
        findings.refuse_each(file, "private", facts, "replace it, and write the bundle again")
    records = [file for file in files if file.endswith(RECORD)]
    for file in records:  # nothing else of them is checked
        try:
            if not isinstance(read_json(folder / file), dict):
                raise UserError("must be the record of a workload")
        except UserError as error:
            findings.refuse(file, "readable", str(error), "write the bundle again")
    return CheckedBundle(findings, manifest, points, records, compares_data)


def check_point(
    point: CheckedPoint, is_claimed: bool, findings: Findings, real: RealVectors | None = None
) -> None:
    """Check a point by itself, with the real vectors where they are given."""
    for rule, problems, advice in POINT_RULES:
        findings.refuse_each(point.file, rule, problems(point), advice)
    if problems_of_answers := impossible_answers(point):
        findings.refuse_each(point.file, "answers", problems_of_answers, MEASURE)
    else:
        for remark in answer_remarks(point):
            findings.warn(point.file, "answers", remark)
        findings.refuse_each(point.file, "figures", figure_problems(point), MEASURE)
        if real is not None:
            real.check_point(point)
    check_conditions(point, is_claimed, findings)


def summary(checked: CheckedBundle) -> Iterator[str]:
    """Yield what a reviewer reads: who, which machine, versions, data and claims."""
    manifest = checked.manifest
    if manifest is not None:
        for name, text in _head(checked, manifest):
            yield f"{name + ':':<13}{one_line(text, 300)}"
        for name, dataset in sorted(manifest.datasets.items()):
            kinds = f", filters {', '.join(dataset.filters)}" if dataset.filters else ""
            yield (
                f"{'dataset:':<13}{name}: {dataset.rows:,} rows of {dataset.dimension:,}, {dataset.metric},"
                f" {dataset.queries:,} queries, fingerprint {dataset.fingerprint}{kinds}"
            )
        for claim in manifest.claims:
            yield (
                f"{'claim:':<13}{claim.dataset}, {claim.series}: recall {claim.recall:.4f},"
                f" {claim.qps:.5g} queries/s{interval_text((claim.qps_low, claim.qps_high))}"
            )
        yield ""
    kinds_of_warnings: dict[tuple[str, str], list[str]] = {}
    for finding in checked.findings.warnings:
        kinds_of_warnings.setdefault((finding.rule, finding.text), []).append(finding.file)
    for (rule, text), files in list(kinds_of_warnings.items())[:MOST_WARNINGS]:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"warning: {files[0]}{more}: [{rule}] {text}"
    if len(kinds_of_warnings) > MOST_WARNINGS:
        yield f"warning: and {len(kinds_of_warnings) - MOST_WARNINGS} more kinds"
    if manifest is not None and not checked.compared_with_data:
        yield (
            "Not compared with the vectors: distances and true neighbours are consistent with each other at"
            " most. Compare them with --data."
        )
    if checked.records:
        yield f"{counted(len(checked.records), 'record')} of workloads that write were not recomputed."
    if refused := checked.findings.refused:
        rules = Counter(finding.rule for finding in refused)
        text = ", ".join(f"{rule} {number}" for rule, number in sorted(rules.items()))
        yield f"refused: {counted(len(refused), 'finding')} ({text}); the rules are in docs/rules.md"
    else:
        yield f"passed, with {counted(len(checked.findings.warnings), 'warning')}"


def _head(checked: CheckedBundle, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the lines above the claims, each with its name."""
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
