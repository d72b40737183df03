"""What plot.py --recalls does: choose the results of one load next to a recall, draw recall by query."""

from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import warn
from ann_benchmarks.data.datasets import canonical_name
from ann_benchmarks.results.tails import tails_at
from ann_benchmarks.results.warnings import of_environments
from ann_benchmarks.views.chosen import chosen

from .draw import PlotRequest, checked_target, refuse_other_figures, runs_of, to_folder
from .recall_figure import create_recall_figure
from .styles import result_styles, told_apart


def draw_recalls(request: PlotRequest) -> None:
    """Draw the share of queries below each recall, of each series' result next to the target recall.

    Of several loads or servers it is that with the most points, as a line says. UserError where no result
    reaches the recall.
    """
    target = checked_target(request.target_recall)
    refuse_other_figures(request, "--recalls draws shares of queries as they are")
    dataset = canonical_name(request.dataset)
    choice = chosen(runs_of(dataset, request), request.series)
    try:
        tails = tails_at(choice.runs, target)
    except UserError as error:
        raise UserError(f"nothing to plot: {error}; --target-recall lowers the target") from error
    for text in of_environments(choice.runs):
        warn(text)
    for text in choice.notes:
        print(text)
    known = result_styles({tail.run.algorithm for tail in tails})
    styles = told_apart({tail.run.algorithm: known[tail.run.algorithm] for tail in tails})
    title = request.title(dataset, target, choice.load)

    def draw(picture: Path) -> None:
        create_recall_figure(tails, picture, title, styles)
        print(f"wrote {picture} (series: {len(tails)})")

    to_folder(request.output, f"{dataset}-recalls{'-batch' if request.batch else ''}.png", draw)
