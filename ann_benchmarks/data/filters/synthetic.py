"""Filter sets that every dataset can have: named by kind and number, the same wherever they are made.

uniform:S   a range of a random column, S of the rows
near:S      a stretch of the rows ordered by k-means that the query itself would be in
far:S       such a stretch elsewhere
labels:S    a label that about S of the rows have
labels2:S   two labels that about S of the rows have both
tenants:N   the query's tenant, of N tenants with sizes as Zipf's law has them
"""

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation

from ann_benchmarks.common.errors import UserError, shown

SMALLEST, LARGEST = Decimal("0.0001"), Decimal("0.5")
FEWEST_TENANTS, MOST_TENANTS = 10, 10_000
# The largest selectivity of each kind.
_LARGEST = {
    "uniform": Decimal(1),
    "near": LARGEST,
    "far": LARGEST,
    "labels": LARGEST,
    "labels2": Decimal("0.125"),
}
SYNTHETIC_KINDS = (*_LARGEST, "tenants")


@dataclass(frozen=True)
class SyntheticSet:
    """A kind of SYNTHETIC_KINDS, and its selectivity or number of tenants."""

    kind: str
    number: Decimal

    @property
    def name(self) -> str:
        """The name, which is the same however the number was written."""
        return f"{self.kind}:{self.number:f}"

    @property
    def column(self) -> str:
        """The attribute that it is about; sets of one column can share a table."""
        if self.kind == "tenants":
            return f"tenant_of_{self.number:f}"
        return {"near": "place", "far": "place", "labels2": "labels"}.get(self.kind, self.kind)

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


def synthetic_set(name: str) -> SyntheticSet | None:
    """Read the name of a synthetic set; None if it is not one. UserError for a number out of range."""
    kind, colon, text = name.partition(":")
    if not colon or kind not in SYNTHETIC_KINDS:
        return None
    number = read_number(text)
    if kind == "tenants":
        if number is None or number != int(number) or not FEWEST_TENANTS <= number <= MOST_TENANTS:
            raise UserError(
                f"'{shown(name)}' needs a number of tenants from {FEWEST_TENANTS} to {MOST_TENANTS:,}:"
                " tenants:100"
            )
        return SyntheticSet(kind, Decimal(int(number)))
    if number is None or not SMALLEST <= number <= _LARGEST[kind]:
        raise UserError(
            f"'{shown(name)}' needs a share of the rows from {SMALLEST} to {_LARGEST[kind]}: {kind}:0.01"
        )
    return SyntheticSet(kind, number.normalize())


def read_number(text: str) -> Decimal | None:
    """Read the number in the name of a filter set; None if it is none."""
    try:
        return Decimal(text) if re.fullmatch(r"[0-9.]{1,20}(e-?[0-9])?", text) else None
    except InvalidOperation:
        return None
