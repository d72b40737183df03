"""A bundle checked: every file, every point, and what they say together."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import version_names

from ..manifest import MANIFEST, Manifest, read_manifest
from .answers import check_answers
from .arithmetic import Neighborhood
from .claims import Recomputed, check_claims
from .complete import check_complete
from .conditions import check_age, check_conditions
from .curves import Duplicates, check_mixed, check_repeated
from .figures import check_figures
from .folder import check_folder
from .identity import check_identity, check_swapped
from .points import RECORD, CheckedPoint, open_point
from .private import check_private
from .reported import check_report, check_system, read_json
from .rules import Findings
from .targets import check_targets
from .timings import check_overlaps, check_timings
from .truth import Truths
from .turns import check_turns
from .vectors import RealVectors

FOUR_NUMBERS = 3  # dots of a version that looks like an address


@dataclass(frozen=True)
class CheckedBundle:
    """What a check has found; without a manifest, where there is none that can be read."""

    findings: Findings
    manifest: Manifest | None = None
    points: Sequence[CheckedPoint] = ()  # without their arrays
    claims: Sequence[Recomputed] = ()
    records: Sequence[str] = field(default_factory=list)  # files of workloads that write
    compared_with_data: bool = False


def check_bundle(
    folder: Path, now: datetime, compares_data: bool = False, data: Path | None = None
) -> CheckedBundle:
    """Check a bundle at a time of UTC; `compares_data` with the real vectors, in `data` or by their names."""
    findings = Findings()
    try:
        manifest = read_manifest(folder)
    except UserError as error:
        text = str(error).removeprefix(f"{folder / MANIFEST}: ")
        findings.refuse(MANIFEST, "manifest", text, "write the bundle with report.py --bundle")
        return CheckedBundle(findings)
    findings.is_mini = manifest.mini
    files = check_folder(folder, manifest, findings)
    truths = Truths(folder, manifest, files, findings).found
    opener = RealVectors(data, manifest, findings) if compares_data else nullcontext()
    with opener as real:
        if real is not None:
            real.check_truth(truths)
        points = _points(folder, manifest, files, truths, findings, real)
    check_overlaps(points, findings)
    check_turns(points, findings)
    check_mixed(points, findings)
    check_repeated(points, findings)
    check_swapped(points, findings)
    check_age(points, manifest, now, findings)
    check_complete(folder, manifest, points, set(files), findings)
    claims = check_claims(manifest, {point.file: point for point in points}, files, findings)
    check_report(folder, files, points, findings)
    check_system(folder, files, points, findings)
    versions = {word for point in points for name in version_names(point.attrs)
                for word in str(point.attrs[name]).split() if word.count(".") == FOUR_NUMBERS}  # fmt: skip
    check_private(folder, files, manifest.contact, versions, findings)
    records = _check_records(folder, files, findings)
    return CheckedBundle(findings, manifest, points, claims, records, compares_data)


def _points(
    folder: Path,
    manifest: Manifest,
    files: Sequence[str],
    truths: dict[tuple[str, str], Neighborhood],
    findings: Findings,
    real: RealVectors | None,
) -> list[CheckedPoint]:
    """Check each result by itself; return those that can be judged, without their arrays."""
    claimed = {claim.file for claim in manifest.claims}
    duplicates = Duplicates(findings)
    found = []
    for file in files:
        if not file.startswith("results/") or file.endswith(RECORD):
            continue
        point = open_point(folder, file, manifest, truths, findings)
        if point is None:
            continue
        dataset, truth = manifest.datasets[point.dataset], truths[point.dataset, point.series.filter]
        check_identity(point, dataset, truth, findings)
        if check_answers(point, dataset, truth, findings):
            check_figures(point, truth, findings)
            if real is not None:
                real.check_point(point)
        check_timings(point, point.number("cores"), findings)
        check_targets(point, findings)
        check_conditions(point, file in claimed, findings)
        duplicates.add(point)
        found.append(point.without_arrays())
    return found


def _check_records(folder: Path, files: Sequence[str], findings: Findings) -> list[str]:
    """Refuse records of workloads that are no JSON; nothing else of them is checked."""
    records = [file for file in files if file.startswith("results/") and file.endswith(RECORD)]
    for file in records:
        try:
            content = read_json(folder / file)
            if not isinstance(content, dict):
                raise UserError("is no record of a workload")
        except UserError as error:
            findings.refuse(file, "readable", str(error), "write the bundle again")
    return records
