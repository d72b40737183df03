"""What plot.py does: choose the results of one dataset, draw them, say where the picture is."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.text import warn
from ann_benchmarks.data.datasets import canonical_name, dataset_names, make_truth_file
from ann_benchmarks.results.at_recall import may_reach
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.measurement import has_mean_throughput
from ann_benchmarks.results.metrics import QPS_AT_RECALL, TARGET_RECALL
from ann_benchmarks.results.percentiles import PERCENTILES, least_queries
from ann_benchmarks.results.runs import Run, load_runs
from ann_benchmarks.results.warnings import of_environments
from ann_benchmarks.views.chosen import ALL, chosen
from ann_benchmarks.views.facets import FACETS, NO_FACET, panels
from ann_benchmarks.views.filters import NO_DEFAULTS, filter_tables, view_filters
from ann_benchmarks.views.parts import Part, Table, escaped, table_text
from ann_benchmarks.views.points import over_first, points_by_algorithm
from ann_benchmarks.views.tiers import relative_lines, tier_lines, tier_runs, tier_tables, whole_machine

from .canvas import picture_path
from .figure import View, create_plot
from .filter_figure import create_filter_figure
from .panels import create_panels
from .published import read_points, read_tiers
from .scales import parse_scale
from .styles import assign_styles, result_styles, told_apart
from .tier_figure import create_tier_figure


@dataclass(frozen=True)
class PlotRequest:
    """Which results to draw, how, and where the picture goes; without `output`, results/ or, read-only, here.

    `target_recall` is what a result must reach for the metric qpsatrecall and for tiers. `published` names
    figures of reference/ to lay over (NAME or NAME:TABLE). `series` are patterns of names, or "all"; without
    one, results under one load on one server are drawn. `facet` names what has a panel of its own.
    """

    dataset: str
    count: int = 10
    output: Path | None = None
    view: View = field(default_factory=View)
    batch: bool = False
    recompute: bool = False
    intervals: bool = True
    target_recall: float | None = None
    published: str | None = None
    series: Sequence[str] = ()
    facet: str = ""

    def title(self, dataset: str, target: float | None, load: str = "") -> str:
        """Name the picture of a dataset, of a load, and of a recall where it depends on that."""
        about = [f"k = {self.count}", *(["batch"] if self.batch else []), *([load] if load else [])]
        return f"{dataset} ({', '.join(about + ([f'target recall {target:g}'] if target else []))})"


def draw_dataset(request: PlotRequest) -> None:
    """Draw the results of one dataset and count."""
    view, at_target = request.view, QPS_AT_RECALL in (request.view.x, request.view.y)
    if request.target_recall is not None and not at_target:
        raise UserError(f"--target-recall is for the metric {QPS_AT_RECALL}: choose it with -x or -y")
    target = checked_target(request.target_recall)
    for axis, scale in (("x", view.x_scale), ("y", view.y_scale)):
        parse_scale(scale, axis)  # before any work is done
    dataset = canonical_name(request.dataset)
    others = None
    if request.published and request.facet:
        raise UserError("published figures have one picture of their own: leave out --facet or --published")
    if request.published:
        others = read_points(request.published, dataset, view.x, view.y, view.normalise)
    facet = FACETS.get(request.facet, NO_FACET)
    choice = chosen(runs_of(dataset, request), request.series, facet)
    runs = choice.runs
    title = request.title(dataset, target if at_target else None, choice.load)
    for text in of_environments(runs) if request.facet != "server" else ():
        warn(text)
    for text in choice.notes:
        print(text)
    if at_target:
        check_reached(runs, target)
    parts = panels(runs, facet) if request.facet else {"": runs}
    points_of = {
        name: points_by_algorithm(part, view.x, view.y, target, request.intervals)
        for name, part in parts.items()
    }
    drawn = {name: series for name, series in points_of.items() if series}
    if "qps" in view.metrics and len({has_mean_throughput(run.attrs) for run in runs}) > 1:
        warn("files of ann-benchmarks state only the throughput of the best run: compare by -y qps-best")
    if not drawn:
        if not any(is_known(run, view) for run in runs):
            few = [f"; {name} takes {least_queries(name):,}" for name in view.metrics if name in PERCENTILES]
            hint = f"{few[0]} queries: measure more of them" if few else ""
            raise UserError(f"nothing to plot: no result has both {view.x} and {view.y}{hint}")
        # ann-benchmarks' CI and scripts draw what an algorithm does not count, too.
        warn(f"every result has a 0 for {view.x} or {view.y}, which is not drawn: the picture is empty")
    if view.normalise:
        for series in drawn.values():
            series |= {name: over_first(points, (view.x, view.y)) for name, points in series.items()}
    names = {run.algorithm for part in parts.values() for run in part}
    styles = assign_styles(names) if request.facet else result_styles(names)
    styles = told_apart({name: styles[name] for name in names})
    curves = len({name for series in drawn.values() for name in series})

    def draw(picture: Path) -> None:
        if request.facet and drawn:
            points, more = create_panels(drawn, view, picture, title, styles), f", panels: {len(drawn)}"
        else:
            points, more = create_plot(drawn.get("", {}), view, picture, title, styles, others), ""
        print(f"wrote {picture} (points: {points}, algorithms: {curves}{more})")

    by = f"-by-{request.facet}" if request.facet else ""
    to_folder(request.output, f"{dataset}{by}{'-batch' if request.batch else ''}.png", draw)


def draw_tiers(request: PlotRequest) -> None:
    """Draw throughput and p99 by available RAM, and write them as a table next to the picture.

    Published figures make all of them shares of the index's size and of the value at the most RAM, as
    normalising does.
    """
    target = checked_target(request.target_recall)
    others = read_tiers(request.published) if request.published else None
    dataset = canonical_name(request.dataset)
    runs = chosen(runs_of(dataset, request), request.series or [ALL]).runs
    on_tiers = tier_runs(runs)
    if not on_tiers:
        raise UserError(without_tiers(dataset, request.count, runs))
    check_reached([found.run for found in on_tiers], target)
    lines = tier_lines(on_tiers, target, request.intervals)
    if not lines:
        raise UserError("nothing to plot: the results on tiers have neither QPS nor latency")
    shares = request.view.normalise or bool(others)
    if shares:
        lines = relative_lines(lines)
    if not lines:
        raise UserError(
            "no result has the size of its index, which --published and --normalise divide by: leave them out"
        )
    title = request.title(dataset, target)
    parts = tier_tables(on_tiers, target, request.intervals)

    def draw(picture: Path) -> None:
        points = create_tier_figure(lines, picture, title, whole_machine(on_tiers), others, shares)
        table = picture.with_suffix(".md")
        write_parts(table, title, parts)
        print(f"wrote {picture} and {table} (points: {points}, lines: {len(lines)})")

    to_folder(request.output, f"{dataset}-tiers{'-batch' if request.batch else ''}.png", draw)


def draw_filters(request: PlotRequest) -> None:
    """Draw the strategies under all filters, and write them as a table next to the picture.

    Of several loads or servers it is that with the most points, as a line says. UserError where no result
    has a filter.
    """
    target = checked_target(request.target_recall)
    refuse_other_figures(request, "--filters draws QPS and shares as they are")
    dataset = canonical_name(request.dataset)
    runs = runs_of(dataset, request)
    view = view_filters(chosen(runs, request.series).runs if request.series else runs, target)
    if not view.sets:
        raise UserError(without_filters(dataset, request.count, runs))
    for text in of_environments(view.choice.runs):
        warn(text)
    for text in [*view.choice.notes, *([] if view.has_defaults else [NO_DEFAULTS])]:
        print(text)
    if not any(one.at_recall for one in view.sets):
        warn(f"no result reaches a recall of {target:g} with all rows returned: --target-recall lowers it")
    names = view.strategies
    known = result_styles(names)
    styles = told_apart({name: known[name] for name in names})
    title = request.title(dataset, target, view.choice.load)

    def draw(picture: Path) -> None:
        points = create_filter_figure(view, picture, title, styles, request.intervals)
        table = picture.with_suffix(".md")
        write_parts(table, title, filter_tables(view, request.intervals))
        drawn = f"points: {points}, strategies: {len(names)}, filters: {len(view.sets)}"
        print(f"wrote {picture} and {table} ({drawn})")

    to_folder(request.output, f"{dataset}-filters{'-batch' if request.batch else ''}.png", draw)


def write_parts(path: Path, title: str, parts: Sequence[Part]) -> None:
    """Write the tables and notes of a view next to its picture; UserError if the file cannot be written."""
    texts = [table_text(part) if isinstance(part, Table) else escaped(part) for part in parts]
    try:
        with atomic_path(path) as temporary:
            temporary.write_text("\n\n".join([f"# {escaped(title)}", *texts]) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def checked_target(recall: float | None) -> float:
    """Return the recall to be reached; UserError if it can be none."""
    target = TARGET_RECALL if recall is None else recall
    if not 0 < target <= 1:
        raise UserError(f"--target-recall {target:g} is no share of the neighbours: give a number up to 1")
    return target


def refuse_other_figures(request: PlotRequest, says: str) -> None:
    """Raise UserError where a picture of measured figures alone is to have published or relative ones."""
    for option, value in (("published", request.published), ("normalise", request.view.normalise)):
        if value:
            raise UserError(f"{says}: leave out --{option}")


def runs_of(dataset: str, request: PlotRequest) -> list[Run]:
    """Read the results of a dataset, by its canonical name; UserError if there are none."""
    count, batch = request.count, request.batch
    paths = list(iter_result_paths(dataset, count))
    if not paths:
        raise UserError(without_results(dataset, count))
    make_truth_file(dataset)
    runs = [run for run in load_runs(paths, request.recompute) if run.batch == batch]
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
        draw(picture_path(output, name))
        return
    try:
        draw(Path("results") / name)
    except UserError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        print(f"{error}; writing to the current folder instead", file=sys.stderr)
        draw(Path(name))


def is_known(run: Run, view: View) -> bool:
    """Whether a result has both metrics, be they 0."""
    return all(math.isfinite(run.metrics.get(name, math.nan)) for name in view.metrics)


def check_reached(runs: Sequence[Run], target: float) -> None:
    """Raise UserError, which names the highest recall, if no result may reach the target."""
    if not any(may_reach(run, target) for run in runs):
        highest = max(run.metrics["recall"] for run in runs)
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


def without_tiers(dataset: str, count: int, runs: Sequence[Run]) -> str:
    """Say why there is no picture of tiers, and what to do."""
    if any(run.attrs.get("tier") for run in runs):
        return (
            f"nothing to plot: the tiers of {dataset} with count {count} limit no memory;"
            f" leave out --tiers to draw them as curves"
        )
    return (
        f"nothing to plot: no result of {dataset} with count {count} was measured on a tier;"
        f" run run.py --tiers, such as --tiers mini"
    )


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
