"""The table of all submitted points and the page of each bundle, as HTML; every text of others is escaped."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment

from ann_benchmarks.common.numbers import figure_text, share_text, size_text
from ann_benchmarks.plotting.styles import DASHES
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.submission.manifest import MANIFEST, ClaimedPoint

from ..build import PageNames
from ..data import column_data
from .columns import MAIN, Rows, SubmittedRow, columns_of_rows, plain_text
from .copying import REPORT
from .reading import SubmittedBundle, without_repeats

INDEX = "index.html"
COPIES = "bundles"  # the folder of the site that has a folder for each bundle
# Of a bundle's files, those that its page names first.
MAIN_FILES = {
    REPORT: "Report",
    "README.md": "README",
    "system.json": "System and settings",
    "experiment.yml": "Experiment",
    "prices.yml": "Prices",
    MANIFEST: "Manifest",
}
CLAIMS = ("Series", "Dataset", "k", "Clients", "Recall", "QPS (95% interval)", "p99 (ms)", "Result file")
DATASETS = ("Dataset", "Vectors", "Dimensions", "Metric", "Queries", "Fingerprint", "Filters")


@dataclass(frozen=True)
class SubmittedPage:
    """The page of a bundle; `title` is that of no other bundle, `name` that of its page and its folder."""

    bundle: SubmittedBundle
    title: str
    name: str

    @property
    def file(self) -> str:
        """The name of the page."""
        return f"{self.name}.html"

    @property
    def points(self) -> str:
        """The address of its points in the table."""
        return f"{INDEX}#{urlencode({'bundle': self.title, 'least': 0})}"


def pages_of(bundles: Sequence[SubmittedBundle]) -> list[SubmittedPage]:
    """Return the pages of bundles, in the order of their titles, each with names of its own."""
    names = PageNames()
    folders: set[str] = set()
    found: dict[str, SubmittedPage] = {}
    for bundle in bundles:
        title = of_its_own(plain_text(bundle.manifest.title), found)
        folder = of_its_own(bundle.folder.resolve().name, folders)
        folders.add(folder)
        found[title] = SubmittedPage(bundle, title, names.take(folder).removesuffix(".html"))
    return sorted(found.values(), key=lambda page: page.title.lower())


def of_its_own(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if another has it."""
    names = (f"{name} ({number})" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(one for one in names if one not in taken)


def rows_of(pages: Sequence[SubmittedPage]) -> Rows:
    """Return the rows of the table by the identity of their runs, in the order of the pages."""
    points = without_repeats(page.bundle for page in pages)
    return {
        id(point.run): SubmittedRow(point, page.bundle, page.title)
        for page in pages
        for point in page.bundle.points
        if id(point.run) in points
    }


def table_page(templates: Environment, pages: Sequence[SubmittedPage], rows: Rows) -> str:
    """Return the HTML of the table, with the data that its script shows."""
    runs = [row.point.run for row in rows.values()]
    columns = [column_data(column, runs) for column in columns_of_rows(rows)]
    known = [column for column in columns if column]
    ids = {column["id"] for column in known}  # where all is cold, or all is warm, a column is missing
    fastest = next((f"-{name}" for name in ("qps", "coldqps") if name in ids), "bundle")
    reached = any(run.metrics["recall"] >= TARGET_RECALL for run in runs)
    data = {
        "points": {"count": len(runs), "columns": known},
        "links": {"column": "bundle", "files": {page.title: page.file for page in pages}},
        "table": {"columns": MAIN, "sort": fastest, "least": TARGET_RECALL if reached else None},
        "target": TARGET_RECALL,
        "charts": [],
        "styles": {},
        "others": [],
        "dashes": DASHES,
    }
    return templates.get_template("submissions.html").render(pages=pages, count=len(runs), data=data)


def bundle_page(templates: Environment, page: SubmittedPage, copies: Mapping[str, str]) -> str:
    """Return the HTML of the page of a bundle; `copies` has the path of each copied file in its folder."""
    manifest = page.bundle.manifest
    links = {name: address(page, copy) for name, copy in copies.items()}
    return templates.get_template("bundle.html").render(
        page=page,
        manifest=manifest,
        main={name: text for name, text in MAIN_FILES.items() if name in links},
        pictures=[name for name in links if is_picture(name)],
        links=links,
        claims={"columns": CLAIMS, "rows": [claim_cells(claim) for claim in manifest.claims]},
        datasets={"columns": DATASETS, "rows": dataset_cells(page.bundle)},
        size=size_text,
        data={},
    )


def address(page: SubmittedPage, copy: str) -> str:
    """Return the address of a copied file, which no name of a file leads elsewhere."""
    return quote(f"{COPIES}/{page.name}/{copy}")


def is_picture(name: str) -> bool:
    """Whether a file is a picture of the report."""
    return name.startswith("report/") and PurePosixPath(name).suffix.lower() == ".png"


def claim_cells(claim: ClaimedPoint) -> Sequence[str]:
    """Return a claim as cells of a table."""
    bounds = (claim.qps_low, claim.qps_high)
    figures = (
        share_text(claim.recall),
        figure_text(claim.qps) + interval_text(bounds),
        figure_text(claim.p99),
    )
    return claim.series, claim.dataset, str(claim.count), str(claim.clients), *figures, claim.file


def dataset_cells(bundle: SubmittedBundle) -> list[Sequence[Any]]:
    """Return the datasets as cells of a table."""
    return [
        (
            name,
            f"{one.rows:,}",
            f"{one.dimension:,}",
            one.metric,
            f"{one.queries:,}",
            one.fingerprint,
            ", ".join(one.filters),
        )
        for name, one in bundle.manifest.datasets.items()
    ]
