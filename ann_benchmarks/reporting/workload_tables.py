"""Tables of the workloads that write: inserts by many clients, and changes beside queries by phase."""

from ann_benchmarks.common.numbers import UNKNOWN, factor, milliseconds, plain, share, size
from ann_benchmarks.results.records import Phase, Rate, Record

from .document import Block, Table
from .figures import between
from .kinds import Shown, without_results

INSERTING = "inserting"
KINDS_OF_WRITES = ("insert", "update", "delete")


def insert_table(shown: Shown) -> list[Block]:
    """Return inserts a second by the number of writers, and times how many with the fewest."""
    found = inserts_of(shown.records)
    if not found:
        raise without_results("is of inserts")
    fewest: dict[tuple[str, str], float] = {}
    for record, rate in found:
        fewest.setdefault(place(record), rate.per_second)
    rows = [
        [
            place(record)[1],
            record.dataset,
            f"{record.writers:,}",
            plain(rate.per_second) + between((rate.low, rate.high)),
            factor(rate.per_second / first) if (first := fewest[place(record)]) > 0 else UNKNOWN,
            milliseconds(rate.p50),
            milliseconds(rate.p99),
            milliseconds(rate.p999),
            f"{rate.count:,}",
            f"{rate.failed:,}",
        ]
        for record, rate in found
    ]
    columns = (
        *("Index", "Dataset", "Writers", "Inserts/s", "Times the fewest writers'"),
        *("p50 (ms)", "p99 (ms)", "p99.9 (ms)", "Inserted", "Failed"),
    )
    return [Table(columns, rows, shown.title or "Inserts", frozenset({"Index", "Dataset"}))]


def inserts_of(records: object) -> list[tuple[Record, Rate]]:
    """Return the records of inserts with their rates, by index and number of writers."""
    found = [
        (record, rate)
        for record in records  # type: ignore[attr-defined]
        if record.workload == "inserts"
        and (phase := record.phase(INSERTING))
        and (rate := phase.writes.get("insert"))
    ]
    return sorted(found, key=lambda item: (*place(item[0]), item[0].writers))


def place(record: Record) -> tuple[str, str]:
    """Return what records of one line have in common: dataset, and index with what else is special."""
    usual = f"{family_of(record)}-{record.workload}-w{record.writers}"
    special = "" if record.algo == usual else record.algo.removeprefix(family_of(record))
    special = special.replace(f"-{record.workload}", "", 1).replace(f"-w{record.writers}", "", 1)
    return record.dataset, f"{record.name} {special.strip('-')}".strip()


def family_of(record: Record) -> str:
    """Return the algorithm of a record: the name of its curve before the workload."""
    return record.algo.partition(f"-{record.workload}-")[0]


def write_tables(shown: Shown) -> list[Block]:
    """Return for each workload of changes what happened in each of its phases."""
    records = [record for record in shown.records if record.workload == "writes"]
    if not records:
        raise without_results("is of changes beside queries")
    return [
        write_table(record) for record in sorted(records, key=lambda record: (record.dataset, record.algo))
    ]


def write_table(record: Record) -> Table:
    """Return the phases of one workload; columns that nothing is known of are left out."""
    phases = record.phases
    columns = {
        "Phase": [phase.name for phase in phases],
        "Lasted (s)": [plain(phase.seconds) for phase in phases],
        "Took to reach (s)": [plain(phase.seconds_to_reach) for phase in phases],
        "Queries/s": [rate_text(phase.queries) for phase in phases],
        "Query p50 (ms)": [milliseconds(phase.queries.p50 if phase.queries else None) for phase in phases],
        "Query p99 (ms)": [milliseconds(phase.queries.p99 if phase.queries else None) for phase in phases],
        "Recall": [
            share(phase.recall) + between((phase.recall_low, phase.recall_high), share) for phase in phases
        ],
    }
    for kind in KINDS_OF_WRITES:
        rates = [phase.writes.get(kind) for phase in phases]
        columns[f"{kind.capitalize()}s/s"] = [rate_text(rate) for rate in rates]
        columns[f"{kind.capitalize()} p99 (ms)"] = [
            milliseconds(rate.p99 if rate else None) for rate in rates
        ]
    columns |= {
        "Late": [late_text(phase) for phase in phases],
        "Failed": [failed_text(phase) for phase in phases],
        "Rows": [f"{phase.rows:,}" if phase.rows else UNKNOWN for phase in phases],
        "Index": [size(phase.index_size) for phase in phases],
        "Table": [size(phase.table_size) for phase in phases],
    }
    kept = {name: cells for name, cells in columns.items() if set(cells) != {UNKNOWN}}
    rate = "as fast as they go" if record.rate is None else f"{record.rate:g} writes/s asked for"
    who = f"{record.clients} clients that query, {record.writers} that write"
    caption = f"{record.name} on {record.dataset}: {who}, {rate}"
    return Table(tuple(kept), list(zip(*kept.values(), strict=True)), caption, frozenset({"Phase"}))


def rate_text(rate: Rate | None) -> str:
    """Write operations a second with their interval."""
    return plain(rate.per_second) + between((rate.low, rate.high)) if rate else UNKNOWN


def late_text(phase: Phase) -> str:
    """Write how many operations were due and not begun."""
    late = sum(rate.late for rate in [phase.queries, *phase.writes.values()] if rate)
    return f"{late:,}" if late else UNKNOWN


def failed_text(phase: Phase) -> str:
    """Write how many operations failed."""
    failed = sum(rate.failed for rate in [phase.queries, *phase.writes.values()] if rate)
    return f"{failed:,}" if failed else UNKNOWN
