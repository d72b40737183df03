"""Columns that do not depend on the vectors, and the filters on them: uniform, labels and tenants."""

from decimal import Decimal

import numpy as np

from .attributes import RowAttribute
from .filter import Filter, Predicate
from .streams import below, fractions, permuted
from .synthetic import SyntheticSet

LABELS = 5000  # the rarest is on 1 row of 10,000
COMMONEST = Decimal("0.5")  # the share of the rows that have label 1; label r is on a share of COMMONEST / r
TOLERANCE = Decimal("0.1")  # how far a filter may be from the selectivity that was requested, where it must
_BLOCK = 2**20  # rows made at once


def generated_column(wanted: SyntheticSet, rows: int) -> RowAttribute:
    """Make the column of a uniform, labels or tenants set."""
    if wanted.kind in ("labels", "labels2"):
        return _labels(rows)
    sizes = tenant_sizes(int(wanted.number), rows) if wanted.kind == "tenants" else None
    values = np.empty(rows, np.int64)
    for start in range(0, rows, _BLOCK):
        block = slice(start, min(start + _BLOCK, rows))
        values[block] = permuted(wanted.column, np.arange(block.start, block.stop), rows)
        if sizes is not None:
            values[block] = np.searchsorted(np.cumsum(sizes), values[block], side="right") + 1
    return RowAttribute(wanted.column, "integer", values)


def generated_filters(wanted: SyntheticSet, rows: int, queries: int) -> list[Filter]:
    """Make the filter of each query of a uniform, labels or tenants set."""
    column, numbers = wanted.column, np.arange(queries)
    if wanted.kind == "uniform":
        return [Filter((Predicate(column, "<", wanted.matches(rows)),))] * queries
    if wanted.kind == "tenants":
        sizes = tenant_sizes(int(wanted.number), rows)
        places = below(f"queries of {column}", numbers, rows)
        tenants = np.searchsorted(np.cumsum(sizes), places, side="right") + 1
        return [Filter((Predicate(column, "=", int(tenant)),)) for tenant in tenants]
    choices = _pairs(wanted) if wanted.kind == "labels2" else _single(wanted)
    chosen = below(f"queries of {wanted.name}", numbers, len(choices))
    possible = [Filter((Predicate(column, "contains", labels),)) for labels in choices]
    return [possible[number] for number in chosen]


def tenant_sizes(tenants: int, rows: int) -> np.ndarray:
    """Return the rows of each tenant, int64, largest first: one, and a share of the others as Zipf's law has.

    Tenant t of these others has a share that is proportional to 1 / t; what rounding leaves is tenant 1's.
    """
    weights = 1 / np.arange(1, tenants + 1)
    total = np.cumsum(weights)[-1]  # one after the other, as sums are not on every machine
    sizes = 1 + np.floor((rows - tenants) * (weights / total)).astype(np.int64)
    sizes[0] += rows - sizes.sum()
    return sizes


def _labels(rows: int) -> RowAttribute:
    """Give each row its labels, on average 4.5 of them.

    A row has at most one label of each octave, 2^j to 2^(j + 1) - 1, with the share of each that COMMONEST
    says; octaves are independent of one another.
    """
    octaves = range(LABELS.bit_length())
    values, counts = [], []
    for start in range(0, rows, _BLOCK):
        places = np.arange(start, min(start + _BLOCK, rows))
        table = np.zeros((len(places), len(octaves)), np.int32)
        for octave in octaves:
            first, last = 2**octave, min(2 ** (octave + 1) - 1, LABELS)
            ends = np.cumsum(float(COMMONEST) / np.arange(first, last + 1))
            number = np.searchsorted(ends, fractions(f"labels {octave}", places), side="right")
            table[:, octave] = np.where(number < len(ends), first + number, 0)
        values.append(table[table > 0])
        counts.append(np.count_nonzero(table, axis=1))
    return RowAttribute("labels", "labels", np.concatenate(values), np.cumsum(np.concatenate(counts)))


def _single(wanted: SyntheticSet) -> list[tuple[int, ...]]:
    """Return the labels that are near a selectivity: at least the nearest."""
    rank = COMMONEST / wanted.number
    near = [label for label in range(1, LABELS + 1) if abs(label - rank) <= TOLERANCE * rank]
    return [(label,) for label in near or [min(LABELS, round(rank))]]


def _pairs(wanted: SyntheticSet) -> list[tuple[int, ...]]:
    """Return pairs of labels of different octaves that are near a selectivity: at least the nearest."""
    product = COMMONEST**2 / wanted.number
    pairs: list[tuple[Decimal, tuple[int, ...]]] = []
    for one in range(1, LABELS + 1):
        other = min(max(round(product / one), one + 1), LABELS)
        if one.bit_length() != other.bit_length():
            pairs.append((abs(one * other - product), (one, other)))
        if one * one > product:
            break
    near = [pair for distance, pair in pairs if distance <= TOLERANCE * product]
    return near or [min(pairs)[1]]
