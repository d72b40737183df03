"""The columns of the table of submitted points: what was measured, on what, and what that costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import shortened
from ann_benchmarks.fields.rows import chosen_fields
from ann_benchmarks.pricing.servers import measured_server
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run
from ann_benchmarks.submission.manifest import Manifest

from ..columns import SiteColumn, Value, attribute, build, field_column, metric, text, version, warnings
from .reading import SubmittedBundle, SubmittedPoint

SERVER = "postgres_version"
LONGEST = 500  # characters of a text of others
MOST_VERSIONS = 4  # of extensions, that are listed
# Characters without a width of their own that change the order in which others are shown.
UNSEEN = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])

# Those that are shown at first, besides all that can be filtered by.
MAIN = (
    "built",
    "parameters",
    "recall",
    "qps",
    "coldqps",
    "p99",
    "coldp99",
    "indexsize",
    "build",
    "price",
    "queriesfor",
)


@dataclass(frozen=True)
class SubmittedRow:
    """A point with the name of its bundle's row in the table, which no other bundle has."""

    point: SubmittedPoint
    bundle: SubmittedBundle
    title: str


class Priced:
    """What the server of a row costs, and the queries that it answers for one unit of the currency."""

    def __init__(self, row: SubmittedRow) -> None:
        quote, prices = row.point.quote, row.bundle.prices
        assert quote is not None and prices is not None
        self.instance, self.price, self.currency = quote.instance.name, quote.price, prices.currency
        warm = row.point.warm
        self.queries = warm.metrics["qps"] * prices.seconds / quote.price if warm else None


Rows = Mapping[int, SubmittedRow]  # by the identity of the run


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
    return (
        " × ".join([*([] if found.cpus is None else [f"{found.cpus}"]), found.processor]).strip(" ×") or None
    )


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
    found = (
        f"{title} {version(name)(run)}" for name, title in names if name != SERVER and version(name)(run)
    )
    return ", ".join(islice(found, MOST_VERSIONS)) or None


def load(run: Run) -> str:
    """Return what was special about the load, apart from the caches and the filter."""
    return run.series.without("caches", "filter").special or "plain"


def picked(column: SiteColumn, pick: Callable[[Run], Run | None]) -> SiteColumn:
    """Return a column of the run that belongs to a row's, which is empty where there is none."""
    bounds = column.bounds

    def value(run: Run) -> Value:
        chosen = pick(run)
        return column.value(chosen) if chosen else None

    def interval(run: Run) -> Interval | None:
        chosen = pick(run)
        return bounds(chosen) if bounds and chosen else None

    return replace(column, value=value, bounds=interval)


def figure(name: str) -> SiteColumn:
    """Return the column of a metric with a short heading."""
    return replace(metric(name), label=all_metrics[name].title)


def cold(column: SiteColumn, rows: Rows) -> SiteColumn:
    """Return a column of what was measured from cold caches."""
    of_cold = picked(column, lambda run: rows[id(run)].point.cold)
    return replace(of_cold, id=f"cold{column.id}", label=f"Cold {column.label}")


def warm(column: SiteColumn, rows: Rows) -> SiteColumn:
    """Return a column of what was measured from warm caches."""
    return picked(column, lambda run: rows[id(run)].point.warm)


def words(name: str, label: str, value: Callable[[Run], object], is_facet: bool = True) -> SiteColumn:
    """Return a column of texts, which others wrote."""

    def written(run: Run) -> str | None:
        found = value(run)
        return None if found is None or found == "" else plain_text(found)

    return SiteColumn(name, label, "words", written, is_facet)


def price_columns(rows: Rows) -> tuple[SiteColumn, ...]:
    """Return what servers cost by the prices in their bundles; nothing where no bundle has any."""
    priced = {key: Priced(row) for key, row in rows.items() if row.point.quote}
    currencies = {one.currency for one in priced.values()}
    if not currencies:
        return ()
    unit = currencies.pop() if len(currencies) == 1 else "unit of the currency"

    def number_of(value: Callable[[Priced], float | None]) -> Callable[[Run], float | None]:
        return lambda run: value(priced[id(run)]) if id(run) in priced else None

    def text_of(value: Callable[[Priced], str]) -> Callable[[Run], str | None]:
        return lambda run: value(priced[id(run)]) if id(run) in priced else None

    return (
        words("instance", "Priced as", text_of(lambda one: one.instance), False),
        SiteColumn("price", f"Price a month ({unit})", "number", number_of(lambda one: one.price)),
        SiteColumn("queriesfor", f"Queries for 1 {unit}", "number", number_of(lambda one: one.queries)),
        words("currency", "Currency", text_of(lambda one: one.currency)),
    )


def columns_of_rows(rows: Rows) -> tuple[SiteColumn, ...]:
    """Return the columns of submitted points; `rows` has each by the identity of its run."""

    def of_manifest(value: Callable[[Manifest], str]) -> Callable[[Run], str]:
        return lambda run: value(rows[id(run)].bundle.manifest)

    qps, p99 = figure("qps"), figure("p99")
    return (
        words("bundle", "Bundle", lambda run: rows[id(run)].title),
        words("algorithm", "Algorithm", lambda run: run.series.name),
        figure("recall"),
        warm(qps, rows),
        cold(qps, rows),
        warm(p99, rows),
        cold(p99, rows),
        *map(field_column, chosen_fields("servers", "settings")),
        SiteColumn("clients", "Clients", "number", lambda run: run.series.clients or 1, True),
        words("memory", "Memory", memory),
        words("cpu", "CPU", processors),
        *price_columns(rows),
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
        words("claim", "Claim", lambda run: "yes" if rows[id(run)].point.is_claim else "no"),
        words("division", "Division", of_manifest(lambda manifest: manifest.division)),
        words("size", "Size", of_manifest(lambda manifest: "miniature" if manifest.mini else "full")),
        words("warnings", "Warnings", warnings, False),
        words("made", "Bundle made", of_manifest(lambda manifest: manifest.made[:10]), False),
    )
