"""What plot.py does: choose the results of one dataset, draw them in a mode, say where they are."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.text import warn
from ann_benchmarks.data.datasets import canonical_name, make_truth_file
from ann_benchmarks.monitoring.stored import monitored_from, read_monitoring
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.measurement import has_mean_throughput
from ann_benchmarks.results.metrics import QPS_AT_RECALL
from ann_benchmarks.results.records import SUFFIX, read_record
from ann_benchmarks.results.runs import Run, load_runs
from ann_benchmarks.results.warnings import server_warnings
from ann_benchmarks.statistics.percentiles import PERCENTILES, least_queries
from ann_benchmarks.views.chosen import (
    ALL,
    FACETS,
    NO_FACET,
    Choice,
    check_reached,
    checked_target,
    chosen,
    explain_missing,
    panels,
)
from ann_benchmarks.views.curves import View, facet_chart, metric_chart
from ann_benchmarks.views.figures import curve_names, series_styles
from ann_benchmarks.views.filter_chart import filter_chart
from ann_benchmarks.views.filters import NO_DEFAULTS, filter_tables, view_filters
from ann_benchmarks.views.monitoring import monitoring_chart
from ann_benchmarks.views.parts import Part, Table, escaped, table_text
from ann_benchmarks.views.points import points_by_algorithm
from ann_benchmarks.views.published import read_points, read_tiers
from ann_benchmarks.views.tier_lines import relative_lines, tier_chart, tier_lines
from ann_benchmarks.views.tiers import tier_runs, tier_tables, whole_machine

from .canvas import picture_path
from .chart import draw_chart, own_points
from .scales import parse_scale


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
    target_recall: float | None = None
    published: str | None = None
    series: Sequence[str] = ()
    facet: str = ""

    def title(self, target: float | None, load: str = "") -> str:
        """Name the picture of a dataset, of a load, and of a recall where it depends on that."""
        about = [f"k = {self.count}", *(["batch"] if self.batch else []), *([load] if load else [])]
        return f"{self.dataset} ({', '.join(about + ([f'target recall {target:g}'] if target else []))})"

    @property
    def selection(self) -> str:
        """The dataset and count, as messages name them."""
        return f"of {self.dataset} with count {self.count}"


@dataclass(frozen=True)
class Drawing:
    """A picture to be drawn by `write` into a file, what to say of it, and the tables that go next to it."""

    title: str
    write: Callable[[Path], None]
    said: str
    tables: Sequence[Part] = ()


def draw(request: PlotRequest, mode: str = "") -> None:
    """Draw the results of one dataset and count in one of the MODES.

    The picture goes to the requested file, else into results/ or, where that is read-only, here.
    """
    prepare, measured_only = MODES[mode]
    target = checked_target(request.target_recall)
    if measured_only and request.published:
        raise UserError(f"--{mode} draws {measured_only} as they are: leave out --published")
    request = replace(request, dataset=canonical_name(request.dataset))
    picture = prepare(request, target)

    def write(path: Path) -> None:
        picture.write(path)
        written = f"{path}"
        if picture.tables:
            written += f" and {write_tables(path.with_suffix('.md'), picture)}"
        print(f"wrote {written} ({picture.said})")

    ending = f"-{mode}" if mode else f"-by-{request.facet}" if request.facet else ""
    ending += "-published" if request.published else ""  # the plain picture stays
    name = f"{request.dataset}{ending}{'-batch' if request.batch else ''}.png"
    if request.output:
        write(picture_path(request.output, name))
        return
    try:
        write(Path("results") / name)
    except UserError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        print(f"{error}; writing to the current folder instead", file=sys.stderr)
        write(Path(name))


def prepare_metrics(request: PlotRequest, target: float) -> Drawing:
    """Prepare the frontier of two metrics, in one picture or in a panel for each value of a facet."""
    view, at_target = request.view, QPS_AT_RECALL in (request.view.x, request.view.y)
    if request.target_recall is not None and not at_target:
        raise UserError(f"--target-recall is for the metric {QPS_AT_RECALL}: choose it with -x or -y")
    for axis, scale in (("x", view.x_scale), ("y", view.y_scale)):
        parse_scale(scale, axis)  # before any work is done
    others = None
    if request.published and request.facet:
        raise UserError("published figures have one picture of their own: leave out --facet or --published")
    if request.published:
        others = read_points(request.published, request.dataset, view.x, view.y)
    facet = FACETS.get(request.facet, NO_FACET)
    every = read_runs(request)
    choice = chosen(every, request.series, facet)
    runs = choice.runs
    title = request.title(target if at_target else None, choice.load)
    announce(choice, environments=request.facet != "server")
    if at_target:
        check_reached(runs, target)
    parts = panels(runs, facet) if request.facet else {"": runs}
    points_by_part = {name: points_by_algorithm(part, view.x, view.y, target) for name, part in parts.items()}
    drawn = {name: series for name, series in points_by_part.items() if series}
    if {"qps", QPS_AT_RECALL} & {*view.metrics} and len({has_mean_throughput(run.attrs) for run in runs}) > 1:
        warn("files of ann-benchmarks state only the throughput of the best run: compare by -y qps-best")
    if not drawn:
        if not any(is_known(run, view) for run in runs):
            few = [f"; {name} takes {least_queries(name):,}" for name in view.metrics if name in PERCENTILES]
            hint = f"{few[0]} queries: measure more of them" if few else ""
            raise UserError(f"nothing to plot: no result has both {view.x} and {view.y}{hint}")
        # ann-benchmarks' CI and scripts draw what an algorithm does not count, too.
        warn(f"every result has a 0 for {view.x} or {view.y}, which is not drawn: the picture is empty")
    shown = [run.series for part in parts.values() for run in part]
    styles = series_styles([*shown, *(run.series for run in every)])
    curves = len({name for series in drawn.values() for name in series})
    if request.facet and drawn:
        chart, more = facet_chart(drawn, view, title, styles), f", panels: {len(drawn)}"
    else:
        chart, more = metric_chart(drawn.get("", {}), view, title, styles, others), ""
    said = f"points: {len(own_points(chart))}, algorithms: {curves}{more}"
    return Drawing(title, partial(draw_chart, chart.renamed(curve_names(shown))), said)


def prepare_tiers(request: PlotRequest, target: float) -> Drawing:
    """Prepare throughput and p99 by available RAM, and their table.

    Published figures make all of them shares of the index's size and of the value at the most RAM.
    """
    others = read_tiers(request.published) if request.published else None
    every = read_runs(request)
    runs = chosen(every, request.series or [ALL]).runs
    on_tiers = tier_runs(runs)
    if not on_tiers and any(run.attrs.get("tier") for run in runs):
        raise UserError(
            f"nothing to plot: the tiers {request.selection} limit no memory;"
            " leave out --tiers to draw them as curves"
        )
    if not on_tiers:
        raise UserError(
            f"nothing to plot: no result {request.selection} was measured on a tier;"
            " run run.py --tiers, such as --tiers mini"
        )
    check_reached([found.run for found in on_tiers], target)
    lines = tier_lines(on_tiers, target)
    if not lines:
        raise UserError("nothing to plot: the results on tiers have neither QPS nor latency")
    if others:
        lines = relative_lines(lines)
    if not lines:
        raise UserError("no result has the size of its index, which --published divides by: leave it out")
    title = request.title(target)
    styles = series_styles(run.series for run in every)
    chart = tier_chart(lines, title, whole_machine(on_tiers), others, styles)
    chart = chart.renamed(curve_names(one.run.series for one in on_tiers))
    said = f"points: {sum(len(line.panels['qps']) for line in lines)}, lines: {len(lines)}"
    return Drawing(title, partial(draw_chart, chart), said, tier_tables(on_tiers, target))


def prepare_filters(request: PlotRequest, target: float) -> Drawing:
    """Prepare the strategies under all filters, of the load with the most points, and their table."""
    runs = read_runs(request)
    view = view_filters(chosen(runs, request.series).runs if request.series else runs, target)
    if not view.sets and any(run.series.filter for run in runs):
        raise UserError(
            f"nothing to plot: the filtered results {request.selection} came at a given rate, which says"
            " nothing of a strategy's speed; run run.py --filter without --rate"
        )
    if not view.sets:
        raise UserError(
            f"nothing to plot: no result {request.selection} has a filter;"
            " run run.py --filter, such as --filter uniform:0.01"
        )
    announce(view.choice, [] if view.has_defaults else [NO_DEFAULTS])
    if not any(one.standings for one in view.sets):
        warn(f"no result reaches a recall of {target:g} with all rows returned: --target-recall lowers it")
    names = view.strategies
    styles, title = series_styles(run.series for run in runs), request.title(target, view.choice.load)
    points = sum(len(one.standings) for one in view.sets)
    said = f"points: {points}, strategies: {len(names)}, filters: {len(view.sets)}"
    chart = filter_chart(view, title, styles)
    chart = chart.renamed(curve_names(run.series for run in runs))
    return Drawing(title, partial(draw_chart, chart), said, filter_tables(view))


# What prepares a picture and, if nothing published can be laid over it, the figures that it shows.
MODES: dict[str, tuple[Callable[[PlotRequest, float], Drawing], str]] = {
    "": (prepare_metrics, ""),
    "tiers": (prepare_tiers, ""),
    "filters": (prepare_filters, "QPS and shares"),
}


def draw_monitoring(result: Path, output: Path | None) -> None:
    """Draw what was sampled during a result; without `output`, next to its file. UserError if nothing was."""
    what: Mapping[str, Any]
    if result.name.endswith(SUFFIX):
        record = read_record(result)
        sampled, what = monitored_from(record.monitoring) if record.monitoring else None, vars(record)
    else:
        sampled, what = read_monitoring(result), read_attributes(result)
    if sampled is None:
        raise UserError(f"nothing was sampled for {result}: measure it with run.py --force")
    usual = result.with_name(f"{result.stem}-monitoring.png")
    picture = picture_path(output, usual.name) if output else usual
    title = f"{what.get('algo', '')} on {what.get('dataset', '')}"
    draw_chart(monitoring_chart(sampled, title, what["name"]), picture)
    print(f"wrote {picture}")


def announce(choice: Choice, more: Iterable[str] = (), environments: bool = True) -> None:
    """Say how the drawn results differ in their environments, and what was left out."""
    for text in server_warnings(choice.runs) if environments else ():
        warn(text)
    for text in [*choice.notes, *more]:
        print(text)


def write_tables(path: Path, picture: Drawing) -> Path:
    """Write the tables and notes of a picture next to it; UserError if the file cannot be written."""
    texts = [table_text(part) if isinstance(part, Table) else escaped(part) for part in picture.tables]
    try:
        with atomic_path(path) as temporary:
            content = "\n\n".join([f"# {escaped(picture.title)}", *texts]) + "\n"
            temporary.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def read_runs(request: PlotRequest) -> list[Run]:
    """Read the results of the requested dataset; UserError without any."""
    paths = list(iter_result_paths(request.dataset, request.count))
    if not paths:
        raise UserError(explain_missing(request.dataset, request.count))
    make_truth_file(request.dataset)
    runs = [run for run in load_runs(paths, request.recompute) if run.batch == request.batch]
    if not runs:
        mode, flag = ("batch", "without") if request.batch else ("single-query", "with")
        raise UserError(
            f"nothing to plot: no {mode} result {request.selection} can be read;"
            f" try {flag} --batch, or run run.py"
        )
    return runs


def is_known(run: Run, view: View) -> bool:
    """Whether a result has both metrics, be they 0."""
    return all(math.isfinite(run.metrics.get(name, math.nan)) for name in view.metrics)
