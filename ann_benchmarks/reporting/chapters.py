"""What report.py does: choose results, put them into chapters, write the report, alone or in a bundle."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import whole_folder
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.data.datasets import canonical_name, make_truth_file
from ann_benchmarks.data.datasets.samples import sampled
from ann_benchmarks.pricing.costs import CostRequest
from ann_benchmarks.results.file import RESULTS_FOLDER, iter_result_paths
from ann_benchmarks.results.records import Record, iter_record_paths
from ann_benchmarks.results.runs import LeftOut, Run, load_runs
from ann_benchmarks.submission.bundle import Bundle, BundleRequest, bundle_files
from ann_benchmarks.submission.checking.check import check_bundle
from ann_benchmarks.submission.facts import facts_here
from ann_benchmarks.submission.files import PRICES, REPORT
from ann_benchmarks.submission.private import Private
from ann_benchmarks.views.chosen import checked_target, explain_missing, readable_records

from .content import Chapter, Finding, Report, is_named
from .kinds import worth_showing
from .report import say_answers, write_report

FOLDER = Path("reports")


@dataclass(frozen=True)
class ReportOptions:
    """The heading, the recall to reach, whether to compute metrics anew, and what to price servers with."""

    title: str | None = None
    target_recall: float | None = None
    recompute: bool = False
    costs: CostRequest | None = None

    @property
    def words(self) -> list[str]:
        """The words of a command line that request it, without the heading."""
        words = [] if self.target_recall is None else ["--target-recall", f"{self.target_recall:g}"]
        if self.costs is not None:
            words += ["--prices", str(self.costs.prices.path)]
            words += ["--slo", str(self.costs.latency)] if self.costs.latency is not None else []
            words += ["--target-rate", f"{self.costs.rate:.12g}"] if self.costs.rate is not None else []
        return words


def report_results(
    dataset: str | None,
    algorithms: Sequence[str] = (),
    count: int | None = None,
    folder: Path | None = None,
    options: ReportOptions = ReportOptions(),
) -> Path:
    """Write a report of the results of one dataset; return its folder, by default reports/DATASET."""
    dataset, report = dataset_report(dataset, algorithms, count, options)
    folder = folder or FOLDER / dataset
    say_answers(write_report(report, folder, checked_target(options.target_recall)))
    return folder


def bundle_results(
    request: BundleRequest,
    dataset: str | None,
    algorithms: Sequence[str] = (),
    count: int | None = None,
    options: ReportOptions = ReportOptions(),
) -> None:
    """Write the report of one dataset, and all that it rests on, as a bundle."""
    _, report = dataset_report(dataset, algorithms, count, options)
    write_bundle(report, request, checked_target(options.target_recall))


def dataset_report(
    dataset: str | None, algorithms: Sequence[str], count: int | None, options: ReportOptions
) -> tuple[str, Report]:
    """Return the name of a dataset, the only one by default, and the report of its results."""
    checked_target(options.target_recall)
    dataset = only_dataset() if dataset is None else canonical_name(dataset)
    left_out: LeftOut = {}
    runs, records = dataset_results(dataset, algorithms, count, options.recompute, left_out)
    words = ["python", "report.py", "--dataset", dataset]
    words += ["--algorithm", *algorithms] if algorithms else []
    words += ["--count", str(count)] if count else []
    return dataset, Report(
        options.title or f"Vector search on {dataset}",
        "",
        shlex.join([*words, *options.words]),
        chapters(dataset, runs, records),
        left_out=left_out,
        costs=options.costs,
        samples=sample_results(dataset, count, options.recompute),
    )


def sample_results(dataset: str, count: int | None, recompute: bool) -> list[Run]:
    """Read the results on samples of a dataset."""
    paths = (path for path in iter_result_paths(None, count) if sampled(path.parts[-4])[0] == dataset)
    return list(load_runs([path for path in paths if path.parts[-4] != dataset], recompute))


def only_dataset() -> str:
    """Return the only dataset with results; UserError, which names them, if there are several."""
    names = sorted({sampled(path.parts[-4])[0] for path in (*iter_result_paths(), *iter_record_paths())})
    if not names:
        raise UserError(f"nothing to report: {RESULTS_FOLDER}/ is empty; run run.py first")
    if len(names) > 1:
        raise UserError(f"there are results of several datasets: give --dataset {' or '.join(names)}")
    return names[0]


def dataset_results(
    dataset: str,
    algorithms: Sequence[str],
    count: int | None,
    recompute: bool,
    left_out: LeftOut | None = None,
) -> tuple[list[Run], list[Record]]:
    """Read what there is of a dataset and of curves with these names; UserError if there is nothing.

    `left_out` is given the files that cannot be read, or are of other vectors.
    """
    paths = list(iter_result_paths(dataset, count))
    if paths:
        make_truth_file(dataset)
    runs = list(load_runs(paths, recompute, left_out=left_out))
    records = list(readable_records(iter_record_paths(dataset, count)))
    if not runs and not records:
        if paths:
            raise UserError(f"nothing to report: no result of {dataset} can be read")
        raise UserError(explain_missing(dataset, count or 10).replace("to plot", "to report"))
    if not algorithms:
        return runs, records
    names = sorted({run.algorithm for run in runs} | {record.algo for record in records})
    for algorithm in algorithms:
        if not any(is_named(name, algorithm) for name in names):
            raise UserError(f"no results of '{algorithm}' on {dataset}: choose from {', '.join(names)}")
    chosen = {name for name in names if any(is_named(name, algorithm) for algorithm in algorithms)}
    return (
        [run for run in runs if run.algorithm in chosen],
        [record for record in records if record.algo in chosen],
    )


def chapters(dataset: str, runs: Sequence[Run], records: Sequence[Record]) -> list[Chapter]:
    """Return a chapter for each number of neighbours and mode, with what can be shown of it."""
    found = []
    keys = {(run.count, run.batch) for run in runs} | {(record.count, False) for record in records}
    for count, batch in sorted(keys):
        its_runs = [run for run in runs if (run.count, run.batch) == (count, batch)]
        its_records = [] if batch else [record for record in records if record.count == count]
        chapter = Chapter(
            title=f"{dataset}, k = {count}{', batch mode' if batch else ''}",
            runs=its_runs,
            records=its_records,
            pictures=worth_showing("picture", its_runs, its_records),
            tables=worth_showing("table", its_runs, its_records),
        )
        found.append(chapter)
    return found


def write_bundle(
    report: Report, request: BundleRequest, target: float, experiment: str | None = None
) -> None:
    """Write a bundle, in place of an older one; say what was left out of it. `experiment` is its name.

    UserError if there is nothing to bundle, the folder holds anything else or cannot be written, or something
    private would be left in it.
    """
    outcomes: list[Run | Record] = [*report.runs, *report.records]
    if not outcomes:
        raise UserError("nothing to bundle: run run.py first")
    if report.costs is not None:
        request = replace(request, prices=report.costs.prices.path)
    facts, attrs = facts_here(), [one.attrs for one in outcomes]
    private = Private(facts, attrs)
    with whole_folder(request.folder, bundle_files, "bundle", "--bundle") as place:
        bundle = Bundle(place, private)
        runs, records = bundle.copy_results(
            [run for chapter in report.chapters for run in chapter.runs],
            [record for chapter in report.chapters for record in chapter.records],
        )
        copied = publishable(report, private, runs, records)
        write_report(copied, place / REPORT, target, has_data=False)
        bundle.finish(request, report.title, experiment, target, [*copied.runs, *copied.records])
        findings = check_bundle(place, private=Private(facts, attrs, request.contact)).findings
        for leak in [one for one in findings.refused if one.rule == "private"]:
            raise UserError(
                f"the bundle is not written: {leak.file} {leak.text}; take it out of what is bundled, or"
                " report this as a mistake of this project"
            )
    left_out = "; ".join(private.left_out) or "nothing was found"
    say(f"left out of {request.folder} as private: {left_out}")
    for task in findings.tasks():
        warn(f"the checker would refuse {request.folder}: {task}")
    for name in private.unsafe:
        warn(
            f"{name} is also a word or number of results: it is left out only behind the word password; look"
            f" for it in {request.folder}"
        )


def publishable(
    report: Report, private: Private, runs: Mapping[Path, Run], records: Mapping[Path, Record]
) -> Report:
    """Return a report of copied results, by the paths of their originals, without private texts."""

    def texts(one: Any, *names: str) -> dict[str, Any]:
        return {name: private.text(getattr(one, name)) for name in names}

    def copied(record: Record) -> Record:
        return replace(records[record.path], path=Path(private.name(record.path.as_posix())))

    chapters = [
        replace(
            one,
            **texts(one, "title", "text", "command"),
            runs=[runs[run.path] for run in one.runs],
            records=[copied(record) for record in one.records],
            missing=[private.text(line) for line in one.missing],
            pictures=[private.value(request) for request in one.pictures],
            tables=[private.value(request) for request in one.tables],
        )
        for one in report.chapters
    ]
    findings = [Finding(**texts(one, *vars(one))) for one in report.findings]
    left_out: LeftOut = {
        Path(private.name(path.as_posix())): UserError(private.text(str(error)))
        for path, error in report.left_out.items()
    }
    costs = report.costs
    if costs is not None:
        notes = [private.text(note) for note in costs.prices.notes]
        own = texts(costs.prices, "label", "source")
        costs = replace(costs, prices=replace(costs.prices, path=Path(PRICES), notes=notes, **own))
    own = texts(report, "title", "text", "command", "source")
    return replace(report, chapters=chapters, findings=findings, left_out=left_out, costs=costs, **own)
