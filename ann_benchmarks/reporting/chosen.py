"""What report.py does: choose results, put them into chapters, write the report."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import canonical_name, make_truth_file
from ann_benchmarks.plotting.draw import checked_target, without_results
from ann_benchmarks.results.comparable import clients, is_on_tier
from ann_benchmarks.results.file import RESULTS_FOLDER, iter_result_paths
from ann_benchmarks.results.records import Record, iter_record_paths, read_record
from ann_benchmarks.results.runs import Run, load_runs, skipped
from ann_benchmarks.results.tiers import as_tier_run

from .content import Chapter, Report
from .kinds import is_named
from .monitored import MARK
from .report import write_report

FOLDER = Path("reports")


def report_results(
    dataset: str | None,
    algorithms: Sequence[str] = (),
    count: int | None = None,
    folder: Path | None = None,
    title: str | None = None,
    target_recall: float | None = None,
    recompute: bool = False,
) -> Path:
    """Write a report of the results of one dataset; return its folder, by default reports/DATASET."""
    target = checked_target(target_recall)
    dataset = canonical_name(dataset) if dataset else only_dataset()
    folder = folder or FOLDER / dataset
    runs, records = results_of(dataset, algorithms, count, recompute)
    words = ["--dataset", dataset]
    words += ["--algorithm", *algorithms] if algorithms else []
    words += ["--count", str(count)] if count else []
    words += ["--target-recall", f"{target:g}"] if target_recall is not None else []
    write_report(
        Report(
            title or f"Vector search on {dataset}",
            "",
            f"python report.py {shlex.join(words)}",
            chapters(dataset, runs, records),
        ),
        folder,
        target,
    )
    return folder


def only_dataset() -> str:
    """Return the dataset that there are results of; UserError, which names them, if there are several."""
    paths = [*iter_result_paths(), *iter_record_paths()]
    names = sorted({path.parts[-4] for path in paths})
    if not names:
        raise UserError(f"nothing to report: {RESULTS_FOLDER}/ is empty; run run.py first")
    if len(names) > 1:
        raise UserError(f"there are results of several datasets: give --dataset {' or '.join(names)}")
    return names[0]


def results_of(
    dataset: str, algorithms: Sequence[str], count: int | None, recompute: bool
) -> tuple[list[Run], list[Record]]:
    """Read what there is of a dataset and of curves with these names; UserError if there is nothing."""
    paths = list(iter_result_paths(dataset, count))
    if paths:
        make_truth_file(dataset)
    runs = list(load_runs(paths, recompute))
    records = list(readable_records(dataset, count))
    if not runs and not records:
        if paths:
            raise UserError(f"nothing to report: no result of {dataset} can be read")
        raise UserError(without_results(dataset, count or 10).replace("to plot", "to report"))
    if not algorithms:
        return runs, records
    names = sorted({run.algorithm for run in runs} | {record.algo for record in records})
    for wanted in algorithms:
        if not any(is_named(name, wanted) for name in names):
            raise UserError(f"there are no results of '{wanted}' on {dataset}: there are {', '.join(names)}")
    return (
        [run for run in runs if any(is_named(run.algorithm, wanted) for wanted in algorithms)],
        [record for record in records if any(is_named(record.algo, wanted) for wanted in algorithms)],
    )


def readable_records(dataset: str, count: int | None) -> Any:
    """Yield the records that can be read; say which cannot, and why."""
    for path in iter_record_paths(dataset, count):
        try:
            yield read_record(path)
        except UserError as error:
            skipped(path, error)


def chapters(dataset: str, runs: Sequence[Run], records: Sequence[Record]) -> list[Chapter]:
    """Return a chapter for each number of neighbours and mode, with what can be shown of it."""
    found = []
    keys = {(run.count, run.batch) for run in runs} | {(record.count, False) for record in records}
    for count, batch in sorted(keys):
        of_it = [run for run in runs if (run.count, run.batch) == (count, batch)]
        records_of_it = [] if batch else [record for record in records if record.count == count]
        chapter = Chapter(
            title=f"{dataset}, k = {count}{', batch mode' if batch else ''}",
            runs=of_it,
            records=records_of_it,
            pictures=[{"kind": kind} for kind in worth_drawing(of_it, records_of_it)],
            tables=[{"kind": kind} for kind in worth_listing(of_it, records_of_it)],
        )
        found.append(chapter)
    return found


def worth_drawing(runs: Sequence[Run], records: Sequence[Record]) -> list[str]:
    """Return the kinds of pictures that tell something of these results."""
    has_tiers = any(as_tier_run(run) for run in runs)
    kinds = {
        "frontier": any(not is_on_tier(run) for run in runs) or (bool(runs) and not has_tiers),
        "tiers": has_tiers,
        "clients": len({clients(run) for run in runs if not is_on_tier(run)}) > 1,
        "latency": bool(runs),
        "builds": any(run.metrics["build"] > 0 for run in runs),
        "dashboard": any(MARK in run.attrs for run in runs) or any(record.monitoring for record in records),
        **of_records(records),
    }
    return [kind for kind, is_worth in kinds.items() if is_worth]


def worth_listing(runs: Sequence[Run], records: Sequence[Record]) -> list[str]:
    """Return the kinds of tables that tell something of these results."""
    kinds = {
        "speedups": len(runs) > 1,
        "tiers": any(as_tier_run(run) for run in runs),
        "builds": any(run.metrics["build"] > 0 for run in runs),
        **of_records(records),
        "points": bool(runs),
    }
    return [kind for kind, is_worth in kinds.items() if is_worth]


def of_records(records: Sequence[Record]) -> dict[str, bool]:
    """Return whether there are workloads of each kind."""
    return {kind: any(record.workload == kind for record in records) for kind in ("inserts", "writes")}
