"""An experiment's report: a chapter for each step, and what was found beside what was published."""

import argparse
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ann_benchmarks.jobs.job import Job
from ann_benchmarks.reporting.chapters import FOLDER
from ann_benchmarks.reporting.content import Chapter, Report
from ann_benchmarks.reporting.report import write_report
from ann_benchmarks.results.metrics import TARGET_RECALL

from .carrying_out import arguments_of, report_arguments
from .findings import judged
from .options import Options
from .results import Results, results_of
from .schema import find_experiment, read_experiment


def report_experiment(
    words: Sequence[str],
    parser: argparse.ArgumentParser,
    jobs_of: Callable[[argparse.Namespace], Iterable[Job]],
) -> Path:
    """Write the report that a command line asks for, with run.py's options among them; return its folder."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--experiment")
    own.add_argument("--mini", action="store_true")
    own.add_argument("-o", "--output", type=Path)
    own.add_argument("--title")
    args, given = own.parse_known_args(words)
    target = Options(parser).parse(given).target_recall or TARGET_RECALL
    name, report = report_of(args.experiment, args.mini, parser, given, jobs_of)
    folder = args.output or FOLDER / name
    write_report(replace(report, title=args.title or report.title), folder, target)
    return folder


def report_of(
    name: str,
    is_mini: bool,
    parser: argparse.ArgumentParser,
    given: Sequence[str],
    jobs_of: Callable[[argparse.Namespace], Iterable[Job]],
) -> tuple[str, Report]:
    """Return the name and the report of an experiment as it was run with `given` options before its own."""
    experiment = read_experiment(find_experiment(name), is_mini, Options(parser))
    every = [
        None if step.skip else results_of(step, arguments_of(step, parser, given), jobs_of)
        for step in experiment.steps
    ]
    measured = [m for results in every if results is not None for m in results.measured]
    chapters = [
        Chapter(step.title, f"Left out: {step.skip}.") if results is None else chapter_of(results, given)
        for step, results in zip(experiment.steps, every, strict=True)
    ]
    report = Report(
        title=experiment.title + (" (miniature)" if is_mini else ""),
        text=experiment.text,
        command=f"python run.py {shlex.join(report_arguments(experiment, given))}",
        chapters=chapters,
        findings=[judged(claim, measured) for claim in experiment.claims],
        source=experiment.source,
    )
    return experiment.name, report


def chapter_of(results: Results, given: Sequence[str]) -> Chapter:
    """Return the chapter of a step that was run with `given` options before its own."""
    step = results.step
    return Chapter(
        title=step.title,
        text=step.text,
        command=f"python run.py {shlex.join([*step.arguments, *given])}",
        runs=results.runs,
        records=results.records,
        missing=results.missing,
        pictures=step.pictures,
        tables=step.tables,
    )
