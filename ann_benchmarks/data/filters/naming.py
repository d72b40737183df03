"""Names of filter sets: a kind and a number, the same wherever they are made; other names are one's own.

uniform:S   a range of a random column, S of the rows
near:S      a stretch of the rows ordered by k-means that the query itself would be in
far:S       such a stretch elsewhere
labels:S    a label that about S of the rows have
labels2:S   two labels that about S of the rows have both
tenants:N   the query's tenant, of N tenants with sizes as Zipf's law has them
int:S       published with the dataset: rows whose id is among the largest, a share S of all
label:S     published with the dataset: rows with the label that about a share S of all have

S is the share of the rows that pass. VectorDBBench names an integer filter by the share that it removes:
its 99% is int:0.01. Its label filters have the share that passes, as here.
"""

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation

from ann_benchmarks.common.errors import UserError, closest, shown

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
