"""Submitted bundles: files as their manifests list them, figures from stored answers, and their columns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import shortened
from ann_benchmarks.fields.rows import chosen_fields
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.pricing.servers import measured_server
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run
from ann_benchmarks.submission.checking.points import CheckedPoint, open_bundle
from ann_benchmarks.submission.checking.rules import Findings
from ann_benchmarks.submission.manifest import MANIFEST, Manifest

from .columns import SiteColumn, attribute, build, field_column, metric, text, version, warnings
from .costs import price_columns

INDEX = "index.html"
SERVER = "postgres_version"
LONGEST = 500  # characters of a text of others
MOST_VERSIONS = 4  # of extensions, that are listed
# Characters without a width of their own that change the order in which others are shown.
UNSEEN = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


@dataclass(frozen=True)
class SubmittedPoint:
    """A row of the table: a measured point, and the same one from cold caches where both were measured.

    `run` is the warm one; of a point that was measured from cold caches alone, both are that. `digest` is
    the SHA-256 of the file of `run`. A claim is what the report of the bundle rests on.
    """

    run: Run
    cold: Run | None
    digest: str
    is_claim: bool


@dataclass(frozen=True)
class SubmittedBundle:
    """A bundle whose files are those that its manifest lists.

    On the site, `title` is that of no other bundle, nor `name`, of its page and of the folder of its copies.
    """

    folder: Path
    manifest: Manifest
    points: list[SubmittedPoint]
    prices: PriceList | None = None
    title: str = ""
    name: str = ""

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.name}.html"

    @property
    def address(self) -> str:
        """The address of its points in the table."""
        return f"{INDEX}#{urlencode({'bundle': self.title, 'least': 0})}"


Rows = Mapping[int, tuple[SubmittedPoint, SubmittedBundle]]  # by the identity of the run


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
    opened = open_bundle(folder, findings)
    found: dict[str, dict[bool, CheckedPoint]] = {}  # by the names of files, warm and cold ones
    if opened is not None:
        number = len(opened.results)
        for point in tqdm(opened.points(), folder.name, number, unit="point", disable=None, leave=False):
            # A file is named by its build and query arguments.
            place = f"{point.dataset}/{point.count}/{point.series.drop('caches').folder}/{point.name}"
            found.setdefault(place, {}).setdefault(point.series.is_cold, point.drop_arrays())
    if opened is None or findings.refused:
        raise UserError(f"{folder} would be refused: {findings.refused[0]}")
    claimed = {claim.file for claim in opened.manifest.claims}
    points = []
    for both in sorted(found.values(), key=lambda both: False not in both):  # warm ones come first
        warm, cold = both.get(False), both.get(True)
        shown = warm or both[True]
        digest = opened.manifest.files[shown.file].sha256
        is_claim = any(point.file in claimed for point in both.values())
        points.append(SubmittedPoint(shown.run, cold.run if cold else None, digest, is_claim))
    return SubmittedBundle(folder, opened.manifest, points, opened.prices)


def submitted_rows(bundles: Iterable[SubmittedBundle]) -> Rows:
    """Return the rows of the table, in the order of the bundles; a file in several of them counts once."""
    found: dict[str, SubmittedPoint] = {}
    return {
        id(point.run): (point, bundle)
        for bundle in bundles
        for point in bundle.points
        if found.setdefault(point.digest, point) is point
    }


def plain_text(value: object) -> str:
    """Return a text of others as one line of bounded length, whose characters stand in their order."""
    return shortened(str(value).translate(UNSEEN), LONGEST)


def machine(run: Run) -> str:
    """Return what kind of machine it is."""
    found = measured_server(run)
    return f"simulated by {text(run, 'tier_method') or 'limits'}" if found.is_simulated else found.name


def processors(run: Run) -> str | None:
    """Return the number of cores that there were, with the kind of processor."""
    found = measured_server(run)
    parts = [*([] if found.cpus is None else [f"{found.cpus}"]), found.processor]
    return " × ".join(parts).strip(" ×") or None


def memory(run: Run) -> str | None:
    """Return the memory that there was: of the tier, of the container or of the machine."""
    size = measured_server(run).memory
    return size_text(size) if size else None


def disk(run: Run) -> str | None:
    """Return the disk: the name or the limits of the tier's, else the machine's."""
    found = measured_server(run)
    if found.is_simulated:
        return run.series.tier_disk or (found.disk if found.iops or found.bandwidth else text(run, "disk"))
    return text(run, "disk") if found.processor else None  # of a server of one's own, nothing is known


def server(run: Run) -> str | None:
    """Return the server with its version."""
    known = version(SERVER)(run)
    return f"PostgreSQL {known}" if known else None


def extensions(run: Run) -> str | None:
    """Return the extensions with their versions."""
    names = sorted(version_names(run.attrs).items(), key=lambda item: item[1].lower())
    known = ((title, version(name)(run)) for name, title in names if name != SERVER)
    return (
        ", ".join(islice((f"{title} {number}" for title, number in known if number), MOST_VERSIONS)) or None
    )


def load(run: Run) -> str:
    """Return what was special about the load, apart from the caches and the filter."""
    return run.series.drop("caches", "filter").special or "plain"


def picked(column: SiteColumn, pick: Callable[[Run], Run | None]) -> SiteColumn:
    """Return a column of the run that belongs to a row's, which is empty without such a run."""
    bounds = column.bounds
    return replace(
        column,
        value=lambda run: column.value(chosen) if (chosen := pick(run)) else None,
        bounds=(lambda run: bounds(chosen) if (chosen := pick(run)) else None) if bounds else None,
    )


def figure(name: str) -> SiteColumn:
    """Return the column of a metric with a short heading."""
    return replace(metric(name), label=all_metrics[name].title)


def words(name: str, label: str, value: Callable[[Run], str | None], is_facet: bool = True) -> SiteColumn:
    """Return a column of words."""
    return SiteColumn(name, label, "words", value, is_facet)


def bounded(column: SiteColumn) -> SiteColumn:
    """Return a column whose words, written by others, are plain texts."""
    if column.kind != "words":
        return column
    return replace(column, value=lambda run: plain_text(found) if (found := column.value(run)) else None)


def row_columns(rows: Rows) -> list[SiteColumn]:
    """Return the columns of submitted points; `rows` has each by the identity of its run."""

    def warm(column: SiteColumn) -> SiteColumn:
        return picked(column, lambda run: None if run.series.is_cold else run)

    def cold(column: SiteColumn) -> SiteColumn:
        found = picked(column, lambda run: rows[id(run)][0].cold)
        return replace(found, id=f"cold{column.id}", label=f"Cold {column.label}")

    def stated(value: Callable[[Manifest], str]) -> Callable[[Run], str]:
        return lambda run: value(rows[id(run)][1].manifest)

    prices = {key: bundle.prices for key, (_, bundle) in rows.items() if bundle.prices}
    columns = (
        words("bundle", "Bundle", lambda run: rows[id(run)][1].title),
        words("algorithm", "Algorithm", lambda run: run.series.name),
        figure("recall"),
        *(kind(figure(name)) for name in ("qps", "p99") for kind in (warm, cold)),
        *map(field_column, chosen_fields("servers", "settings")),
        SiteColumn("clients", "Clients", "number", lambda run: run.series.clients or 1, True),
        words("memory", "Memory", memory),
        words("cpu", "CPU", processors),
        *(warm(one) if one.id == "queriespermoney" else one for one in price_columns(prices)),
        words("dataset", "Dataset", lambda run: run.dataset),
        SiteColumn("k", "k", "number", lambda run: run.count, True),
        words("filter", "Filter", lambda run: run.series.filter, False),
        SiteColumn("selectivity", "Share of rows that pass", "share", attribute("selectivity"), True),
        figure("indexsize"),
        figure("build"),
        words("built", "Build arguments", build, False),
        words("parameters", "Parameters", lambda run: run.parameters, False),
        words("server", "Server", server),
        words("extensions", "Extensions", extensions),
        words("disk", "Disk", disk),
        words("machine", "Machine", machine),
        words("load", "Load", load),
        words("claim", "Claim", lambda run: "yes" if rows[id(run)][0].is_claim else "no"),
        words("division", "Division", stated(lambda manifest: manifest.division)),
        words("size", "Size", stated(lambda manifest: "miniature" if manifest.mini else "full")),
        words("warnings", "Warnings", warnings, False),
        words("made", "Bundle made", stated(lambda manifest: manifest.made[:10]), False),
    )
    return [bounded(column) for column in columns]
