"""The pages: which results are on them, and their HTML."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.plotting.styles import DARK_COLORS, DASHES, LIGHT_COLORS, Style, told_apart
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.results.metrics import OF_FILTERS, TARGET_RECALL, drawable, pareto_frontier
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

from .columns import SiteColumn
from .costs import price_columns
from .data import others_data, points_data, styles_data, tails_data
from .filtered import filter_columns, filter_section
from .plots import all_plot_variants, chart_data, pairs, pgfplots, plot_title
from .writing import writing_data

FOLDER = Path(__file__).parent
PREVIEW = "recall/time"
MAIN = ("recall/time", "recall/p50", "recall/p99")  # plots that are not folded

Styles = dict[str, dict[str, Style]]  # by column and name


@dataclass
class Page:
    """A page of results, of one dataset by algorithms or of one algorithm by datasets.

    `links` is the column whose names are other pages, `files` are those pages. `titles` has the dataset of
    each result by its identity.
    """

    title: str
    group: str  # the heading of the index under which it is listed
    file: str
    links: str
    titles: dict[int, str]
    runs: list[Run] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    siblings: dict[int, str] = field(default_factory=dict)  # the same dataset by k
    prices: PriceList | None = None  # of the servers

    @property
    def is_of_dataset(self) -> bool:
        """Whether it shows one dataset."""
        return self.links == "algorithm"

    @property
    def summary(self) -> str:
        """What is on it, in words."""
        of_what = counted(len(self.files), "algorithm" if self.is_of_dataset else "dataset")
        parts = [f"{counted(len(self.runs), 'point')} of {of_what}"] if self.runs else []
        return ", ".join([*parts, *([counted(len(self.records), "workload")] if self.records else [])])

    @property
    def columns(self) -> list[SiteColumn]:
        """The columns that distinguish curves on this page, besides those of every page."""
        if self.is_of_dataset:
            series = SiteColumn("series", "Series of results", "words", lambda run: run.algorithm, True)
            return [series, *filter_columns(self.runs), *price_columns(self.prices)]
        return [
            SiteColumn("dataset", "Dataset", "words", lambda run: self.titles[id(run)], True),
            SiteColumn("k", "k", "number", lambda run: run.count, True),
            *price_columns(self.prices),
        ]

    def series(self) -> dict[str, list[Run]]:
        """Return the results by curve, as ann-benchmarks draws them."""
        series: dict[str, list[Run]] = {}
        for run in self.runs:
            title = self.titles[id(run)]
            of_dataset = title if run.algorithm == run.series.name else f"{title}, {run.algorithm}"
            series.setdefault(run.algorithm if self.is_of_dataset else of_dataset, []).append(run)
        return series


def environment() -> Environment:
    """Return what fills in the templates, escaping every text."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.globals.update(light_colors=LIGHT_COLORS, dark_colors=DARK_COLORS, counted=counted)
    return made


def detail_page(
    templates: Environment, page: Page, styles: Styles, variants: Sequence[str], latex: bool, scatter: bool
) -> str:
    """Return the HTML of a page of results, with the data that its scripts draw."""
    charts, empty = [], []
    for variant in variants:
        if any(drawable(*pair) for pair in pairs(page.runs, variant)):
            charts.append(
                chart_data(variant) | {"latex": latex_code(page, variant, scatter) if latex else ""}
            )
        elif not OF_FILTERS.intersection(all_plot_variants[variant]):
            empty.append(plot_title(variant))
    points = points_data(page.runs, page.columns)
    writing = writing_data(page.records) if page.records else None
    words: dict[str, set[str]] = {}
    for column in [*points["columns"], *(writing["columns"] if writing else [])]:
        words.setdefault(column["id"], set()).update(column.get("words", ()))
    data = {
        "points": points,
        "tails": tails_data(page.runs),
        "writing": writing,
        "links": {"column": page.links, "files": page.files},
        "charts": [{key: chart[key] for key in ("id", "x", "y", "better")} for chart in charts],
        "styles": {
            column: styles_data(told_apart({name: known[name] for name in words[column] if name in known}))
            for column, known in styles.items()
            if column in words
        },
        "others": others_data() if any(column["id"] == "ramat" for column in points["columns"]) else [],
        "dashes": DASHES,
        "target": TARGET_RECALL,
    }
    template = templates.get_template("detail.html")
    filters = filter_section(page.runs) if page.is_of_dataset else None
    return template.render(
        filters=filters, main=MAIN, page=page, charts=charts, empty=empty, scatter=scatter, data=data
    )


def latex_code(page: Page, variant: str, scatter: bool) -> str:
    """Return the pgfplots code of a plot and, with `scatter`, below it that of its scatter plot."""
    x, y = all_plot_variants[variant]
    codes = []
    for is_scatter in (False, True) if scatter else (False,):
        chosen = []
        for name, runs in page.series().items():
            values = pairs(runs, variant)
            order = pareto_frontier(values, x, y)[is_scatter]
            if order:
                chosen.append((name, [values[i] for i in order]))
        codes.append(pgfplots(x, y, chosen, is_scatter))
    return "\n\n".join(codes)


def index_page(templates: Environment, pages: Sequence[Page], styles: Styles) -> str:
    """Return the HTML of the index, with what its scripts draw as previews."""
    groups = [(group, list(members)) for group, members in groupby(pages, attrgetter("group"))]
    data = {"previews": {page.file: list(preview(page, styles)) for page in pages}, "dashes": DASHES}
    return templates.get_template("index.html").render(groups=groups, data=data)


def preview(page: Page, styles: Styles) -> Iterator[dict[str, Any]]:
    """Yield the recall/QPS frontier of each algorithm, or dataset, of a page."""
    filters = Counter(run.series.filter for run in page.runs)
    shown = "" if "" in filters else max(filters, key=lambda name: filters[name], default="")
    of_name: dict[str, list[Run]] = {}
    for run in page.runs:
        if run.series.filter != shown:  # which is another question
            continue
        of_name.setdefault(run.series.name if page.is_of_dataset else page.titles[id(run)], []).append(run)
    known = styles["algorithm" if page.is_of_dataset else "dataset"]
    apart = styles_data(told_apart({name: known[name] for name in of_name}))
    for name, runs in of_name.items():
        values = pairs(runs, PREVIEW)
        frontier, _ = pareto_frontier(values, *all_plot_variants[PREVIEW])
        yield {"style": apart[name], "points": [[float(f"{v:.4g}") for v in values[i]] for i in frontier]}
