"""A requested workload: what is written, by how many writers, and the queries meanwhile."""

import math
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import MOST_AMOUNT, read_number

from .request import Load

KINDS = ("insert", "update", "delete")  # by their numbers
LOADED = 0.8  # share of the rows that are there at first, where there are writes beside queries
LEARNED_FROM = 0.1  # share of the rows that an index is built from if it needs some
SECONDS = {"inserts": 900.0, "writes": 300.0}  # by default
WRITERS = {"inserts": 1, "writes": 4}


@dataclass(frozen=True)
class Mix:
    """Shares of inserts, updates and deletes, in that order, in %."""

    shares: tuple[float, ...] = (50.0, 25.0, 25.0)

    @classmethod
    def parse(cls, text: str) -> "Mix":
        """Read such as "insert:50,update:25,delete:25"; what is not named does not occur."""
        shares = dict.fromkeys(KINDS, 0.0)
        for part in text.split(","):
            kind, _, number = part.partition(":")
            share = read_number(number)
            if kind not in KINDS or share is None or not 0 <= share <= MOST_AMOUNT:
                raise UserError(f"'{shown(text)}' is not a mix: give such as insert:50,update:25,delete:25")
            shares[kind] = share
        if not any(shares.values()):
            raise UserError(f"'{shown(text)}' writes nothing: give such as insert:50,update:25,delete:25")
        return cls(tuple(100 * share / sum(shares.values()) for share in shares.values()))

    def share(self, kind: str) -> float:
        """Return the share of one kind, from 0 to 1."""
        return self.shares[KINDS.index(kind)] / 100

    def __str__(self) -> str:
        return "-".join(f"{share:.4g}" for share in self.shares)


@dataclass(frozen=True)
class Workload:
    """Inserts as fast as they go ("inserts"), or writes at a rate beside queries ("writes")."""

    kind: str
    writers: int
    seconds: float
    loaded: float | None = None  # share of the rows that are there at first; None: as kind and index want it
    load: Load | None = None  # of those who ask
    rate: float | None = None  # writes a second
    mix: Mix = Mix()

    @property
    def series(self) -> dict[str, Any]:
        """The fields of the series that its records belong to."""
        return {
            **(self.load.series if self.load else {}),
            "workload": self.kind,
            "writers": self.writers,
            "write_rate": self.rate,
            "write_mix": "" if self.rate is None else str(self.mix),
            "loaded": self.loaded,
        }

    def __str__(self) -> str:
        text = f"{self.kind} by {self.writers} writer{'s' * (self.writers > 1)}"
        if self.rate is not None:
            text += f" at {self.rate:.12g}/s"
        return text + (f" beside queries {self.load}" if self.load else "")

    @property
    def clients(self) -> int:
        """How many clients ask all the time."""
        return self.load.clients if self.load else 0

    @property
    def facts(self) -> dict[str, Any]:
        """What is stored of it: all that was requested."""
        facts: dict[str, Any] = {"asked_duration": self.seconds}
        if self.load is not None:
            facts |= {"query_order": str(self.load.order), "distinct_queries": self.load.distinct}
            facts |= {f"{kind}_share": self.mix.share(kind) for kind in KINDS}
        return facts

    def rows_loaded(self, rows: int, learns_from_rows: bool) -> int:
        """How many of a dataset's rows are there before anything is written."""
        share = self.loaded
        if share is None:
            share = LOADED if self.kind == "writes" else LEARNED_FROM if learns_from_rows else 0.0
        if share == 0 and learns_from_rows:
            raise UserError("this index is made of rows that it has to see: give --loaded above 0")
        return math.ceil(share * rows)
