"""What plot.py does: choose the results of one dataset, draw them, say where the picture is."""

import sys
from pathlib import Path

from ..datasets import canonical_name, dataset_names, make_truth_file
from ..errors import UserError
from ..results import iter_result_paths
from .figure import create_plot, points_by_algorithm
from .runs import load_runs, result_styles
from .scales import parse_scale


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
) -> None:
    """Draw the results of one dataset and count; without `output`, into results/ or, read-only, here."""
    for axis, scale in (("x", x_scale), ("y", y_scale)):
        parse_scale(scale, axis)  # before any work is done
    dataset = canonical_name(dataset)
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

    name = f"{dataset}-batch.png" if batch else f"{dataset}.png"
    title = f"{dataset} (k = {count}{', batch' if batch else ''})"
    series = points_by_algorithm(runs, x, y)
    styles = result_styles(runs)

    def draw(target: Path) -> None:
        points = create_plot(series, x, y, target, x_scale, y_scale, raw, title, styles)
        print(f"wrote {target} (points: {points}, algorithms: {len(series)})")

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
