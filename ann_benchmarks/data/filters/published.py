"""Filter sets that others have published with a dataset: how their names are read.

int:S     rows whose id is among the largest, a share S of all
label:S   rows with the label that about a share S of all have
tags      the tags of each query; a name without a number is that of one set

S is the share of the rows that pass. VectorDBBench names an integer filter by the share that it removes:
its 99% is int:0.01. Its label filters have the share that passes, as here.
"""

from dataclasses import dataclass
from decimal import Decimal

from ann_benchmarks.common.errors import UserError, shown

from .synthetic import read_number

PUBLISHED_KINDS = ("int", "label")
PUBLISHED_COLUMNS = r"published_\w+"  # names of their attributes


@dataclass(frozen=True)
class PublishedShare:
    """One of PUBLISHED_KINDS, and the share of the rows that passes."""

    kind: str
    share: Decimal

    @property
    def name(self) -> str:
        """The name, which is the same however the number was written."""
        return f"{self.kind}:{self.share:f}"

    @property
    def passing(self) -> str:
        """The percentage that passes, as it is written in names of files: 1, 0.5."""
        return _percentage(self.share)

    @property
    def removed(self) -> str:
        """The percentage that does not pass: 99, 99.5."""
        return _percentage(1 - self.share)

    def first_id(self, rows: int) -> int:
        """Return the smallest id that passes an integer filter, of ids from 0 to rows - 1."""
        return int(rows * (1 - self.share))


def published_share(name: str) -> PublishedShare | None:
    """Read the name of a published set with a number; None if it is none. UserError for a bad number."""
    kind, _, text = name.partition(":")
    if kind not in PUBLISHED_KINDS or ":" not in name:
        return None
    share = read_number(text)
    if share is None or not 0 < share < 1:
        raise UserError(f"'{shown(name)}' needs the share of the rows that passes: {kind}:0.01")
    return PublishedShare(kind, share.normalize())


def _percentage(share: Decimal) -> str:
    return f"{(100 * share).normalize():f}"
