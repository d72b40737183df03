"""What plot.py does: choose the results of one dataset, draw them, say where the picture is."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import canonical_name, dataset_names, make_truth_file
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import QPS_AT_RECALL, ROUNDING, TARGET_RECALL
from ann_benchmarks.results.runs import Run, load_runs

from .figure import create_plot
from .points import points_by_algorithm
from .published import read_points
from .scales import parse_scale
from .shares import over_first
from .styles import result_styles


def draw_dataset(
    dataset: str,
    count: int,
    output: Path | None,
    x: str,
    y: str,
    x_scale: str,
    y_scale: str,
    raw: bool,
    batch: bool,
    recompute: bool,
    intervals: bool = True,
    target_recall: float | None = None,
    published: str | None = None,
    normalise: bool = False,
) -> None:
    """Draw the results of one dataset and count; without `output`, into results/ or, read-only, here.

    `target_recall` is what a result must reach for the metric qpsatrecall. `published` names figures of
    reference/ to lay over (NAME or NAME:TABLE); `normalise` divides every curve by its first point.
    """
    at_target = QPS_AT_RECALL in (x, y)
    if target_recall is not None and not at_target:
        raise UserError(f"--target-recall is for the metric {QPS_AT_RECALL}: choose it with -x or -y")
    target = checked_target(target_recall)
    for axis, scale in (("x", x_scale), ("y", y_scale)):
        parse_scale(scale, axis)  # before any work is done
    dataset = canonical_name(dataset)
    others = read_points(published, dataset, x, y, normalise) if published else None
    runs = runs_of(dataset, count, batch, recompute)
    name = f"{dataset}-batch.png" if batch else f"{dataset}.png"
    about = [
        f"k = {count}",
        *(["batch"] if batch else []),
        *([f"target recall {target:g}"] if at_target else []),
    ]
    title = f"{dataset} ({', '.join(about)})"
    if at_target:
        check_reached(runs, target)
    series = points_by_algorithm(runs, x, y, target, intervals)
    if normalise:
        series = {name: over_first(points, (x, y)) for name, points in series.items()}
    styles = result_styles(runs)

    def draw(picture: Path) -> None:
        points = create_plot(series, x, y, picture, x_scale, y_scale, raw, title, styles, others, normalise)
        print(f"wrote {picture} (points: {points}, algorithms: {len(series)})")

    to_folder(output, name, draw)


def checked_target(recall: float | None) -> float:
    """Return the recall to be reached; UserError if it can be none."""
    target = TARGET_RECALL if recall is None else recall
    if not 0 < target <= 1:
        raise UserError(f"--target-recall {target:g} is no share of the neighbours: give a number up to 1")
    return target


def runs_of(dataset: str, count: int, batch: bool, recompute: bool) -> list[Run]:
    """Read the results of a dataset, by its canonical name; UserError if there are none."""
    paths = list(iter_result_paths(dataset, count))
    if not paths:
        raise UserError(without_results(dataset, count))
    make_truth_file(dataset)
    runs = [run for run in load_runs(paths, recompute) if run.batch == batch]
    if not runs:
        mode, flag = ("batch", "without") if batch else ("single-query", "with")
        raise UserError(
            f"nothing to plot: no {mode} result of {dataset} with count {count} can be read;"
            f" try {flag} --batch, or run run.py"
        )
    return runs


def to_folder(output: Path | None, name: str, draw: Callable[[Path], None]) -> None:
    """Draw into `output`, else by this name into results/ or, where that is read-only, here."""
    if output:
        draw(output if output.suffix else output.with_name(f"{output.name}.png"))
        return
    try:
        draw(Path("results") / name)
    except UserError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        print(f"{error}; writing to the current folder instead", file=sys.stderr)
        draw(Path(name))


def check_reached(runs: Sequence[Run], target: float) -> None:
    """Raise UserError, which names the highest recall, if no result reaches the target."""
    highest = max(run.metrics["k-nn"] for run in runs)
    if highest < target - ROUNDING:
        raise UserError(
            f"nothing to plot: no result reaches a recall of {target:g}; the highest is {highest:.4f}"
        )


def without_results(dataset: str, count: int) -> str:
    """Say why there is nothing to plot for a dataset, and what there is."""
    available: dict[str, set[int]] = {}
    for path in iter_result_paths():
        if path.parts[-3].isdecimal():
            available.setdefault(path.parts[-4], set()).add(int(path.parts[-3]))
    there_is = "; ".join(
        f"{name} (count {', '.join(map(str, sorted(counts)))})" for name, counts in sorted(available.items())
    )
    hint = f"there are results of {there_is}" if there_is else "results/ is empty: run run.py first"
    if dataset in available or dataset in dataset_names():
        return f"nothing to plot for {dataset} with count {count}: {hint}"
    return f"unknown dataset '{dataset}': {hint}"
