"""What plot.py --filters does: choose the filtered results of one load, draw them, and write the table."""

from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import warn
from ann_benchmarks.data.datasets import canonical_name
from ann_benchmarks.results.filtered import UnderFilter, under_filters
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.warnings import of_environments

from .chosen import chosen, filtered_of_one_load
from .draw import PlotRequest, checked_target, refuse_other_figures, runs_of, to_folder
from .filter_figure import create_filter_figure
from .filter_table import NO_DEFAULTS, write_filter_table
from .styles import result_styles, told_apart


def draw_filters(request: PlotRequest) -> None:
    """Draw the strategies under all filters, and write them as a table next to the picture.

    Of several loads or servers it is that with the most points, as a line says. UserError where no result
    has a filter.
    """
    target = checked_target(request.target_recall)
    refuse_other_figures(request, "--filters draws QPS and shares as they are")
    dataset = canonical_name(request.dataset)
    runs = runs_of(dataset, request)
    choice = filtered_of_one_load(chosen(runs, request.series).runs if request.series else runs)
    found = under_filters(choice.runs, target)
    if not found:
        raise UserError(without_filters(dataset, request.count, runs))
    for text in of_environments(choice.runs):
        warn(text)
    for text in choice.notes:
        print(text)
    if not any(one.defaults for one in found):
        print(NO_DEFAULTS)
    check_strategies(found, target)
    names = {name for one in found for name in one.strategies}
    known = result_styles(names)
    styles = told_apart({name: known[name] for name in names})
    title = request.title(dataset, target, choice.load)

    def draw(picture: Path) -> None:
        points = create_filter_figure(found, picture, title, styles, request.intervals)
        table = picture.with_suffix(".md")
        write_filter_table(table, title, found, request.intervals)
        print(
            f"wrote {picture} and {table} (points: {points}, strategies: {len(names)}, filters: {len(found)})"
        )

    to_folder(request.output, f"{dataset}-filters{'-batch' if request.batch else ''}.png", draw)


def check_strategies(found: Sequence[UnderFilter], target: float) -> None:
    """Warn where no strategy reaches the recall under any filter: the defaults can still be drawn."""
    if not any(one.at_recall for one in found):
        warn(f"no result reaches a recall of {target:g} with all rows returned: --target-recall lowers it")


def without_filters(dataset: str, count: int, runs: Sequence[Run]) -> str:
    """Say why there is no picture of filters, and what to do."""
    if any(run.series.filter for run in runs):
        return (
            f"nothing to plot: the filtered results of {dataset} with count {count} came at a given"
            " rate, which says nothing of a strategy's speed; run run.py --filter without --rate"
        )
    return (
        f"nothing to plot: no result of {dataset} with count {count} has a filter;"
        " run run.py --filter, such as --filter uniform:0.01"
    )
