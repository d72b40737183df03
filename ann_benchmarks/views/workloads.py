"""The workloads that write: inserts by many clients, and writes during queries."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import (
    KIB,
    UNKNOWN,
    counted,
    figure_text,
    milliseconds,
    share_text,
    size_text,
    three_digits,
)
from ann_benchmarks.results.records import Phase, Rate, Record, read_windows
from ann_benchmarks.statistics.contests import ratio_once
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.intervals import Interval, interval_text

from .figures import Axis, Chart, Curve, Panel, Style
from .parts import Statement, Table, known_table, listed
from .points import Point

INSERTING, BEFORE, WRITING = "inserting", "before", "writing"  # phases
NO_INSERTS, NO_WRITES = "no result has a workload of inserts", "no result has a workload of writes"
SIDE_BY_SIDE = 2  # workloads in a picture
KEPT = 0.95  # a smaller share of the requested rate does not count as that rate
RECALL, SIZE = "Recall", "Index (MB)"
PANELS = {
    "Queries/s": "queries",
    "Query p99 (ms)": "query_p99",
    "Writes/s": "writes",
    "Write p99 (ms)": "write_p99",
    RECALL: "recall",
    SIZE: "index_size",
}
AFTER = {"after": "afterwards", "vacuumed": "after VACUUM", "reindexed": "after REINDEX"}


def insert_rates(records: Iterable[Record]) -> list[tuple[Record, Rate]]:
    """Return the records of inserts with their rates, by index and number of writers."""
    found = [
        (record, rate)
        for record in records
        if record.workload == "inserts"
        and (phase := record.phase(INSERTING))
        and (rate := phase.writes.get("insert"))
    ]
    return sorted(found, key=lambda item: (*place(item[0]), item[0].writers))


def place(record: Record) -> tuple[str, str]:
    """Return what records of one line have in common: dataset, and index with anything else special."""
    special = record.series.drop("workload", "writers").conditions
    return record.dataset, f"{record.title} {special.strip('-')}".strip()


def insert_statements(records: Iterable[Record]) -> list[Statement]:
    """Say for each index how many inserts a second there were with the fewest writers, and at most."""
    statements = []
    for (_, name), group in groupby(insert_rates(records), lambda item: place(item[0])):
        (fewest, first), *others = [(record.writers, rate) for record, rate in group]
        text = f"{name} takes {three_digits(first.per_second)} inserts/s from {counted(fewest, 'writer')}"
        if others and first.per_second > 0:
            text += f" and {scaling_text(first, others)}"
        statements.append(Statement("Inserts", f"{text}."))
    return statements


def scaling_text(first: Rate, others: Sequence[tuple[int, Rate]]) -> str:
    """Say how many inserts there are at most with more writers, and whether that is more than noise."""
    writers, most = max(others, key=lambda item: item[1].per_second)
    if most.per_second <= first.per_second:
        return f"no more from up to {others[-1][0]}"
    found = ratio_once(most.estimate, first.estimate, ERROR_RATE / math.comb(len(others) + 1, 2))
    rate, times = three_digits(most.per_second), three_digits(found.value)
    if found.is_noise:
        return f"no more beyond noise from up to {others[-1][0]} (ratio {times}, {found.whole_certainty})"
    return f"at most {rate} from {writers}, {times} times as many ({found.whole_certainty})"


def write_statements(records: Iterable[Record]) -> list[Statement]:
    """Say which index is the fastest during the writes, and how each was before, during and after them."""
    written = [record for record in records if record.workload == "writes" and record.phase(WRITING)]
    statements = []
    loads: dict[tuple[float | None, int, int], list[Record]] = {}
    for record in written:
        loads.setdefault((record.rate, record.clients, record.writers), []).append(record)
    for (rate, clients, writers), group in loads.items():
        if len({record.title for record in group}) > 1:
            writes = "writes" if rate is None else f"{three_digits(rate)} writes/s"
            load = f"{writes} from {counted(writers, 'writer')}, with {counted(clients, 'client')} querying"
            statements.append(Statement("Writes", f"During {load}, {ranked_text(group)}."))
    return statements + [Statement(f"Writes, {record.title}", f"{phase_text(record)}.") for record in written]


def ranked_text(records: Sequence[Record]) -> str:
    """Rank indexes by their queries while rows were written."""
    known = [
        (phase.queries, record, phase)
        for record in records
        if (phase := record.phase(WRITING)) and phase.queries
    ]
    ranked = sorted(known, key=lambda item: -item[0].per_second)
    texts = [
        f"{record.title} {'answers ' * (not place)}{three_digits(rate.per_second)}"
        f" {'queries/s ' * (not place)}({', '.join(writing_notes(record, phase))})"
        for place, (rate, record, phase) in enumerate(ranked)
    ]
    if len(ranked) < 2 or not ranked[-1][0].per_second > 0:
        return listed(texts)
    best, worst = ranked[0][0].estimate, ranked[-1][0].estimate
    found = ratio_once(best, worst, ERROR_RATE / math.comb(len(ranked), 2))
    says = "no difference beyond noise: a factor" if found.is_noise else "a factor"
    return f"{listed(texts)}, {says} of {three_digits(found.value)} ({found.whole_certainty})"


def writing_notes(record: Record, phase: Phase) -> list[str]:
    """Say what else counts while rows are written: p99, the time of an insert, a rate that was not kept."""
    texts = []
    if phase.queries is not None and (p99 := phase.queries.percentile("p99")) is not None:
        texts.append(f"p99 {three_digits(p99 * 1e3)} ms")
    if (insert := phase.writes.get("insert")) and (p50 := insert.percentile("p50")) is not None:
        texts.append(f"an insert takes {three_digits(p50 * 1e3)} ms")
    done = sum(rate.per_second for rate in phase.writes.values())
    if record.rate is not None and done < KEPT * record.rate:
        texts.append(f"only {three_digits(done)} writes/s were made")
    return texts


def phase_text(record: Record) -> str:
    """Say of each phase the queries a second, then their p99, the recall and the size of the index."""
    writes = next(sum(r.per_second for r in p.writes.values()) for p in record.phases if p.name == WRITING)
    names = {BEFORE: "before", WRITING: f"during {three_digits(writes)} writes/s", **AFTER}
    shown = [(names[phase.name], phase) for phase in record.phases if phase.name in names]
    queried = [(name, phase.queries) for name, phase in shown if phase.queries is not None]
    parts = []
    if queried:
        (first, rate), *others = [(name, three_digits(queries.per_second)) for name, queries in queried]
        parts.append(listed([f"{rate} queries/s {first}", *(f"{other} {name}" for name, other in others)]))
        tails = [queries.percentile("p99") for _, queries in queried]
        if any(tail is not None for tail in tails):
            known = [UNKNOWN if tail is None else three_digits(tail * 1e3) for tail in tails]
            parts.append(f"p99 {listed(known)} ms")
    if recalls := [f"{phase.recall:.3f}" for _, phase in shown if phase.recall is not None]:
        parts.append(f"recall {listed(recalls)}")
    if sizes := [size_text(phase.index_size * KIB) for _, phase in shown if phase.index_size > 0]:
        parts.append(f"index size {listed(sizes)}")
    return "; ".join(parts)


def insert_table(records: Iterable[Record], title: str = "") -> Table:
    """Return inserts a second by the number of writers, and as multiples of those with the fewest."""
    found = insert_rates(records)
    if not found:
        raise UserError(NO_INSERTS)
    fewest: dict[tuple[str, str], Rate] = {}
    for record, rate in found:
        fewest.setdefault(place(record), rate)
    rows = [
        [
            *(place(record)[1], record.dataset, f"{record.writers:,}", rate_text(rate)),
            times_text(rate, fewest[place(record)]),
            *(milliseconds(rate.percentile(name)) for name in ("p50", "p99", "p999")),
            *(f"{rate.count:,}", f"{rate.failed:,}"),
        ]
        for record, rate in found
    ]
    columns = (
        *("Index", "Dataset", "Writers", "Inserts/s", "Times the fewest writers'"),
        *("p50 (ms)", "p99 (ms)", "p99.9 (ms)", "Inserted", "Failed"),
    )
    return Table(columns, rows, title or "Inserts", ("Index", "Dataset"))


def times_text(rate: Rate, first: Rate) -> str:
    """Write a rate as a multiple of another one, with its interval."""
    if rate is first or not min(rate.per_second, first.per_second) > 0:
        return "1" if rate is first else UNKNOWN
    found = ratio_once(rate.estimate, first.estimate)
    return three_digits(found.value) + interval_text(found.interval, three_digits)


def write_records(records: Iterable[Record], has_windows: bool = False) -> list[Record]:
    """Return the workloads of writes in order; UserError without any."""
    found = [one for one in records if one.workload == "writes" and (one.windows or not has_windows)]
    if not found:
        raise UserError(NO_WRITES)
    return sorted(found, key=lambda record: (record.dataset, record.rate or 0, record.algo))


def write_tables(records: Iterable[Record]) -> list[Table]:
    """Return for each workload of writes what happened in each of its phases."""
    return list(map(write_table, write_records(records)))


def write_charts(records: Iterable[Record]) -> list[Chart]:
    """Return what happened over time while queries and writes ran, a few workloads in each picture."""
    found = write_records(records, has_windows=True)
    starts = range(0, len(found), SIDE_BY_SIDE)
    return [write_chart(found[start : start + SIDE_BY_SIDE]) for start in starts]


def write_table(record: Record) -> Table:
    """Return the phases of one workload, without columns in which nothing is known."""
    phases = record.phases
    queries = [phase.queries for phase in phases]
    columns = {
        "Phase": [phase.name for phase in phases],
        "Lasted (s)": [figure_text(phase.seconds) for phase in phases],
        "Took to reach (s)": [figure_text(phase.seconds_to_reach) for phase in phases],
        "Queries/s": [rate_text(rate) for rate in queries],
        **{
            f"Query {name} (ms)": [milliseconds(rate.percentile(name) if rate else None) for rate in queries]
            for name in ("p50", "p99")
        },
        "Recall": [
            share_text(p.recall) + interval_text((p.recall_low, p.recall_high), share_text) for p in phases
        ],
    }
    for kind in ("insert", "update", "delete"):
        rates = [phase.writes.get(kind) for phase in phases]
        columns[f"{kind.capitalize()}s/s"] = [rate_text(rate) for rate in rates]
        columns[f"{kind.capitalize()} p99 (ms)"] = [
            milliseconds(rate.percentile("p99") if rate else None) for rate in rates
        ]
    columns |= {
        "Late": [total(phase, "late") for phase in phases],  # due and not begun
        "Failed": [total(phase, "failed") for phase in phases],
        "Rows": [f"{phase.rows:,}" if phase.rows else UNKNOWN for phase in phases],
        "Index": [size_text(phase.index_size, KIB) for phase in phases],
        "Table": [size_text(phase.table_size, KIB) for phase in phases],
    }
    rate = "as fast as they go" if record.rate is None else f"{record.rate:g} writes/s requested"
    who = f"{counted(record.clients, 'client')} querying, {counted(record.writers, 'writer')}"
    caption = f"{record.title} on {record.dataset}: {who}, {rate}"
    return known_table(columns, caption, ["Phase"])


def rate_text(rate: Rate | None) -> str:
    """Write operations a second with their interval."""
    return figure_text(rate.per_second) + interval_text((rate.low, rate.high)) if rate else UNKNOWN


def total(phase: Phase, name: str) -> str:
    """Write the sum of a count, late or failed, over all kinds of operations in a phase."""
    number = sum(getattr(rate, name) for rate in [phase.queries, *phase.writes.values()] if rate)
    return f"{number:,}" if number else UNKNOWN


def insert_lines(records: Iterable[Record]) -> tuple[dict[str, list[Point]], dict[str, str]]:
    """Return inserts a second over writers, a line for each index, and its algorithm; UserError without."""
    lines: dict[str, list[Point]] = {}
    algorithms = {}
    for record, rate in insert_rates(records):
        name, bounds = " on ".join(reversed(place(record))), Interval(rate.low, rate.high)
        known = bounds if bounds.low <= bounds.high else None
        lines.setdefault(name, []).append(Point(record.writers, rate.per_second, None, known))
        algorithms[name] = record.series.family
    if not lines:
        raise UserError(NO_INSERTS)
    return lines, algorithms


def write_chart(records: Sequence[Record]) -> Chart:
    """Return workloads side by side, with a row for each figure that is known of any of them."""
    drawn = [read_windows(record.windows) for record in records]
    names = {
        name: column
        for name, column in PANELS.items()
        if any(math.isfinite(value) for _, figures in drawn for value in figures[column])
    }
    if not names:
        raise UserError("no record states what happened over time")
    panels = []
    for row, (name, column) in enumerate(names.items()):
        for record, (middles, figures) in zip(records, drawn, strict=True):
            points = [Point(x, y) for x, y in zip(middles, figures[column], strict=True)]
            if name == RECALL:  # measured now and then: what lies between is joined
                points = [point for point in points if math.isfinite(point.y)]
            bands = [(one.start, one.start + one.seconds, "" if row else one.name) for one in record.phases]
            x = Axis("Seconds in which something was measured", "linear")
            y = Axis(name, "linear", from_zero=name not in (RECALL, SIZE))
            heading = "" if row else record.title
            panels.append(Panel([Curve("", points, Style(row, 0, 0), "sample")], x, y, heading, bands))
    return Chart("", panels, len(records), is_grid=True, size=(5.4, 1.2))
