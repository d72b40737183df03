"""Writes the table of all bundles and a page for each, with copies of their files."""

from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.runs import skipped

from ..build import script, write
from ..pages import FOLDER, environment
from .copying import copy_files
from .pages import COPIES, bundle_page, pages_of, rows_of, table_page
from .reading import SubmittedBundle, bundle_folders, read_bundle

INDEX = "index.html"


def create_submissions_site(folder: Path, given: Sequence[Path]) -> tuple[int, int]:
    """Write the table of bundles into a folder, which is made if need be; return (bundles, left out).

    `given` are the folders of bundles, or folders of them. A bundle that cannot be used is left out with a
    line on stderr. UserError if there is none that can, or the folder is unwritable.
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
    pages = pages_of(bundles)
    rows = rows_of(pages)
    templates = environment()
    try:
        write(folder / "website.css", (FOLDER / "website.css").read_text(encoding="utf-8"))
        write(folder / "website.js", script())
        for page in tqdm(pages, desc="bundles", unit="bundle", disable=None, leave=False):
            copies = copy_files(page.bundle, folder / COPIES / page.name)
            write(folder / page.file, bundle_page(templates, page, copies))
        write(folder / INDEX, table_page(templates, pages, rows))
    except OSError as error:
        raise UserError(f"cannot write the site to {folder}: {error.strerror or error}") from error
    return len(bundles), len(folders) - len(bundles)
