"""Groups the results into pages and writes them."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from tqdm import tqdm

from ...atomic import atomic_path
from ...errors import UserError
from ...reporting.curves import family
from ...results import iter_result_paths
from ..runs import Run, load_runs, result_styles
from ..styles import assign_styles
from .names import PageNames
from .pages import FOLDER, Page, Styles, detail_page, environment, index_page
from .writing import load_records

SCRIPTS = (
    *("dom", "marks", "scales", "points", "curves", "state", "details", "chart", "pointing"),
    *("frontiers", "compare", "others", "bars", "writing", "filters", "table", "preview", "page"),
)  # of which each uses those before it; the site has them in one file


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
    styles: Styles = {
        "series": result_styles(runs),
        "algorithm": assign_styles({family(run) for run in runs}),
        "dataset": assign_styles(page.title for page in datasets),
    }
    pages, templates = [*datasets, *algorithms], environment()
    for record in load_records():
        for page in datasets:
            if (page.runs[0].dataset, page.runs[0].count) == (record.dataset, record.count):
                page.records.append(record)
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


def group_runs(runs: Sequence[Run]) -> tuple[list[Page], list[Page]]:
    """Return the pages of the datasets and those of the algorithms, each in the order of the index.

    A dataset has a page for each k, and batch mode pages of its own. An algorithm has one, whatever its
    clients and tiers.
    """
    names = PageNames()
    titles: dict[int, str] = {}
    datasets: dict[tuple, Page] = {}
    algorithms: dict[tuple, Page] = {}
    for run in sorted(runs, key=attrgetter("batch", "distance", "dataset", "count", "algorithm")):
        suffix, mode = ("-batch", ", batch") if run.batch else ("", "")
        title = titles[id(run)] = f"{run.dataset} (k = {run.count}{mode})"
        key = (run.dataset, run.count, run.distance, run.batch)
        if key not in datasets:
            file = names.take(f"{run.dataset}_{run.count}_{run.distance}{suffix}")
            datasets[key] = Page(title, f"{run.distance.capitalize()}{mode}", file, "algorithm", titles)
        base = family(run)
        if (base, run.batch) not in algorithms:
            file = names.take(f"{base}{suffix}")
            page = Page(f"{base}{mode}", f"Algorithms{mode}", file, "dataset", titles)
            algorithms[base, run.batch] = page
        dataset, by_dataset = datasets[key], algorithms[base, run.batch]
        dataset.runs.append(run)
        dataset.files[base] = by_dataset.file
        by_dataset.runs.append(run)
        by_dataset.files[title] = dataset.file
    for (name, _, *kind), page in datasets.items():
        page.siblings = {
            k: p.file for (other, k, *same), p in datasets.items() if (other, same) == (name, kind)
        }
    return list(datasets.values()), sorted(algorithms.values(), key=attrgetter("group", "title"))
