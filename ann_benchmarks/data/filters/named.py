"""Names of filter sets: a kind and a number, the same wherever they are made; other names are one's own.

uniform:S   a range of a random column, S of the rows
near:S      a stretch of the rows, ordered so that near ones are close together, around the query
far:S       such a stretch elsewhere
labels:S    a label that about S of the rows have
labels2:S   two labels that about S of the rows have both
tenants:N   the query's tenant, of N tenants with sizes as Zipf's law has them
int:S       published with the dataset: rows whose id is among the largest, a share S of all
label:S     published with the dataset: rows with the label that about a share S of all have

S is the share of the rows that pass. VectorDBBench names an integer filter by the share that it removes:
its 99% is int:0.01. Its label filters have the share that passes, as here.

The columns of synthetic sets that do not depend on the vectors are made here, too. Their random numbers are
functions of a place: whole numbers alone make them, so that all machines agree. The mixing function is
splitmix64's (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014). The permutation is
a Feistel network (Luby and Rackoff, 1988), walked until it is back in range.
"""

import hashlib
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation

import numpy as np

from ann_benchmarks.common.errors import UserError, closest, shown

from .filter import Filter, RowAttribute, make_filters

SMALLEST = Decimal("0.0001")
FEWEST_TENANTS, MOST_TENANTS = 10, 10_000
# The column and the largest selectivity of each kind of synthetic set.
_SHARES = {
    "uniform": ("uniform", Decimal(1)),
    "near": ("place", Decimal("0.5")),
    "far": ("place", Decimal("0.5")),
    "labels": ("labels", Decimal("0.5")),
    "labels2": ("labels", Decimal("0.125")),
}
SYNTHETIC_KINDS = (*_SHARES, "tenants")
PUBLISHED_KINDS = ("int", "label")
KINDS_WITH_NUMBERS = (*SYNTHETIC_KINDS, *PUBLISHED_KINDS)
# Columns of synthetic and of published filter sets.
RESERVED_COLUMNS = r"uniform|place|labels|tenant_of_\d+|place of queries|published_\w+"
LABELS = 5000  # the rarest is on 1 row of 10,000
COMMONEST = Decimal("0.5")  # the share of the rows that have label 1; label r is on a share of COMMONEST / r
TOLERANCE = Decimal("0.1")  # how far a filter may be from the selectivity that was requested, where it must
_BLOCK = 2**20  # rows made at once
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ROUNDS = 6


@dataclass(frozen=True)
class NumberedSet:
    """A kind of KINDS_WITH_NUMBERS, and its selectivity or number of tenants."""

    kind: str
    number: Decimal

    @property
    def name(self) -> str:
        """The name, which is the same however the number was written."""
        return f"{self.kind}:{self.number:f}"


class SyntheticSet(NumberedSet):
    """One of SYNTHETIC_KINDS."""

    @property
    def column(self) -> str:
        """The attribute that it is about; sets of one column can share a table."""
        return f"tenant_of_{self.number:f}" if self.kind == "tenants" else _SHARES[self.kind][0]

    def matches(self, rows: int) -> int:
        """Return how many of `rows` rows are to pass; UserError where that is less than one."""
        if self.kind == "tenants":
            if self.number > rows:
                raise UserError(f"'{self.name}' has more tenants than the {rows:,} rows; use fewer")
            return rows // int(self.number)
        if self.number * rows < 1:
            least = (1 / (rows * SMALLEST)).to_integral_value(ROUND_CEILING) * SMALLEST
            raise UserError(
                f"'{self.name}' would let less than one of the {rows:,} rows pass; use"
                f" {self.kind}:{least:f} or more"
            )
        return round(self.number * rows)


class PublishedShare(NumberedSet):
    """One of PUBLISHED_KINDS."""

    def written_in(self, text: str) -> str:
        """Return an address, or a label, with the percentages that pass and that do not: 0.5 and 99.5."""
        passing, removed = (
            f"{(100 * share).normalize():f}" for share in (self.number, 1 - self.number)
        )  # fmt: skip
        return text.replace("{passing}", passing).replace("{removed}", removed)

    def first_id(self, rows: int) -> int:
        """Return the smallest id that passes an integer filter, of ids from 0 to rows - 1."""
        return int(rows * (1 - self.number))


def synthetic_set(name: str) -> SyntheticSet | None:
    """Read the name of a synthetic set, None for any other; UserError for a number out of range."""
    kind, colon, text = name.partition(":")
    if not colon or kind not in SYNTHETIC_KINDS:
        return None
    number = _read_number(text)
    if kind == "tenants":
        if number is None or number != int(number) or not FEWEST_TENANTS <= number <= MOST_TENANTS:
            raise UserError(
                f"'{shown(name)}' needs a number of tenants from {FEWEST_TENANTS} to {MOST_TENANTS:,}:"
                " tenants:100"
            )
        return SyntheticSet(kind, Decimal(int(number)))
    most = _SHARES[kind][1]
    if number is None or not SMALLEST <= number <= most:
        raise UserError(f"'{shown(name)}' needs a share of the rows from {SMALLEST} to {most}: {kind}:0.01")
    return SyntheticSet(kind, number.normalize())


def published_share(name: str) -> PublishedShare | None:
    """Read the name of a published set with a number, None for any other; UserError for a bad number."""
    kind, colon, text = name.partition(":")
    if not colon or kind not in PUBLISHED_KINDS:
        return None
    share = _read_number(text)
    if share is None or not 0 < share < 1:
        raise UserError(f"'{shown(name)}' needs the share of the rows that passes: {kind}:0.01")
    return PublishedShare(kind, share.normalize())


def canonical_filter(name: str) -> str:
    """Return the one name that a filter set has, however its number is written.

    UserError for an unknown kind, and for a number out of range.
    """
    found = synthetic_set(name) or published_share(name)
    if found is not None:
        return found.name
    kind, colon, _ = name.partition(":")
    if colon:
        raise UserError(
            f"unknown kind of filter '{shown(kind)}' ('{shown(name)}'); {closest(kind, KINDS_WITH_NUMBERS)}"
        )
    return name


def _read_number(text: str) -> Decimal | None:
    """Read the number in the name of a filter set; None for any other text."""
    try:
        return Decimal(text) if re.fullmatch(r"[0-9.]{1,20}(e-?[0-9])?", text) else None
    except InvalidOperation:
        return None


def generated_column(wanted: SyntheticSet, rows: int) -> RowAttribute:
    """Make the column of a uniform, labels or tenants set."""
    if wanted.column == "labels":
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
        return make_filters([(column, "<")], [(wanted.matches(rows),)] * queries)
    if wanted.kind == "tenants":
        sizes = tenant_sizes(int(wanted.number), rows)
        places = below(f"queries of {column}", numbers, rows)
        tenants = np.searchsorted(np.cumsum(sizes), places, side="right") + 1
        return make_filters([(column, "=")], [(tenant,) for tenant in tenants.tolist()])
    choices = _pairs(wanted) if wanted.kind == "labels2" else _single(wanted)
    chosen = below(f"queries of {wanted.name}", numbers, len(choices))
    return make_filters([(column, "contains")], [(choices[number],) for number in chosen])


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


def mixed(stream: str, places: np.ndarray) -> np.ndarray:
    """Return a random uint64 for each place, a whole number from 0, of the stream of this name."""
    seed = int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")
    bits = places.astype(np.uint64) * np.uint64(_STEP) + np.uint64(seed)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND)
    return bits ^ (bits >> np.uint64(31))


def fractions(stream: str, places: np.ndarray) -> np.ndarray:
    """Return a random float64 from 0 to below 1 for each place."""
    return (mixed(stream, places) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(stream: str, places: np.ndarray, size: int) -> np.ndarray:
    """Return a random int64 from 0 to `size` - 1 for each place."""
    return np.minimum((fractions(stream, places) * size).astype(np.int64), size - 1)


def permuted(stream: str, places: np.ndarray, size: int) -> np.ndarray:
    """Return where a random permutation of 0 to `size` - 1 takes each place, int64."""
    half = max(1, -(-max(size - 1, 1).bit_length() // 2))
    found = _network(stream, places.astype(np.uint64), half)
    outside = np.flatnonzero(found >= size)
    while len(outside):
        found[outside] = _network(stream, found[outside], half)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(stream: str, places: np.ndarray, half: int) -> np.ndarray:
    """Permute the numbers of 2 `half` bits."""
    width, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = places >> width, places & mask
    for number in range(_ROUNDS):
        left, right = right, left ^ (mixed(f"{stream} {number}", right) & mask)
    return (left << width) | right
