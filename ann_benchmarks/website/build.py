"""The site of all results: groups them into pages, and writes their HTML with the data that scripts draw."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.data.datasets.samples import sampled
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import OF_FILTERS, TARGET_RECALL, drawable, pareto_frontier
from ann_benchmarks.results.runs import Run, load_runs
from ann_benchmarks.views.figures import (
    DARK_COLORS,
    DASHES,
    LIGHT_COLORS,
    Style,
    assign_styles,
    curve_names,
    series_styles,
)
from ann_benchmarks.views.filters import fastest_table, view_filters
from ann_benchmarks.views.size_ranking import size_statements
from ann_benchmarks.views.sizes import Sizes, find_sizes, size_parts

from .columns import SiteColumn, filter_columns, points_data
from .plots import (
    all_plot_variants,
    chart_data,
    latex_code,
    pairs,
    plot_title,
    styles_data,
    tails_data,
)

FOLDER = Path(__file__).parent
PREVIEW = "recall/time"
MAIN = ("recall/time", "recall/p50", "recall/p99")  # plots that are not folded
LONGEST_NAME = 120  # characters of a file, far below what file systems take
METRIC_TITLES = {"ip": "Inner product"}  # others are titles as they are
# Each uses those before it; the site has them in one file.
SCRIPTS = (
    *("dom", "scales", "curves", "state", "chart", "pointing", "frontiers", "recall", "compare", "builds"),
    *("filters", "table", "page"),
)

Place = tuple[bool, str, str, int]  # batch mode, distance, dataset, k


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
    files: dict[str, str] = field(default_factory=dict)
    siblings: dict[int, str] = field(default_factory=dict)  # the same dataset by k
    sizes: Sequence[Sizes] = ()  # what its samples predict

    @property
    def is_of_dataset(self) -> bool:
        """Whether it shows one dataset."""
        return self.links == "algorithm"

    @property
    def summary(self) -> str:
        """What is on it, in words."""
        of_what = counted(len(self.files), "algorithm" if self.is_of_dataset else "dataset")
        return f"{counted(len(self.runs), 'point')} of {of_what}"

    @property
    def columns(self) -> list[SiteColumn]:
        """The columns that distinguish curves on this page, besides those of every page."""
        if self.is_of_dataset:
            series = SiteColumn("series", "Series of results", "words", lambda run: run.algorithm, True)
            return [series, *filter_columns(self.runs)]
        return [
            SiteColumn("dataset", "Dataset", "words", lambda run: self.titles[id(run)], True),
            SiteColumn("k", "k", "number", lambda run: run.count, True),
        ]

    def series(self) -> dict[str, list[Run]]:
        """Return the results by curve, as ann-benchmarks draws them."""
        series: dict[str, list[Run]] = {}
        for run in self.runs:
            title = self.titles[id(run)]
            of_dataset = title if run.algorithm == run.series.name else f"{title}, {run.algorithm}"
            series.setdefault(run.algorithm if self.is_of_dataset else of_dataset, []).append(run)
        return series


def create_website(
    folder: Path,
    variants: Sequence[str],
    latex: bool = False,
    scatter: bool = False,
    recompute: bool = False,
) -> int:
    """Write a site of all results into a folder, which is made if need be; return the number of pages.

    `variants` are names of plot_variants. UserError without results, or if the folder is unwritable.
    """
    runs = list(load_runs(iter_result_paths(), recompute))
    if not runs:
        raise UserError("nothing to show: results/ holds no readable result; run run.py first")
    datasets, algorithms = group_results(runs)
    pages, templates = [*datasets, *algorithms], template_environment()
    shown = tqdm(pages, desc="pages", unit="page", disable=None, leave=False)
    html = ((one.file, detail_page(templates, one, variants, latex, scatter)) for one in shown)
    write_site(folder, html, index_page(templates, pages))
    return len(pages) + 1


def write_site(folder: Path, pages: Iterable[tuple[str, str]], index: str) -> None:
    """Write pages, (name, HTML), and their index, each whole or not at all; UserError if that fails."""
    style = (FOLDER / "website.css").read_text(encoding="utf-8")
    first = [("website.css", style), ("website.js", script())]
    try:
        for files in (first, pages, [("index.html", index)]):
            for name, text in files:
                with atomic_path(folder / name) as temporary:
                    temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the site to {folder}: {error.strerror or error}") from error


def script() -> str:
    """Return the scripts of all pages as one."""
    return "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


class PageNames:
    """Gives every page a file name of its own, also where case makes no difference."""

    def __init__(self) -> None:
        self._taken = {"index"}

    def take(self, title: str) -> str:
        """Return a file name: `title` itself where it is safe, else with a hash that keeps it apart."""
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", title)[:LONGEST_NAME].strip("._-")
        if not safe or safe != title or safe.lower() in self._taken:
            digest = hashlib.sha256(title.encode()).hexdigest()
            safe = f"{safe or 'page'}-{digest[:8]}"
        self._taken.add(safe.lower())
        return f"{safe}.html"


def group_results(runs: Sequence[Run]) -> tuple[list[Page], list[Page]]:
    """Return the pages of the datasets and those of the algorithms, each in the order of the index.

    A dataset has a page for each k, and batch mode pages of its own. An algorithm has one page, whatever its
    clients and tiers.
    """
    names = PageNames()
    titles: dict[int, str] = {}
    datasets: dict[Place, Page] = {}
    for place in sorted({*map(place_of, runs)}):
        batch, distance, dataset, count = place
        suffix, mode = ("-batch", ", batch") if batch else ("", "")
        file = names.take(f"{dataset}_{count}_{distance}{suffix}")
        title = f"{dataset} (k = {count}{mode})"
        metric = METRIC_TITLES.get(distance, distance.capitalize())
        datasets[place] = Page(title, f"{metric}{mode}", file, "algorithm", titles)
    algorithms: dict[tuple[str, bool], Page] = {}
    for run in sorted(runs, key=lambda run: (place_of(run), run.algorithm)):
        base, by_dataset = run.series.name, datasets[place_of(run)]
        titles[id(run)] = by_dataset.title
        if (base, run.batch) not in algorithms:
            suffix, mode = ("-batch", ", batch") if run.batch else ("", "")
            file = names.take(f"{base}{suffix}")
            algorithms[base, run.batch] = Page(f"{base}{mode}", f"Algorithms{mode}", file, "dataset", titles)
        by_algorithm = algorithms[base, run.batch]
        by_dataset.runs.append(run)
        by_dataset.files[base] = by_algorithm.file
        by_algorithm.runs.append(run)
        by_algorithm.files[by_dataset.title] = by_dataset.file
    for (batch, distance, dataset, count), page in datasets.items():
        same = (batch, distance, dataset)
        samples = [run for run in runs if run.count == count and sampled(run.dataset)[0] == dataset]
        page.sizes = [] if batch else find_sizes(samples, TARGET_RECALL)
        page.siblings = {place[3]: other.file for place, other in datasets.items() if place[:3] == same}
    return list(datasets.values()), sorted(algorithms.values(), key=attrgetter("group", "title"))


def place_of(run: Run) -> Place:
    """Return what a page of a dataset is of; sorted, they are in the order of the index."""
    return run.batch, run.distance, run.dataset, run.count


def template_environment() -> Environment:
    """Return what fills in the templates, escaping every text."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.globals.update(light_colors=LIGHT_COLORS, dark_colors=DARK_COLORS, counted=counted)
    return made


def detail_page(
    templates: Environment, page: Page, variants: Sequence[str], latex: bool, scatter: bool
) -> str:
    """Return the HTML of a page of results, with the data that its scripts draw."""
    charts, empty = [], []
    for variant in variants:
        if any(drawable(*pair) for pair in pairs(page.runs, variant)):
            charts.append(
                chart_data(variant) | {"latex": latex_code(page.series(), variant, scatter) if latex else ""}
            )
        elif not OF_FILTERS.intersection(all_plot_variants[variant]):
            empty.append(plot_title(variant))
    points = points_data(page.runs, page.columns)
    words = {column["id"]: column.get("words", ()) for column in points["columns"]}
    data = {
        "points": points,
        "tails": tails_data(page.runs),
        "links": {"column": page.links, "files": page.files},
        "charts": [{key: chart[key] for key in ("id", "x", "y", "better")} for chart in charts],
        "styles": {
            column: styles_data({name: known[name] for name in sorted(words[column]) if name in known})
            for column, known in page_styles(page).items()
            if column in words
        },
        "dashes": DASHES,
        "names": curve_names(run.series for run in page.runs),
        "target": TARGET_RECALL,
    }
    template = templates.get_template("detail.html")
    view = view_filters(page.runs if page.is_of_dataset else [], TARGET_RECALL)
    shown: dict[str, Any] = {"filters": view, "fastest": fastest_table(view)} if view.sets else {}
    shown["sizes"] = [(size_statements(one), size_parts(one)) for one in page.sizes]
    return template.render(
        **shown, main=MAIN, page=page, charts=charts, empty=empty, scatter=scatter, data=data
    )


def page_styles(page: Page) -> dict[str, dict[str, Style]]:
    """Return the styles of what curves of a page may be named by; the colours are those of reports."""
    own = series_styles(run.series for run in page.runs)
    return {"series": own, "algorithm": own, "dataset": assign_styles(page.titles.values())}


def index_page(templates: Environment, pages: Sequence[Page]) -> str:
    """Return the HTML of the index, with what its scripts draw as previews."""
    groups = [(group, list(members)) for group, members in groupby(pages, attrgetter("group"))]
    data = {"previews": {page.file: list(preview(page)) for page in pages}, "dashes": DASHES}
    return templates.get_template("index.html").render(groups=groups, data=data)


def preview(page: Page) -> Iterator[dict[str, Any]]:
    """Yield the recall/QPS frontier of each algorithm, or dataset, of a page."""
    filters = Counter(run.series.filter for run in page.runs)
    shown = "" if "" in filters else max(filters, key=lambda name: filters[name], default="")
    of_name: dict[str, list[Run]] = {}
    for run in page.runs:
        if run.series.filter != shown:  # it is another question
            continue
        of_name.setdefault(run.series.name if page.is_of_dataset else page.titles[id(run)], []).append(run)
    styles = styles_data(page_styles(page)["algorithm" if page.is_of_dataset else "dataset"])
    for name, runs in of_name.items():
        values = pairs(runs, PREVIEW)
        frontier, _ = pareto_frontier(values, *all_plot_variants[PREVIEW])
        yield {"style": styles[name], "points": [[float(f"{v:.4g}") for v in values[i]] for i in frontier]}
