"""Claims beside what follows from the files that they name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..manifest import MANIFEST, ClaimedPoint, Manifest
from .arithmetic import student
from .points import CheckedPoint
from .rules import Findings

SAME = 1e-4  # relative
SAME_SHARE = 1e-6
WRITE_AGAIN = "write the bundle again"


@dataclass(frozen=True)
class Recomputed:
    """A claim, and what its file comes to: recall, queries/s with a 95% interval, p99 in ms; nan: unknown."""

    claim: ClaimedPoint
    recall: float
    recall_otherwise: float  # with the slack of ann-benchmarks, as earlier versions had it, or without
    qps: float
    qps_low: float
    qps_high: float
    p99: float


def check_claims(
    manifest: Manifest, points: Mapping[str, CheckedPoint], folder_files: Sequence[str], findings: Findings
) -> list[Recomputed]:
    """Refuse claims that differ from their files; return the others and these with what they come to."""
    found = []
    seen: set[tuple[object, ...]] = set()
    for number, claim in enumerate(manifest.claims, 1):
        point = points.get(claim.file)
        if point is None:
            if claim.file in folder_files and findings.mentions(claim.file):
                continue  # which is what is wrong
            why = "could not be judged" if claim.file in folder_files else "is not in the bundle"
            what = f"claim {number} rests on {claim.file}, which {why}"
            findings.refuse(MANIFEST, "claims", what, WRITE_AGAIN)
            continue
        key = (claim.dataset, claim.series, claim.count, claim.clients, claim.filter, claim.tier, claim.batch)
        if key in seen:
            findings.refuse(MANIFEST, "claims", f"claim {number} is there twice", WRITE_AGAIN)
        seen.add(key)
        recomputed = recompute(claim, point)
        for problem in (*_other_facts(claim, point), *_other_figures(recomputed)):
            findings.refuse(MANIFEST, "claims", f"claim {number}, on {claim.file}: {problem}", WRITE_AGAIN)
        if recomputed.recall < manifest.target_recall - SAME_SHARE:
            what = (
                f"claim {number} is for a recall of {manifest.target_recall:g}, and {claim.file} has"
                f" {recomputed.recall:.6g}"
            )
            findings.refuse(MANIFEST, "recall", what, "claim a point that reaches it")
        found.append(recomputed)
    curves = {points[claim.file].curve for claim in manifest.claims if claim.file in points}
    for point in points.values():
        if point.recall > manifest.target_recall and not point.is_open and point.curve not in curves:
            findings.warn(point.file, "claims", "it reaches the target recall, and its series has no claim")
    if not manifest.claims:
        at_rates = " of a closed loop" * any(point.is_open for point in points.values())
        what = f"nothing is claimed: no point{at_rates} reaches the target recall"
        findings.warn(MANIFEST, "claims", what)
    return found


def recompute(claim: ClaimedPoint, point: CheckedPoint) -> Recomputed:
    """Return a claim with the figures of its file."""
    low, high = student([1 / seconds for seconds in point.run_seconds])
    p99 = point.number("latency_p99")
    recalls = point.recall, point.recalls_otherwise[0]
    return Recomputed(claim, *recalls, point.qps, low, high, math.nan if p99 is None else 1e3 * p99)


def _other_facts(claim: ClaimedPoint, point: CheckedPoint) -> list[str]:
    facts = {
        "dataset": (claim.dataset, point.dataset),
        "count": (claim.count, point.count),
        # What tells servers apart is named in the report by their differences.
        "series": (claim.series.partition(" (")[0], point.series.without("environment").label),
        "clients": (claim.clients, point.series.clients or 1),
        "filter": (claim.filter, point.series.filter),
        "batch": (claim.batch, point.series.batch),
        "tier": (claim.tier, str(point.attrs.get("tier") or "")),
    }
    return [
        f"claims the {name} '{said}', and the file has '{is_there}'"
        for name, (said, is_there) in facts.items()
        if said != is_there
    ]


def _other_figures(found: Recomputed) -> list[str]:
    claim = found.claim
    problems = []
    if min(abs(claim.recall - recall) for recall in (found.recall, found.recall_otherwise)) > SAME_SHARE:
        problems.append(f"claims a recall of {claim.recall:.6g}, and it is {found.recall:.6g}")
    for name in ("qps", "qps_low", "qps_high", "p99"):
        said, value = getattr(claim, name), getattr(found, name)
        if said is None:
            continue
        if not math.isfinite(value):
            problems.append(f"claims {name} {said:.6g}, and the file has none")
        elif abs(said - value) > SAME * max(abs(value), found.qps if name != "p99" else 0.0):
            problems.append(f"claims {name} {said:.6g}, and it is {value:.6g}")
    return problems
