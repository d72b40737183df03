"""Groups the results into pages and writes them."""

import hashlib
import re
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.plotting.styles import assign_styles, result_styles
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, load_runs

from .pages import FOLDER, Page, Styles, detail_page, environment, index_page
from .writing import as_run, load_records

Place = tuple[bool, str, str, int]  # batch mode, distance, dataset, k
LONGEST_NAME = 120  # characters of a file, far below what file systems take
SCRIPTS = (
    *("dom", "marks", "scales", "points", "curves", "state", "details", "chart", "pointing"),
    *(
        "frontiers",
        "recall",
        "compare",
        "recalls",
        "filtered",
        "others",
        "bars",
        "writing",
        "filters",
        "table",
        "preview",
        "page",
    ),
)  # each uses those before it; the site has them in one file


def create_website(
    folder: Path,
    variants: Sequence[str],
    latex: bool = False,
    scatter: bool = False,
    recompute: bool = False,
    prices: PriceList | None = None,
) -> int:
    """Write a site of all results into a folder, which is made if need be; return the number of pages.

    `variants` are names of plot_variants. With `prices`, each result has what its server
    costs. UserError if there are no results or the folder is unwritable.
    """
    runs, records = list(load_runs(iter_result_paths(), recompute)), list(load_records())
    if not runs and not records:
        raise UserError("nothing to show: results/ holds no readable result; run run.py first")
    datasets, algorithms = group_results(runs, records)
    styles: Styles = {
        "series": result_styles({run.algorithm for run in runs}),
        "algorithm": assign_styles({run.series.name for run in (*runs, *map(as_run, records))}),
        "dataset": assign_styles(page.title for page in datasets),
    }
    pages, templates = [*datasets, *algorithms], environment()
    for page in pages:
        page.prices = prices
    try:
        write(folder / "website.css", (FOLDER / "website.css").read_text(encoding="utf-8"))
        write(folder / "website.js", script())
        for page in tqdm(pages, desc="pages", unit="page", disable=None, leave=False):
            write(folder / page.file, detail_page(templates, page, styles, variants, latex, scatter))
        write(folder / "index.html", index_page(templates, pages, styles))
    except OSError as error:
        raise UserError(f"cannot write the site to {folder}: {error.strerror or error}") from error
    return len(pages) + 1


def write(path: Path, text: str) -> None:
    """Write a file of the site, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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


def group_results(runs: Sequence[Run], records: Sequence[Record]) -> tuple[list[Page], list[Page]]:
    """Return the pages of the datasets and those of the algorithms, each in the order of the index.

    A dataset has a page for each k, with the workloads on it, and batch mode pages of its own. An algorithm
    has one page, whatever its clients and tiers.
    """
    names = PageNames()
    titles: dict[int, str] = {}
    written_to = [(place_of(as_run(record)), record) for record in records]
    datasets: dict[Place, Page] = {}
    for place in sorted({*map(place_of, runs), *(place for place, _ in written_to)}):
        batch, distance, dataset, count = place
        suffix, mode = ("-batch", ", batch") if batch else ("", "")
        file = names.take(f"{dataset}_{count}_{distance}{suffix}")
        title = f"{dataset} (k = {count}{mode})"
        datasets[place] = Page(title, f"{distance.capitalize()}{mode}", file, "algorithm", titles)
    for place, record in written_to:
        datasets[place].records.append(record)
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
    for (batch, distance, dataset, _), page in datasets.items():
        same = (batch, distance, dataset)
        page.siblings = {place[3]: other.file for place, other in datasets.items() if place[:3] == same}
    return list(datasets.values()), sorted(algorithms.values(), key=attrgetter("group", "title"))


def place_of(run: Run) -> Place:
    """Return what a page of a dataset is of; sorted, they are in the order of the index."""
    return run.batch, run.distance, run.dataset, run.count
