"""Which results were monitored while they were measured, and where their files are."""

from collections.abc import Iterable
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import clean_text
from ann_benchmarks.results.comparable import clients, family
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.runs import Run

MARK = "monitoring_cpu_seconds"  # the attribute of a result that was


def worth_a_dashboard(runs: Iterable[Run], target: float) -> list[Run]:
    """Return of each algorithm the monitored result with the most clients: the fastest at a recall."""

    def worth(run: Run) -> tuple[int, float, float]:
        return clients(run), qps_at_recall(run.metrics, target) > 0, run.metrics["qps"]

    best: dict[str, Run] = {}
    for run in sorted((run for run in runs if MARK in run.attrs), key=worth, reverse=True):
        best.setdefault(family(run), run)
    return list(best.values())


def path_of(run: Run) -> Path:
    """Return the file that a result was read from; UserError if it is no longer there."""
    for path in iter_result_paths(run.dataset, run.count):
        folder = path.parent.name
        if folder == run.algorithm + "-batch" * run.batch:
            attrs = read_attributes(path)
            if clean_text(attrs["name"]) == run.parameters:
                return path
    raise UserError(f"the result file of {run.algorithm}, {run.parameters}, is not there any more")
