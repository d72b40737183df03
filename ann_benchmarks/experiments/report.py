"""An experiment's report: a chapter for each step, and what was found next to what was published."""

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.cli import Parser, positive_float, row_counts
from ann_benchmarks.common.cli import path as path_type
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors
from ann_benchmarks.common.numbers import UNKNOWN, counted
from ann_benchmarks.common.text import say
from ann_benchmarks.data.datasets import canonical_name, sampled
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.pricing.costs import cost_request
from ann_benchmarks.reporting.answer import find_answers
from ann_benchmarks.reporting.chapters import FOLDER, write_bundle
from ann_benchmarks.reporting.content import Chapter, Finding, Report
from ann_benchmarks.reporting.document import Block, Heading, Paragraph, markdown_text
from ann_benchmarks.reporting.report import say_answers, write_report
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.measurement import TIERS_LEFT_OUT
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import LeftOut, Run, load_runs
from ann_benchmarks.run.request import Request
from ann_benchmarks.submission.bundle import BundleRequest
from ann_benchmarks.submission.manifest import DIVISIONS, OPEN
from ann_benchmarks.views.chosen import readable_records
from ann_benchmarks.views.parts import Table

from .carrying_out import command_of, report_arguments, split_arguments, step_request
from .findings import StepPoint, judged
from .schema import FOLDER as EXPERIMENTS
from .schema import Options, Step, find_experiment, read_experiment

LONGEST_CONTACT = 200  # characters
JobsOf = Callable[[Request], Iterable[Job]]


@dataclass(frozen=True)
class StepResults:
    """All results of a step; `missing` has a line for each point that is not there."""

    points: Sequence[StepPoint]
    missing: Sequence[str]
    left_out: LeftOut = field(default_factory=dict)


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the reports of datasets and of experiments share, and run.py does not have."""
    add = parser.add_argument
    add("-o", "--output", type=path_type, metavar="FOLDER", help="default: reports/DATASET")
    add("--title", help="the report's heading")
    add("--prices", type=path_type, metavar="FILE", help="price the measured servers with this file of"
        " prices")  # fmt: skip
    add("--target-rate", type=positive_float, metavar="N", help="with --prices: the queries a second that a"
        " server must answer")  # fmt: skip
    add("--recompute", action="store_true", help="do not use cached metrics")
    add("--rows", type=row_counts, default=(), metavar="N,...", help="with --experiment sizes: the numbers of"
        " rows to predict for, such as 500k,1m")  # fmt: skip
    add("--bundle", type=path_type, metavar="FOLDER", help="write the report and all that it rests on"
        " into one folder that others can check, without what is private")  # fmt: skip
    add("--contact", metavar="TEXT", help="with --bundle: who answers questions on it")
    add("--division", choices=DIVISIONS, help="with --bundle: published, if no argument was changed, or"
        f" {OPEN} (the default)")  # fmt: skip


def requested_bundle(args: argparse.Namespace) -> BundleRequest | None:
    """Return the bundle that the options request, None if they request a report alone."""
    if args.bundle is None:
        if args.contact is not None or args.division is not None:
            raise UserError(
                f"--{'division' if args.contact is None else 'contact'} is for a bundle: add --bundle"
            )
        return None
    if args.output is not None:
        raise UserError("the report of a bundle lies in its folder: leave out -o, or --bundle")
    contact = args.contact or ""
    if len(contact) > LONGEST_CONTACT or not contact.isprintable():
        raise UserError(f"--contact takes one printable line of up to {LONGEST_CONTACT} characters")
    return BundleRequest(args.bundle, contact, args.division or OPEN)


def report_experiment(words: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf) -> Path | None:
    """Write the report that a command line requests, run.py's options included; return its folder.

    None if a bundle was requested. Says what is not measured yet, and by which command it is.
    """
    experiment, others = split_arguments(words)
    own = Parser(add_help=False, allow_abbrev=False)
    add_report_options(own)
    args, given = own.parse_known_args(others)
    request = requested_bundle(args)
    requested = Options(parser).parse(given)
    target = requested.target_recall or TARGET_RECALL
    latency = None if args.prices is None else requested.slo
    costs = cost_request(args.prices, latency, args.target_rate)
    choice = (experiment.experiment, experiment.mini)
    known = read_experiment(find_experiment(experiment.experiment), experiment.mini, Options(parser))
    has_samples = any(step.sample > 1 for step in known.steps)
    if args.rows and not has_samples:
        raise UserError("--rows is for an experiment whose steps have samples, such as sizes: leave it out")
    name, report = report_of(*choice, parser, given, jobs_of, args.recompute)
    report = replace(report, title=args.title or report.title, costs=costs, sizes=args.rows)
    if has_samples:
        shown = {run.path for run in report.runs}
        there = iter_result_paths(sampled(canonical_name(requested.dataset))[0], requested.count)
        whole = load_runs([path for path in there if path not in shown], args.recompute)
        report = replace(report, whole=list(whole))
    folder = None
    if request is not None:
        path = find_experiment(experiment.experiment)
        write_bundle(report, replace(request, experiment=path, mini=experiment.mini), target, name)
    else:
        folder = args.output or FOLDER / name
        say_answers(write_report(report, folder, target))
    if text := unmeasured(report):
        say(text)
    return folder


def answer_experiment(words: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf) -> None:
    """Print what the results of an experiment say that a command line of run.py has carried out."""
    choice, given = split_arguments(words)
    _, report = report_of(choice.experiment, choice.mini, parser, given, jobs_of)
    target = Options(parser).parse(given).target_recall or TARGET_RECALL
    say_answers(find_answers(report.runs, report.records, target))


def unmeasured(report: Report) -> str:
    """Say how much of an experiment is not measured yet, and which command measures it; "" where all is."""
    missing = sum(len(chapter.missing) for chapter in report.chapters)
    if not report.runs and not report.records:
        return f"nothing is measured yet; to measure it: {report.command}"
    return f"{counted(missing, 'point')} not measured yet; to go on: {report.command}" if missing else ""


def report_of(
    name: str,
    is_mini: bool,
    parser: argparse.ArgumentParser,
    given: Sequence[str],
    jobs_of: JobsOf,
    recompute: bool = False,
) -> tuple[str, Report]:
    """Return the name and the report of an experiment that ran with `given` options besides its own.

    `recompute` computes every metric anew, whatever is cached.
    """
    experiment = read_experiment(find_experiment(name), is_mini, Options(parser))
    chapters: list[Chapter] = []
    points: list[StepPoint] = []
    left_out: LeftOut = {}
    for step in experiment.steps:
        if step.skip:
            chapters.append(Chapter(step.title, f"Left out: {step.skip}."))
            continue
        results = results_of(step, step_request(step, parser, given), jobs_of, recompute)
        points += results.points
        left_out |= results.left_out
        outcomes = [point.outcome for point in results.points]
        runs = [outcome for outcome in outcomes if isinstance(outcome, Run)]
        notes = dict.fromkeys(str(run.attrs[TIERS_LEFT_OUT]) for run in runs if TIERS_LEFT_OUT in run.attrs)
        chapter = Chapter(
            title=step.title,
            text="\n\n".join([step.text, *(f"No smaller servers were simulated: {note}." for note in notes)]),
            command=command_of(step, given),
            runs=runs,
            records=[outcome for outcome in outcomes if isinstance(outcome, Record)],
            missing=results.missing,
            pictures=[view for view in step.pictures if not (notes and view["kind"] == "tiers")],
            tables=[view for view in step.tables if not (notes and view["kind"] == "tiers")],
        )
        chapters.append(chapter)
    report = Report(
        title=experiment.title + (" (miniature)" if is_mini else ""),
        text=experiment.text,
        command=f"python run.py {shlex.join(report_arguments(experiment, given))}",
        chapters=chapters,
        findings=[judged(claim, points) for claim in experiment.claims],
        source=experiment.source,
        left_out=left_out,
    )
    return experiment.name, report


def results_of(step: Step, request: Request, jobs_of: JobsOf, recompute: bool = False) -> StepResults:
    """Find the results of a step; if several jobs may have made a point, those with results count."""
    try:
        jobs = list(jobs_of(request))
    except UserError as error:
        return StepResults([], [str(error)])
    places = {path: (job, arguments) for job in jobs for path, arguments in job.paths()}
    written: dict[bool, list[Path]] = {False: [], True: []}
    for path, (job, _) in places.items():
        if path.exists():
            written[job.procedure.workload is not None].append(path)
    left_out: LeftOut = {}
    runs = load_runs(written[False], recompute, left_out=left_out)
    outcomes: dict[Path, Run | Record] = {run.path: run for run in runs}
    outcomes |= {record.path: record for record in readable_records(written[True])}
    points = [StepPoint(step.name, *places[path], outcome) for path, outcome in outcomes.items()]
    there = {named(*places[path]) for path in outcomes}
    missing = {named(*place): place[0] for place in places.values() if named(*place) not in there}
    measured = {job.definition.family for job, _ in (places[path] for path in outcomes)}
    # Of an algorithm that is not here, one line says enough.
    lines = [
        name if job.definition.family in measured or not measured else f"all of {job.definition.family}"
        for name, job in missing.items()
    ]
    return StepResults(points, list(dict.fromkeys(lines)), left_out)


def named(job: Job, query_arguments: Sequence[Any]) -> str:
    """Name a point for the reader, without the method that limited its memory."""
    name = job.label(query_arguments)
    return name.rpartition(" by ")[0] if job.procedure.conditions else name


CLAIMS_FILE = "claims.md"
CLAIM_COLUMNS = ("Source", "Claim", "Theirs", "Ours", "95% interval", "Verdict", "Size", "Why")
_INTERVAL = re.compile(r" ?\(95%: (.*?)\)")


def write_claims(
    folder: Path, given: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf
) -> Path:
    """Write the table of what was measured with `given` options of run.py; return its file.

    A claim that was not tested at full size is that of the miniature.
    """
    rows = [
        row
        for path in sorted(EXPERIMENTS.glob("*.yml"))
        for row in claim_rows(path.stem, given, parser, jobs_of)
    ]
    verdicts = Counter(row[CLAIM_COLUMNS.index("Verdict")] for row in rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    text = f"{len(rows)} claims: {counts}. The figures of the sources come from other machines."
    path = folder / CLAIMS_FILE
    with disk_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        table = Table(CLAIM_COLUMNS, rows, words=CLAIM_COLUMNS)
        blocks: list[Block] = [Heading(1, "What others claim"), Paragraph(text), table]
        path.write_text(markdown_text(blocks), encoding="utf-8", errors="replace")
    return path


def claim_rows(
    name: str, given: Sequence[str], parser: argparse.ArgumentParser, jobs_of: JobsOf
) -> Iterator[list[str]]:
    """Give a row for each finding of an experiment."""
    (_, full), (_, mini) = (report_of(name, is_mini, parser, given, jobs_of) for is_mini in (False, True))
    for at_full_size, small in zip(full.findings, mini.findings, strict=True):
        found, size = (at_full_size, "full") if at_full_size.measured else (small, "miniature")
        yield [full.source or name, *finding_cells(found), size if found.measured else UNKNOWN, found.why]


def finding_cells(finding: Finding) -> list[str]:
    """Return the claim, its figure, ours, the interval of ours, and the verdict."""
    interval = _INTERVAL.search(finding.measured)
    ours = _INTERVAL.sub("", finding.measured, count=1) or UNKNOWN
    return [finding.says, finding.published, ours, interval[1] if interval else UNKNOWN, finding.verdict]
