"""The table of submitted bundles and a page for each, with copies of their files; all texts are escaped."""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import scratch_path
from ann_benchmarks.common.numbers import figure_text, share_text
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import skipped
from ann_benchmarks.statistics.intervals import interval_text
from ann_benchmarks.submission.files import file_in
from ann_benchmarks.submission.manifest import MANIFEST, ClaimedPoint
from ann_benchmarks.views.figures import DASHES

from .build import PageNames, template_environment, write_site
from .bundles import (
    Rows,
    SubmittedBundle,
    bundle_folders,
    plain_text,
    read_bundle,
    row_columns,
    submitted_rows,
)
from .columns import column_data

COPIES = "bundles"  # the folder of the site that has a folder for each bundle
REPORT = "report/report.html"
# Of a bundle's files, those that its page names first.
MAIN_FILES = {
    REPORT: "Report",
    "README.md": "README",
    "system.json": "System and settings",
    "experiment.yml": "Experiment",
    "prices.yml": "Prices",
    MANIFEST: "Manifest",
}
# Columns that are shown at first, besides all that can be filtered by.
MAIN_COLUMNS = (
    *("built", "parameters", "recall", "qps", "coldqps", "p99", "coldp99", "indexsize", "build"),
    *("month", "queriespermoney"),
)
CLAIMS = ("Series", "Dataset", "k", "Clients", "Recall", "QPS (95% interval)", "p99 (ms)", "Result file")
DATASETS = ("Dataset", "Vectors", "Dimensions", "Metric", "Queries", "Fingerprint", "Filters")
FILES = ("File", "Size", "SHA-256 in the bundle")
# What browsers show as text or picture, or keep as a file. Any other kind gets a name of text.
INERT = frozenset({".csv", ".hdf5", ".json", ".md", ".png", ".txt", ".yaml", ".yml"})
AS_TEXT = ".txt"
# The first element of the report's page: with it, a browser loads nothing but its pictures, and runs nothing.
POLICY = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src'
    " 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">\n"
)
DIRECTIVE = re.compile("http-equiv", re.IGNORECASE)  # such as one that leads to another page


def create_submissions_site(folder: Path, given: Sequence[Path]) -> tuple[int, int]:
    """Write the table of bundles into a folder, which is made if need be; return (bundles, left out).

    `given` are the folders of bundles, or folders of them. A bundle that cannot be used is left out with a
    line on stderr. UserError if none can be used, or the folder is unwritable.
    """
    bundles: list[SubmittedBundle] = []
    folders = bundle_folders(given)
    for path in folders:
        if (folder / COPIES).resolve() in path.resolve().parents:
            raise UserError(f"{path} is among the copies of this site: name another --outputdir")
        try:
            bundles.append(read_bundle(path))
        except (UserError, OSError) as error:
            skipped(path, error)
    if not bundles:
        raise UserError("nothing to show: none of the folders is a bundle that can be read")
    pages, templates = submitted_pages(bundles), template_environment()

    def html(bundle: SubmittedBundle) -> tuple[str, str]:
        return bundle.file, bundle_page(templates, bundle, copy_files(bundle, folder / COPIES / bundle.name))

    shown = tqdm(pages, desc="bundles", unit="bundle", disable=None, leave=False)
    write_site(folder, map(html, shown), table_page(templates, pages, submitted_rows(pages)))
    return len(bundles), len(folders) - len(bundles)


def submitted_pages(bundles: Sequence[SubmittedBundle]) -> list[SubmittedBundle]:
    """Return bundles in the order of their titles, each with names of its own."""
    names = PageNames()
    folders: set[str] = set()
    found: dict[str, SubmittedBundle] = {}
    for bundle in bundles:
        title = unique_name(plain_text(bundle.manifest.title), found)
        folder = unique_name(bundle.folder.resolve().name, folders)
        folders.add(folder)
        found[title] = replace(bundle, title=title, name=names.take(folder).removesuffix(".html"))
    return sorted(found.values(), key=lambda bundle: bundle.title.lower())


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if another has it."""
    names = (f"{name} ({number})" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(one for one in names if one not in taken)


def table_page(templates: Environment, pages: Sequence[SubmittedBundle], rows: Rows) -> str:
    """Return the HTML of the table, with the data that its script shows."""
    runs = [point.run for point, _ in rows.values()]
    known = [data for column in row_columns(rows) if (data := column_data(column, runs))]
    ids = {column["id"] for column in known}  # a column is missing if all is cold, or all is warm
    fastest = next((f"-{name}" for name in ("qps", "coldqps") if name in ids), "bundle")
    reached = any(run.metrics["recall"] >= TARGET_RECALL for run in runs)
    data = {
        "points": {"count": len(runs), "columns": known},
        "links": {"column": "bundle", "files": {page.title: page.file for page in pages}},
        "table": {"columns": MAIN_COLUMNS, "sort": fastest, "least": TARGET_RECALL if reached else None},
        "target": TARGET_RECALL,
        "charts": [],
        "styles": {},
        "others": [],
        "dashes": DASHES,
    }
    return templates.get_template("submissions.html").render(pages=pages, count=len(runs), data=data)


def bundle_page(templates: Environment, page: SubmittedBundle, copies: Mapping[str, str]) -> str:
    """Return the HTML of the page of a bundle; `copies` has the path of each copied file in its folder."""
    manifest = page.manifest
    links = {name: quote(f"{COPIES}/{page.name}/{copy}") for name, copy in copies.items()}
    pictures = [name for name in links if name.startswith("report/") and name.lower().endswith(".png")]
    listed = sorted(manifest.files.items(), key=lambda item: item[0].lower())
    files = [(name, f"{file.bytes:,}", file.sha256) for name, file in listed]
    return templates.get_template("bundle.html").render(
        page=page,
        manifest=manifest,
        main={name: text for name, text in MAIN_FILES.items() if name in links},
        pictures=pictures,
        links=links,
        claims={"columns": CLAIMS, "rows": list(map(claim_cells, manifest.claims))},
        datasets={"columns": DATASETS, "rows": dataset_cells(page)},
        files={"columns": FILES, "rows": files},
        data={},
    )


def claim_cells(claim: ClaimedPoint) -> Sequence[str]:
    """Return a claim as cells of a table."""
    qps = figure_text(claim.qps) + interval_text((claim.qps_low, claim.qps_high))
    figures = (share_text(claim.recall), qps, figure_text(claim.p99))
    return claim.series, claim.dataset, str(claim.count), str(claim.clients), *figures, claim.file


def dataset_cells(bundle: SubmittedBundle) -> list[Sequence[Any]]:
    """Return the datasets as cells of a table."""
    return [
        (
            *(name, f"{one.rows:,}", f"{one.dimension:,}", one.metric, f"{one.queries:,}", one.fingerprint),
            ", ".join(one.filters),
        )
        for name, one in bundle.manifest.datasets.items()
    ]


def copy_files(bundle: SubmittedBundle, folder: Path) -> Mapping[str, str]:
    """Copy every file of a bundle into a folder, in forms in which a browser runs nothing of theirs.

    Return the path of each copy in it by that of the file. OSError where a copy cannot be written, UserError
    where a file has gone.
    """
    names = (MANIFEST, *bundle.manifest.files)
    copies = {name: name for name in names if is_inert(name)}
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        source = file_in(bundle.folder, name)
        copy = copies.get(name) or f"{name}{AS_TEXT}"
        # A bundle can have such a file or folder on purpose.
        while name not in copies and (copy in copies.values() or copy in folders):
            copy += AS_TEXT
        copies[name] = copy
        with scratch_path(folder / copy) as temporary:
            if name == REPORT:
                temporary.write_text(harmless_page(source), encoding="utf-8")
            else:
                shutil.copyfile(source, temporary)
            temporary.replace(folder / copy)
    return copies


def is_inert(name: str) -> bool:
    """Whether a file of this name may keep it."""
    return name == REPORT or PurePosixPath(name).suffix.lower() in INERT


def harmless_page(path: Path) -> str:
    """Return a page of others that runs no script, sends nothing and leads nowhere by itself."""
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError:
        raise UserError(f"{path} must be text in UTF-8") from None
    return POLICY + DIRECTIVE.sub("data-equiv", text)
