"""Groups the results into pages and writes them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from tqdm import tqdm

from ...atomic import atomic_path
from ...errors import UserError
from ...results import iter_result_paths
from ..frontier import drawable, pareto_frontier
from ..metrics import RECALLS, all_metrics, plot_label, standard_metrics
from ..plot_variants import all_plot_variants
from ..runs import Run, load_runs, result_styles
from ..styles import DARK_COLORS, DASHES, LIGHT_COLORS, Style, assign_styles
from .latex import pgfplots
from .names import PageNames

FOLDER = Path(__file__).parent
ASSETS = ("website.css", "website.js")
PREVIEW = "recall/time"


@dataclass
class Series:
    """The points of one curve; `file` is the page about the algorithm or dataset that it is named for."""

    name: str
    file: str
    runs: list[Run] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        """Return one metric of each point."""
        return [run.metrics[metric] for run in self.runs]

    def pairs(self, variant: str) -> list[tuple[float, float]]:
        """Return the (x, y) of each point in one kind of plot."""
        x, y = all_plot_variants[variant]
        return list(zip(self.values(x), self.values(y), strict=True))


@dataclass
class Page:
    """A page of results: one dataset with a series per algorithm, or one algorithm with one per dataset."""

    title: str
    group: str  # the heading of the index under which it is listed
    file: str
    series: dict[str, Series] = field(default_factory=dict)  # by the page that the series is named for
    styles: dict[str, Style] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """Number of results on the page."""
        return sum(len(series.runs) for series in self.series.values())


def create_website(
    folder: Path, variants: Sequence[str], latex: bool = False, scatter: bool = False, recompute: bool = False
) -> int:
    """Write a site of all results into a folder, which is made if need be; return the number of pages.

    `variants` are names of plot_variants. UserError if there are no results or the folder is unwritable.
    """
    runs = list(load_runs(iter_result_paths(), recompute))
    if not runs:
        raise UserError("nothing to show: results/ holds no readable result; run run.py first")
    datasets, algorithms = group_runs(runs)
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(light_colors=LIGHT_COLORS, dark_colors=DARK_COLORS)
    pages = [*datasets, *algorithms]
    try:
        for asset in ASSETS:
            write(folder / asset, (FOLDER / asset).read_text(encoding="utf-8"))
        for page in tqdm(pages, desc="pages", unit="page", disable=None, leave=False):
            write(folder / page.file, detail_page(environment, page, variants, latex, scatter))
        write(folder / "index.html", index_page(environment, pages))
    except OSError as error:
        raise UserError(f"cannot write the site to {folder}: {error.strerror or error}") from error
    return len(pages) + 1


def write(path: Path, text: str) -> None:
    """Write a file of the site, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def group_runs(runs: Sequence[Run]) -> tuple[list[Page], list[Page]]:
    """Return the pages of the datasets and those of the algorithms, each in the order of the index."""
    names = PageNames()
    datasets: dict[tuple, Page] = {}
    algorithms: dict[tuple, Page] = {}
    for run in sorted(runs, key=attrgetter("batch", "distance", "dataset", "count", "algorithm")):
        suffix, mode = ("-batch", ", batch") if run.batch else ("", "")
        dataset = datasets.setdefault(
            (run.dataset, run.count, run.distance, run.batch),
            Page(f"{run.dataset} (k = {run.count}{mode})", f"{run.distance.capitalize()}{mode}", ""),
        )
        dataset.file = dataset.file or names.take(f"{run.dataset}_{run.count}_{run.distance}{suffix}")
        algorithm = algorithms.setdefault(
            (run.algorithm, run.batch),
            Page(f"{run.algorithm}{mode}", f"Algorithms{mode}", ""),
        )
        algorithm.file = algorithm.file or names.take(f"{run.algorithm}{suffix}")
        series = dataset.series.setdefault(algorithm.file, Series(run.algorithm, algorithm.file))
        series.runs.append(run)
        series = algorithm.series.setdefault(dataset.file, Series(dataset.title, dataset.file))
        series.runs.append(run)
    algorithm_styles = result_styles(runs)
    dataset_styles = assign_styles(page.title for page in datasets.values())
    for page in datasets.values():
        page.styles = algorithm_styles
    for page in algorithms.values():
        page.styles = dataset_styles
    return list(datasets.values()), sorted(algorithms.values(), key=attrgetter("group", "title"))


def detail_page(
    environment: Environment, page: Page, variants: Sequence[str], latex: bool, scatter: bool
) -> str:
    """Return the HTML of a page of results, with the data that its script draws."""
    all_series = list(page.series.values())
    shown = [
        name for name in standard_metrics if any(drawable(v, 1.0) for s in all_series for v in s.values(name))
    ]
    charts, empty = [], []
    for variant in variants:
        chart = chart_data(all_series, variant)
        if any(chart["every"]):
            charts.append({**chart, "latex": latex_code(all_series, chart, latex, scatter)})
        else:
            empty.append(plot_title(variant))
    data = {
        "metrics": [
            {"id": name, "label": all_metrics[name].description, "share": name in RECALLS} for name in shown
        ],
        "series": [
            {
                "name": series.name,
                "href": series.file,
                "style": asdict(page.styles[series.name]),
                "points": [
                    {"name": run.parameters, "values": [json_number(run.metrics[name]) for name in shown]}
                    for run in series.runs
                ],
            }
            for series in all_series
        ],
        "charts": [{key: chart[key] for key in ("id", "x", "y", "frontier", "every")} for chart in charts],
        "dashes": DASHES,
    }
    return environment.get_template("detail.html").render(
        page=page, charts=charts, empty=empty, scatter=scatter, data=data
    )


def json_number(value: float) -> float | None:
    """Return the number, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None


def plot_title(variant: str) -> str:
    """Return the heading of a kind of plot."""
    x, y = (all_metrics[name].description for name in all_plot_variants[variant])
    return f"{x} / {y}"


def chart_data(all_series: Sequence[Series], variant: str) -> dict[str, Any]:
    """Return one kind of plot: per series the indexes of its points on the frontier, and of all drawn."""
    x, y = all_plot_variants[variant]
    indexes = [pareto_frontier(series.pairs(variant), x, y) for series in all_series]
    return {
        "id": variant.replace("/", "-"),
        "variant": variant,
        "x": x,
        "y": y,
        "title": plot_title(variant),
        "label": plot_label(x, y),
        "frontier": [frontier for frontier, _ in indexes],
        "every": [every for _, every in indexes],
    }


def latex_code(all_series: Sequence[Series], chart: dict[str, Any], latex: bool, scatter: bool) -> str:
    """Return the pgfplots code of a plot, and below it that of its scatter plot, if they are wanted."""
    if not latex:
        return ""

    def code(indexes: list[list[int]], only_marks: bool) -> str:
        pairs = [series.pairs(chart["variant"]) for series in all_series]
        chosen = [
            (series.name, [values[i] for i in order])
            for series, values, order in zip(all_series, pairs, indexes, strict=True)
            if order
        ]
        return pgfplots(chart["x"], chart["y"], chosen, only_marks)

    both = [code(chart["frontier"], False), *([code(chart["every"], True)] if scatter else [])]
    return "\n\n".join(both)


def index_page(environment: Environment, pages: Sequence[Page]) -> str:
    """Return the HTML of the index, with what its script draws as previews."""
    groups = [(group, list(members)) for group, members in groupby(pages, attrgetter("group"))]
    data = {"previews": {page.file: list(preview(page)) for page in pages}, "dashes": DASHES}
    return environment.get_template("index.html").render(groups=groups, data=data)


def preview(page: Page) -> Iterator[dict[str, Any]]:
    """Yield the recall/QPS frontier of each series of a page."""
    for series in page.series.values():
        pairs = series.pairs(PREVIEW)
        frontier, _ = pareto_frontier(pairs, *all_plot_variants[PREVIEW])
        yield {"style": asdict(page.styles[series.name]), "points": [pairs[i] for i in frontier]}
