"""What a reviewer reads in a minute: who, which machine, versions and data, and each claim recomputed."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from ann_benchmarks.common.errors import one_line
from ann_benchmarks.common.numbers import counted, size_text
from ann_benchmarks.results.attributes import version_names

from .check import CheckedBundle
from .claims import Recomputed
from .points import CheckedPoint
from .rules import RuleFinding

MOST_WARNINGS = 30
COLUMNS = ("dataset", "series", "clients", "recall", "claimed", "queries/s", "claimed", "p99 (ms)", "claimed")


def summary(checked: CheckedBundle) -> Iterator[str]:
    """Yield the lines of a summary."""
    manifest, points = checked.manifest, checked.points
    if manifest is not None:
        yield from _head(checked)
        for name, values in _facts(points):
            yield f"{name + ':':<13}{one_line('; '.join(values), 300)}"
        for name, dataset in sorted(manifest.datasets.items()):
            kinds = f", filters {', '.join(dataset.filters)}" if dataset.filters else ""
            yield (
                f"{'dataset:':<13}{name}: {dataset.rows:,} rows of {dataset.dimension:,}, {dataset.metric},"
                f" {dataset.queries:,} queries, fingerprint {dataset.fingerprint}{kinds}"
            )
        yield ""
        yield from _table(checked.claims)
        yield ""
    yield from _warnings(checked.findings.warnings)
    if manifest is not None and not checked.compared_with_data:
        yield (
            "Not compared with the vectors: distances and true neighbours are consistent with each other at"
            " most. Compare them with --data."
        )
    if checked.records:
        yield f"{counted(len(checked.records), 'record')} of workloads that write were not recomputed."
    yield _verdict(checked)


def _head(checked: CheckedBundle) -> Iterator[str]:
    manifest = checked.manifest
    assert manifest is not None
    experiment = f", experiment {manifest.experiment}" if manifest.experiment else ""
    mini = ", a miniature" if manifest.mini else ""
    curves = {point.curve for point in checked.points}
    lines = {
        "title": manifest.title,
        "by": manifest.contact or "no contact is given",
        "made": f"{manifest.made} with {manifest.project_version or 'an unknown release'}"
        f" {manifest.commit[:12]}".rstrip(),
        "division": f"{manifest.division}{experiment}{mini}",
        "holds": f"{counted(len(checked.points), 'point')} in {len(curves):,} series",
        "left out": "; ".join(manifest.left_out) or "nothing",
    }
    for name, text in lines.items():
        yield f"{name + ':':<13}{one_line(text, 300)}"


def _facts(points: Iterable[CheckedPoint]) -> Iterator[tuple[str, list[str]]]:
    machines: dict[str, None] = {}
    versions: dict[str, None] = {}
    days: list[str] = []
    for point in points:
        attrs = point.attrs
        memory = point.number("memory_bytes")
        parts = [
            attrs.get("cpu"),
            f"{attrs.get('cores')} cores",
            memory and size_text(memory),
            attrs.get("kernel"),
        ]
        machines.setdefault(", ".join(str(part) for part in parts if part))
        for name, title in version_names(attrs).items():
            versions.setdefault(f"{title} {attrs[name]}")
        days.append(str(attrs.get("ended_at"))[:10])
    yield "machine", list(machines)
    yield "versions", sorted(versions)
    yield "measured", [f"{min(days)} to {max(days)}"] if days else ["nothing"]


def _table(claims: Iterable[Recomputed]) -> Iterator[str]:
    """Yield a line for each claim: what its file comes to, and what is claimed."""
    rows = [COLUMNS]
    for found in claims:
        claim = found.claim
        rows.append((
            claim.dataset, claim.series, str(claim.clients), f"{found.recall:.4f}", f"{claim.recall:.4f}",
            f"{found.qps:.5g}", f"{claim.qps:.5g}", _known(found.p99), _known(claim.p99),
        ))  # fmt: skip
    if len(rows) == 1:
        yield "No claims could be recomputed."
        return
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    for row in rows:
        cells = [f"{text:<{width}}" if place < 2 else f"{text:>{width}}"
                 for place, (text, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        yield "  ".join(cells).rstrip()


def _known(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def _warnings(warnings: list[RuleFinding]) -> Iterator[str]:
    """Yield the warnings, those that say the same of several files once."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for finding in warnings:
        kinds.setdefault((finding.rule, finding.text), []).append(finding.file)
    for (rule, text), files in list(kinds.items())[:MOST_WARNINGS]:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"warning: {files[0]}{more}: [{rule}] {text}"
    if len(kinds) > MOST_WARNINGS:
        yield f"warning: and {len(kinds) - MOST_WARNINGS} more kinds"


def _verdict(checked: CheckedBundle) -> str:
    refused = checked.findings.refused
    if not refused:
        return f"passed, with {counted(len(checked.findings.warnings), 'warning')}"
    rules = Counter(finding.rule for finding in refused)
    text = ", ".join(f"{rule} {number}" for rule, number in sorted(rules.items()))
    return f"refused: {counted(len(refused), 'finding')} ({text}); the rules are in docs/rules.md"
