"""A bundle checked: every file, every point, what they say together, and what a reviewer reads of it."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import one_line, shown
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.load.spans import ALWAYS_WAITING, LARGE_SHARE, LATE_SHARE, NOTHING_LEFT
from ann_benchmarks.results.environment import environment_of, environments, fact_words
from ann_benchmarks.results.measurement import MARK, ROUNDS
from ann_benchmarks.results.records import Record, read_record
from ann_benchmarks.results.remarks import FEW_QUERIES, MOST_OTHERS, RECALL_CHANGED
from ann_benchmarks.results.runs import interval
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS
from ann_benchmarks.statistics.intervals import FEWEST_RUNS, interval_text

from ..bundle import hdf5_content
from ..contents import README, bundle_facts, claimed_points, dataset_lines, readme
from ..facts import IN_WORDS
from ..files import MOST_TEXT_BYTES, REPORT, read_bytes, read_text
from ..manifest import MANIFEST, Manifest
from ..private import Private
from .attributes import attribute_problems
from .complete import check_complete
from .curves import TOGETHER, Copies
from .points import FOREIGN, RECORD, CheckedPoint, OpenedBundle, open_bundle
from .reading import opened_file
from .relations import RELATIONS, broken_arrays
from .rules import Findings
from .truth import broken_rows, different_distances, places, tolerance
from .vectors import compare_with_data

# Pages for people have the title and pictures. All figures of points are in results/ alone.
MARKDOWN, HTML = f"{REPORT}/report.md", f"{REPORT}/report.html"
_ESCAPED = re.compile(r"\\([^\w\s]|_)")  # a character in Markdown
_PICTURE = re.compile(r"\]\(([\w.-]+\.png)\)")


@dataclass(frozen=True)
class CheckedBundle:
    """What a check has found; without a manifest that cannot be read."""

    findings: Findings
    manifest: Manifest | None = None
    points: Sequence[CheckedPoint] = ()  # without their arrays
    records: Sequence[Record] = ()  # of workloads that write
    compared_with_data: bool = False


def check_bundle(folder: Path, compares_data: bool = False, private: Private | None = None) -> CheckedBundle:
    """Check a bundle; `compares_data` with the real vectors of its datasets.

    `private` replaces what to look for where more is known than forms show.
    """
    findings = Findings()
    opened = open_bundle(folder, findings)
    if opened is None:
        return CheckedBundle(findings)
    manifest, files = opened.manifest, opened.files
    points = check_points(opened)
    if compares_data:
        compare_with_data(opened)
    check_complete(opened, points)
    records = list[Record]()
    for file in (name for name in files if name.endswith(RECORD)):
        with findings.refusing(file, "readable"):
            records.append(read_record(folder / file))
    check_pages(opened)
    private = private or Private((), [point.attrs for point in points], manifest.contact)
    for file in (MANIFEST, *files):
        with findings.refusing(file, "private", "cannot be searched"):
            for kind, where in private_facts(folder, file, private):
                findings.refuse(file, "private", f"has {IN_WORDS[kind]} {where}")
    return CheckedBundle(findings, manifest, points, records, compares_data)


def check_points(opened: OpenedBundle) -> list[CheckedPoint]:
    """Check points by themselves and together; return them without their arrays."""
    findings, copies, found = opened.findings, Copies(), list[CheckedPoint]()
    for point in opened.points():
        if point.is_foreign:
            findings.refuse(point.file, "readable", FOREIGN)
            continue
        check_point(point, findings)
        findings.refuse(point.file, "duplicate", *copies.problems(point))
        found.append(point.drop_arrays())
    check_together(found, opened.manifest.target_recall, findings)
    return found


def check_point(point: CheckedPoint, findings: Findings) -> None:
    """Check a point by itself."""
    findings.refuse(point.file, "answers", *impossible_answers(point))
    broken = list(broken_arrays(point))
    for rule, problem in (*broken, *attribute_problems(point, bool(broken))):
        findings.refuse(point.file, rule, problem)
    for rule, problems in () if broken else RELATIONS:
        findings.refuse(point.file, rule, *problems(point))


def check_together(points: Sequence[CheckedPoint], target: float, findings: Findings) -> None:
    """Check what several points say together, and those that are claimed for a target recall."""
    for rule, problems in TOGETHER:
        for file, problem in problems(points):
            findings.refuse(file, rule, problem)
    claimed = {run.path for run in claimed_points((point.run for point in points), target)}
    for point in points:
        check_conditions(point, point.run.path in claimed, findings)


def summary(checked: CheckedBundle) -> Iterator[str]:
    """Yield what a reviewer reads: who, which machine, versions, data, claims and warnings."""
    manifest, refused = checked.manifest, checked.findings.refused
    if manifest is not None:
        yield from (f"{name + ':':<15}{one_line(text, 300)}" for name, text in _facts(checked, manifest))
        yield ""
    kinds: dict[str, list[str]] = {}
    for finding in checked.findings.warnings:
        kinds.setdefault(f"[{finding.rule}] {finding.text}", []).append(finding.file)
    for text, files in kinds.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"warning: {files[0]}{more}: {text}"
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
    runs = [point.run for point in points]
    days = [str(point.attrs.get("ended_at"))[:10] for point in points]
    yield "Title", manifest.title
    release = manifest.project_version or "an unknown release"
    yield from {**bundle_facts(manifest), "Made at": f"{manifest.made} with {release}"}.items()
    every = [*(point.attrs for point in points), *(record.attrs for record in checked.records)]
    for facts in environments([environment_of(attrs) for attrs in every])[1]:
        yield "Machine", ", ".join(fact_words(name, value) for name, value in facts.items())
    yield "Holds", f"{counted(len(points), 'point')} in {len({point.curve for point in points}):,} series"
    yield "Measured", f"{min(days)} to {max(days)}" if days else "nothing"
    yield "Left out", "; ".join(manifest.left_out) or "nothing"
    yield from (("Data", line) for line in dataset_lines(manifest))
    for run in claimed_points(runs, manifest.target_recall):
        qps = f"{run.metrics['qps']:.5g} queries/s{interval_text(interval(run, 'qps'))}"
        yield "Claim", f"{run.dataset}, {run.algorithm}: recall {run.metrics['recall']:.4f}, {qps}"


def impossible_answers(point: CheckedPoint) -> list[str]:
    """Say which answers no search of this dataset can give, else where they contradict the truth."""
    rows, distances, truth = point.rows, point.distances, point.truth
    if found := broken_rows(rows, distances, point.facts.rows):
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


def _clients_were_limit(point: CheckedPoint) -> bool:
    """Whether the clients were the limit, by what is stored of their time and not by what it says."""
    if point.series.clients is None:
        return False
    busy = point.number("client_machines_busy_share") or point.number("machine_busy_share") or 0.0
    no_cpu = busy > NOTHING_LEFT and point["client_cpu_share"] > LARGE_SHARE
    if point.series.is_open:
        is_late = point["clients_late_seconds"] > LATE_SHARE * point["service_p50"]
        is_limit = is_late or (bool(point.number("queries_unanswered")) and no_cpu)
    else:
        is_limit = point["clients_waiting_share"] < ALWAYS_WAITING or no_cpu
    return is_limit or bool(point.attrs.get("clients_were_limit"))


def _recall_changed(point: CheckedPoint) -> bool:
    recalls = point.numbers("run_recalls") or [0.0]
    return max(recalls) - min(recalls) > RECALL_CHANGED


def _has_own_queries(point: CheckedPoint) -> bool:
    """Whether queries are rows of the training set: it says so, or a nearest row has the distance 0."""
    nearest = point.truth.distances[:, 0]
    is_same = point.facts.metric in ("euclidean", "hamming") and bool((nearest == 0).any())
    return bool(point.number("queries_in_train")) or is_same


# What no claim may rest on: the rule, when it is broken, and what is said then.
CONDITIONS: tuple[tuple[str, Callable[[CheckedPoint], Any], str], ...] = (
    ("clients", _clients_were_limit, "its clients, not the server, were the limit"),
    ("runs", lambda one: len(one.run_seconds) < FEWEST_RUNS, "it has {runs}, fewer than {fewest_runs}"),
    # The interval of rounds has what differs between them, as have its rivals.
    ("warnings", lambda one: one.attrs.get("runs_disagree") and len(one.numbers(ROUNDS)) < FEWEST_ROUNDS,
     "its runs differ by more than noise"),
    ("warnings", lambda one: max(one.numbers("run_others_cpu"), default=0.0) > MOST_OTHERS,
     f"others took more than {MOST_OTHERS:.0%} of the machine's CPUs in a run"),
    ("warnings", lambda one: one.attrs.get("steady_state") is False, "its queue still grew"),
    ("warnings", lambda one: one.number("queries_unanswered"), "the rate was not kept"),
    ("warnings", lambda one: one.attrs.get("warmup_settled") is False,
     "the throughput still rose after the warm-up"),
    ("warnings", _recall_changed, "its recall changed between its runs"),
    ("warnings", lambda one: one.series.is_cold and one.attrs.get("caches_dropped") is not True,
     "its caches were not emptied before each run"),
    ("warnings", lambda one: (one.number("latency_queries") or 0) < FEW_QUERIES,
     f"fewer than {FEW_QUERIES} queries were counted"),
    ("warnings", _has_own_queries, "some of its queries are rows of the training set"),
    ("warnings", lambda one: MARK in one.attrs and "rounds_ended" not in one.attrs,
     "its race was interrupted"),
)  # fmt: skip


def check_conditions(point: CheckedPoint, is_claimed: bool, findings: Findings) -> None:
    """Refuse what disqualifies a claim, and warn of it where no claim rests on the point."""
    for rule, is_broken, text in CONDITIONS:
        if is_broken(point):
            problem = text.format(runs=counted(len(point.run_seconds), "run"), fewest_runs=FEWEST_RUNS)
            said = f"a claim rests on it, and {problem}" if is_claimed else problem
            # A miniature shows that all works.
            findings.refuse(point.file, rule, said, disqualifies=is_claimed and not findings.is_mini)


def check_pages(opened: OpenedBundle) -> None:
    """Refuse pages of another report, missing pictures, surplus files, and a README of another manifest."""
    findings, title = opened.findings, opened.manifest.title
    there = {file for file in opened.files if file.startswith(f"{REPORT}/")}
    named = {MARKDOWN, HTML}
    for page in (MARKDOWN, HTML):
        with findings.refusing(page, "report"):
            text = read_text(opened.place(page))
            named |= {f"{REPORT}/{name}" for name in _PICTURE.findall(text)}
            if title not in html.unescape(text) and title not in _ESCAPED.sub(r"\1", text):
                findings.refuse(page, "report", f"does not have the title '{title}' of its manifest")
    for file in named - there - {MARKDOWN, HTML}:
        findings.refuse(file, "report", "is missing")
    for file in there - named:
        findings.refuse(file, "report", f"is neither a page nor a picture of {MARKDOWN}")
    with findings.refusing(README, "report"):
        lines = {*read_text(opened.place(README)).splitlines()}
        for line in readme(opened.manifest).splitlines():
            if line.startswith("- ") and line not in lines:
                findings.refuse(README, "report", f"lacks the line '{shown(line)}' of its manifest")


def private_facts(folder: Path, name: str, private: Private) -> list[tuple[str, str]]:
    """Return the kind of each private fact in a file and where it stands.

    UserError or an error of DAMAGE where it cannot be read. Pictures have the texts of the report.
    """
    private.found.clear()
    private.text(name)
    facts = {(kind, "in the name of the file") for kind in private.found}
    private.found.clear()
    if name.endswith(".hdf5"):
        with opened_file(folder / name) as file:
            hdf5_content(file, private, has_numbers=False)
    elif not name.endswith(".png"):
        text = read_bytes(folder / name, MOST_TEXT_BYTES).decode(errors="replace")
        # Of UTF-16, every second byte is 0.
        for one in {text, html.unescape(text), text.replace("\0", "")}:
            private.text(one)
            private.value(one)
    return sorted(facts | {(kind, "in its text") for kind in private.found})
