"""What the workloads that write say, in plain sentences."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from ann_benchmarks.common.numbers import KIB, factor, size_text
from ann_benchmarks.results.records import Phase, Record

from .statements import Statement, listed, three_digits
from .workload_tables import inserts_of, place

BEFORE, WRITING = "before", "writing"
KEPT = 0.95  # of the rate that was asked for, below which it was not kept
AFTER = {"after": "afterwards", "vacuumed": "after VACUUM", "reindexed": "after REINDEX"}


def workload_statements(records: Sequence[Record]) -> list[Statement]:
    """Say how inserts scale with writers, and what changes do to queries."""
    return [*insert_statements(records), *write_statements(records)]


def insert_statements(records: Iterable[Record]) -> list[Statement]:
    """Say for each index how many inserts a second there were with the fewest writers, and at most."""
    told = []
    for (_, name), group in groupby(inserts_of(records), lambda item: place(item[0])):
        found = [(record.writers, rate.per_second) for record, rate in group]
        (fewest, first), (writers, most) = found[0], max(found, key=lambda item: item[1])
        text = f"{name} takes {three_digits(first)} inserts/s from {counted(fewest)}"
        if writers != fewest and first > 0:
            text += f", and at most {three_digits(most)} from {writers}, {factor(most / first)} times as many"
        elif len(found) > 1:
            text += f", and no more from up to {found[-1][0]}"
        told.append(Statement("Inserts", f"{text}."))
    return told


def counted(writers: int) -> str:
    """Say how many writers."""
    return f"{writers} writer{'s' * (writers > 1)}"


def write_statements(records: Iterable[Record]) -> list[Statement]:
    """Say which index is the fastest beside the changes, and how each was before, during and after them."""
    written = [record for record in records if record.workload == "writes" and record.phase(WRITING)]
    told = []
    loads: dict[tuple[float | None, int, int], list[Record]] = {}
    for record in written:
        loads.setdefault((record.rate, record.clients, record.writers), []).append(record)
    for (rate, clients, writers), group in loads.items():
        names = list(dict.fromkeys(record.name for record in group))
        if len(names) > 1:
            wanted = "writes" if rate is None else f"{three_digits(rate)} writes/s"
            where = f"Beside {wanted} from {counted(writers)}, asked by {clients} client{'s' * (clients > 1)}"
            told.append(Statement("Writes", f"{where}, {fastest_beside(group)}."))
    return told + [Statement(f"Writes, {record.name}", f"{over_phases(record)}.") for record in written]


def fastest_beside(records: Sequence[Record]) -> str:
    """Rank indexes by their queries while rows were written."""
    ranked = []
    for record in records:
        phase = record.phase(WRITING)
        if phase is not None and phase.queries is not None:
            ranked.append((phase.queries.per_second, record, phase))
    ranked.sort(key=lambda item: -item[0])
    told = [
        f"{record.name} {'answers ' * (not place)}{three_digits(rate)} {'queries/s ' * (not place)}"
        f"({', '.join(beside(record, phase))})"
        for place, (rate, record, phase) in enumerate(ranked)
    ]
    times = f": {factor(ranked[0][0] / ranked[-1][0])} times as many" if ranked[-1][0] > 0 else ""
    return listed(told) + times


def beside(record: Record, phase: Phase) -> list[str]:
    """Say what else counts of the time of the changes: p99, what an insert takes, what was not kept."""
    told = [f"p99 {three_digits(phase.queries.p99 * 1e3)} ms"] if phase.queries is not None else []
    if insert := phase.writes.get("insert"):
        told.append(f"an insert takes {three_digits(insert.p50 * 1e3)} ms")
    done = sum(rate.per_second for rate in phase.writes.values())
    if record.rate is not None and done < KEPT * record.rate:
        told.append(f"only {three_digits(done)} writes/s were made")
    return told


def over_phases(record: Record) -> str:
    """Say of each phase the queries a second, then their p99, the recall and the size of the index."""
    writes = next(sum(r.per_second for r in p.writes.values()) for p in record.phases if p.name == WRITING)
    names = {BEFORE: "before", WRITING: f"beside {three_digits(writes)} writes/s", **AFTER}
    shown = [(names[phase.name], phase) for phase in record.phases if phase.name in names]
    asked = [(name, phase.queries) for name, phase in shown if phase.queries is not None]
    parts = []
    if asked:
        (first, rate), *others = [(name, three_digits(queries.per_second)) for name, queries in asked]
        parts.append(listed([f"{rate} queries/s {first}", *(f"{other} {name}" for name, other in others)]))
        parts.append(f"p99 {listed([three_digits(queries.p99 * 1e3) for _, queries in asked])} ms")
    if recalls := [f"{phase.recall:.3f}" for _, phase in shown if phase.recall is not None]:
        parts.append(f"recall {listed(recalls)}")
    if sizes := [size_text(phase.index_size * KIB) for _, phase in shown if phase.index_size > 0]:
        parts.append(f"an index of {listed(sizes)}")
    return "; ".join(parts)
