"""A report and everything that it rests on, as a bundle that others can check."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import whole_folder
from ann_benchmarks.common.text import say
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run
from ann_benchmarks.submission.bundle import PRICES, REPORT, Bundle, BundleRequest, check_replaceable
from ann_benchmarks.submission.own_facts import facts_here
from ann_benchmarks.submission.private import Private

from .content import Chapter, Finding, Report
from .report import write_report


def write_bundle(
    report: Report, request: BundleRequest, target: float, experiment: str | None = None
) -> None:
    """Write a bundle, in place of an older one; say what was left out of it. `experiment` is its name.

    UserError if there is nothing to bundle, the folder holds anything else or cannot be written, or something
    private would be left in it.
    """
    outcomes: list[Run | Record] = [*report.runs, *report.records]
    if not outcomes:
        raise UserError("nothing to bundle: there is no result; run run.py first")
    if report.costs is not None:
        request = replace(request, prices=report.costs.prices.path)
    private = Private(facts_here(), [one.attrs for one in outcomes])
    with whole_folder(request.folder, check_replaceable, "--bundle") as place:
        bundle = Bundle(place, private)
        runs, records = bundle.copy_results(
            [run for chapter in report.chapters for run in chapter.runs],
            [record for chapter in report.chapters for record in chapter.records],
        )
        copied = without_private(report, private, runs, records)
        write_report(copied, place / REPORT, target)
        bundle.finish(request, report.title, experiment, target, [*copied.runs, *copied.records])
    left_out = "; ".join(private.left_out) or "nothing was found"
    say(f"left out of {request.folder} as private: {left_out}")


def without_private(
    report: Report, private: Private, runs: Mapping[Path, Run], records: Mapping[Path, Record]
) -> Report:
    """Return a report of copied results, by the paths of their originals, without private texts."""
    text = private.text

    def texts(lines: Sequence[str]) -> list[str]:
        return [text(line) for line in lines]

    def chapter(one: Chapter) -> Chapter:
        return replace(
            one,
            title=text(one.title),
            text=text(one.text),
            command=text(one.command),
            runs=[runs[run.path] for run in one.runs],
            records=[
                replace(records[rec.path], path=Path(private.name(rec.path.as_posix())))
                for rec in one.records
            ],
            missing=texts(one.missing),
            pictures=[private.value(request) for request in one.pictures],
            tables=[private.value(request) for request in one.tables],
        )

    def finding(one: Finding) -> Finding:
        return Finding(*texts([one.says, one.published, one.measured, one.verdict, one.why]))

    return replace(
        report,
        title=text(report.title),
        text=text(report.text),
        command=text(report.command),
        chapters=[chapter(one) for one in report.chapters],
        findings=[finding(one) for one in report.findings],
        source=text(report.source),
        costs=report.costs and replace(report.costs, prices=bundled_prices(report.costs.prices, private)),
        left_out={
            Path(private.name(path.as_posix())): UserError(text(str(error)))
            for path, error in report.left_out.items()
        },
    )


def bundled_prices(prices: PriceList, private: Private) -> PriceList:
    """Return prices that name the file in the bundle, without private texts."""
    return replace(
        prices,
        path=Path(PRICES),
        label=private.text(prices.label),
        source=private.text(prices.source),
        notes=[private.text(note) for note in prices.notes],
    )
