"""What the workloads that write say, in plain sentences."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from ..plotting.ram import KIB, size_text
from ..workloads.records import Phase, Record
from .figures import factor
from .statements import Statement, three_digits
from .workload_tables import inserts_of, place

BEFORE, WRITING = "before", "writing"
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
    """Say for each index what queries were like before, during and after the changes."""
    told = []
    for record in records:
        phases = {phase.name: phase for phase in record.phases}
        if record.workload != "writes" or WRITING not in phases:
            continue
        writes = sum(rate.per_second for rate in phases[WRITING].writes.values())
        parts = [f"beside {three_digits(writes)} writes/s {phase_text(phases[WRITING])}"]
        if BEFORE in phases:
            parts.append(f"before {phase_text(phases[BEFORE])}")
        parts += [f"{when} {phase_text(phases[name])}" for name, when in AFTER.items() if name in phases]
        told.append(Statement(f"Writes, {record.name}", f"{'; '.join(parts)}."))
    return told


def phase_text(phase: Phase) -> str:
    """Write what queries were like in a phase, and the index at its end."""
    told = []
    if phase.queries is not None:
        told.append(f"{three_digits(phase.queries.per_second)} queries/s")
        told.append(f"p99 {three_digits(phase.queries.p99 * 1e3)} ms")
    if phase.recall is not None:
        told.append(f"recall {phase.recall:.3f}")
    if phase.index_size > 0:
        told.append(f"an index of {size_text(phase.index_size * KIB)}")
    return ", ".join(told)
