"""What report.py does: choose results, put them into chapters, write the report."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import canonical_name, make_truth_file
from ann_benchmarks.pricing.costs import CostRequest
from ann_benchmarks.results.comparable import clients, is_on_tier
from ann_benchmarks.results.file import RESULTS_FOLDER, iter_result_paths
from ann_benchmarks.results.filtered import read_deciles
from ann_benchmarks.results.records import Record, iter_record_paths, read_record
from ann_benchmarks.results.runs import LeftOut, Run, load_runs, skipped
from ann_benchmarks.results.tails import counts_of
from ann_benchmarks.submission.bundle import BundleRequest
from ann_benchmarks.views.chosen import checked_target, without_results
from ann_benchmarks.views.tiers import tier_runs

from .bundling import write_bundle
from .content import Chapter, Report, is_named
from .pictures import MONITORED
from .report import write_report

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
    dataset, report = report_of(dataset, algorithms, count, options)
    folder = folder or FOLDER / dataset
    write_report(report, folder, checked_target(options.target_recall))
    return folder


def bundle_results(
    request: BundleRequest,
    dataset: str | None,
    algorithms: Sequence[str] = (),
    count: int | None = None,
    options: ReportOptions = ReportOptions(),
) -> None:
    """Write the report of one dataset, and all that it rests on, as a bundle."""
    _, report = report_of(dataset, algorithms, count, options)
    write_bundle(report, request, checked_target(options.target_recall))


def report_of(
    dataset: str | None, algorithms: Sequence[str], count: int | None, options: ReportOptions
) -> tuple[str, Report]:
    """Return the name of a dataset, the only one by default, and the report of its results."""
    checked_target(options.target_recall)
    dataset = only_dataset() if dataset is None else canonical_name(dataset)
    left_out: LeftOut = {}
    runs, records = results_of(dataset, algorithms, count, options.recompute, left_out)
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
    )


def only_dataset() -> str:
    """Return the only dataset with results; UserError, which names them, if there are several."""
    names = sorted({path.parts[-4] for path in (*iter_result_paths(), *iter_record_paths())})
    if not names:
        raise UserError(f"nothing to report: {RESULTS_FOLDER}/ is empty; run run.py first")
    if len(names) > 1:
        raise UserError(f"there are results of several datasets: give --dataset {' or '.join(names)}")
    return names[0]


def results_of(
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
        raise UserError(without_results(dataset, count or 10).replace("to plot", "to report"))
    if not algorithms:
        return runs, records
    names = sorted({run.algorithm for run in runs} | {record.algo for record in records})
    for algorithm in algorithms:
        if not any(is_named(name, algorithm) for name in names):
            raise UserError(
                f"there are no results of '{algorithm}' on {dataset}: choose from {', '.join(names)}"
            )
    chosen = {name for name in names if any(is_named(name, algorithm) for algorithm in algorithms)}
    return (
        [run for run in runs if run.algorithm in chosen],
        [record for record in records if record.algo in chosen],
    )


def readable_records(paths: Iterable[Path]) -> Iterator[Record]:
    """Yield the records that can be read; say which cannot, and why."""
    for path in paths:
        try:
            yield read_record(path)
        except UserError as error:
            skipped(path, error)


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
            pictures=[{"kind": kind} for kind in worth_drawing(its_runs, its_records)],
            tables=[{"kind": kind} for kind in worth_listing(its_runs, its_records)],
        )
        found.append(chapter)
    return found


def worth_drawing(runs: Sequence[Run], records: Sequence[Record]) -> list[str]:
    """Return the kinds of pictures that say something about these results."""
    has_tiers = bool(tier_runs(runs))
    kinds = {
        "frontier": any(not is_on_tier(run) for run in runs) or (bool(runs) and not has_tiers),
        "tiers": has_tiers,
        **of_filters(runs),
        "clients": len({clients(run) for run in runs if not is_on_tier(run)}) > 1,
        "latency": bool(runs),
        "recalls": any(counts_of(run) for run in runs),
        "builds": any(run.metrics["build"] > 0 for run in runs),
        "dashboard": any(MONITORED in run.attrs for run in runs) or any(one.monitoring for one in records),
        **of_records(records),
    }
    return [kind for kind, is_worth in kinds.items() if is_worth]


def worth_listing(runs: Sequence[Run], records: Sequence[Record]) -> list[str]:
    """Return the kinds of tables that say something about these results."""
    kinds = {
        "speedups": len(runs) > 1,
        "recalls": any(counts_of(run) for run in runs),
        "tiers": bool(tier_runs(runs)),
        **of_filters(runs),
        "builds": any(run.metrics["build"] > 0 for run in runs),
        **of_records(records),
        "points": bool(runs),
    }
    return [kind for kind, is_worth in kinds.items() if is_worth]


def of_filters(runs: Sequence[Run]) -> dict[str, bool]:
    """Return whether there are filtered results, and such with figures by decile of matches."""
    filtered = [run for run in runs if run.series.filter and not run.series.is_open]
    return {"filters": bool(filtered), "deciles": any(read_deciles(run) for run in filtered)}


def of_records(records: Sequence[Record]) -> dict[str, bool]:
    """Return whether there are workloads of each kind."""
    return {kind: any(record.workload == kind for record in records) for kind in ("inserts", "writes")}
