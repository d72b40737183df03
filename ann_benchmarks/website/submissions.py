"""The table of submitted bundles: the points of all of them on one page. All texts of others are escaped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import shortened
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import Run, skipped
from ann_benchmarks.submission.checking.points import open_bundle
from ann_benchmarks.submission.checking.rules import Findings
from ann_benchmarks.submission.contents import claimed_points
from ann_benchmarks.submission.manifest import MANIFEST, Manifest
from ann_benchmarks.views.figures import DASHES

from .build import template_environment, write_site
from .columns import SiteColumn, attribute, points_data

# Columns that are shown at first, besides all that can be filtered by.
MAIN_COLUMNS = ("built", "parameters", "recall", "qps", "p99", "indexsize", "build")
LONGEST = 500  # characters of a text of others
# Characters without a width of their own that change the order in which others are shown.
UNSEEN = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


@dataclass(frozen=True)
class SubmittedBundle:
    """A bundle whose files are those that its manifest lists, with its points by their files.

    On the site, `title` is that of no other bundle.
    """

    manifest: Manifest
    points: Mapping[str, Run]
    title: str = ""


Owners = Mapping[int, tuple[SubmittedBundle, bool]]  # by a run's identity; whether it is claimed


def create_submissions_site(folder: Path, given: Sequence[Path]) -> tuple[int, int]:
    """Write the table of bundles into a folder, which is made if need be; return (bundles, left out).

    `given` are the folders of bundles, or folders of them. A bundle that cannot be used is left out with a
    line on stderr. UserError if none can be used, or the folder is unwritable.
    """
    bundles: dict[str, SubmittedBundle] = {}
    folders = bundle_folders(given)
    for path in folders:
        try:
            bundle = read_bundle(path)
        except (UserError, OSError) as error:
            skipped(path, error)
            continue
        title = plain_text(bundle.manifest.title)
        while title in bundles:
            title += f" ({path.name})"
        bundles[title] = replace(bundle, title=title)
    if not bundles:
        raise UserError("nothing to show: none of the folders is a bundle that can be read")
    listed = sorted(bundles.values(), key=lambda bundle: bundle.title.lower())
    write_site(folder, [], table_page(template_environment(), listed))
    return len(bundles), len(folders) - len(bundles)


def bundle_folders(given: Iterable[Path]) -> list[Path]:
    """Return the folders of bundles: those that are given, or those within one that is not a bundle."""
    found: dict[Path, Path] = {}
    for folder in given:
        inside = [] if (folder / MANIFEST).exists() or not folder.is_dir() else sorted(folder.iterdir())
        folders = [path for path in inside if path.is_dir() and not path.name.startswith(".")]
        for one in folders or [folder]:
            found.setdefault(one.resolve(), one)
    return list(found.values())


def read_bundle(folder: Path) -> SubmittedBundle:
    """Read a bundle as the checker reads it; UserError with the first thing for which it would be refused."""
    findings = Findings()
    points: dict[str, Run] = {}
    if (opened := open_bundle(folder, findings)) is not None:
        number = len(opened.results)
        for point in tqdm(opened.points(), folder.name, number, unit="point", disable=None, leave=False):
            points[point.file] = point.run
    if opened is None or findings.refused:
        raise UserError(f"{folder} would be refused: {findings.refused[0]}")
    return SubmittedBundle(opened.manifest, points)


def owners_of(bundles: Iterable[SubmittedBundle]) -> tuple[list[Run], Owners]:
    """Return the points of all bundles, and whose each is; a file in several bundles counts once."""
    runs: dict[str, Run] = {}
    owners: dict[int, tuple[SubmittedBundle, bool]] = {}
    for bundle in bundles:
        target = bundle.manifest.target_recall
        claimed = {run.path for run in claimed_points(bundle.points.values(), target)}
        for file, run in bundle.points.items():
            if runs.setdefault(bundle.manifest.files[file].sha256, run) is run:
                owners[id(run)] = bundle, run.path in claimed
    return list(runs.values()), owners


def plain_text(value: object) -> str:
    """Return a text of others as one line of bounded length, whose characters stand in their order."""
    return shortened(str(value).translate(UNSEEN), LONGEST)


def own_columns(owners: Owners) -> list[SiteColumn]:
    """Return the columns that only submitted points have, besides those of all results."""

    def manifest(run: Run) -> Manifest:
        return owners[id(run)][0].manifest

    return [
        SiteColumn("bundle", "Bundle", "words", lambda run: owners[id(run)][0].title, True),
        SiteColumn("dataset", "Dataset", "words", lambda run: run.dataset, True),
        SiteColumn("k", "k", "number", lambda run: run.count, True),
        SiteColumn("selectivity", "Share of rows that pass", "share", attribute("selectivity"), True),
        SiteColumn("claim", "Claim", "words", lambda run: "yes" if owners[id(run)][1] else "no", True),
        SiteColumn("division", "Division", "words", lambda run: manifest(run).division, True),
        SiteColumn("size", "Size", "words", lambda run: "miniature" if manifest(run).mini else "full", True),
        SiteColumn("made", "Bundle made", "words", lambda run: manifest(run).made[:10]),
    ]


def table_page(templates: Environment, bundles: Sequence[SubmittedBundle]) -> str:
    """Return the HTML of the table, with the data that its script shows."""
    runs, owners = owners_of(bundles)
    points: dict[str, Any] = points_data(runs, own_columns(owners))
    for column in points["columns"]:
        if "words" in column:
            column["words"] = [plain_text(word) for word in column["words"]]
    reached = any(run.metrics["recall"] >= TARGET_RECALL for run in runs)
    data = {
        "points": points,
        "links": {"column": "bundle", "files": {}},
        "table": {"columns": MAIN_COLUMNS, "sort": "-qps", "least": TARGET_RECALL if reached else None},
        "target": TARGET_RECALL,
        "charts": [],
        "styles": {},
        "dashes": DASHES,
    }
    rows = [(bundle.title, plain_text(bundle.manifest.contact), bundle) for bundle in bundles]
    return templates.get_template("submissions.html").render(rows=rows, count=len(runs), data=data)
