"""Filters as values, and the attributes that they are about: named columns beside the vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("integer", "text", "timestamp", "labels")
RANGES = ("=", "<", "<=", ">", ">=")
OPERATORS = (*RANGES, "in", "contains")


@dataclass(frozen=True)
class Predicate:
    """One comparison: `column` is an attribute's name, `operator` one of OPERATORS.

    `value` is an int or a str as the attribute's kind has it (microseconds since 1970 UTC for timestamps). It
    is a tuple of such for "in", any of which a row has, and for "contains", labels that a row must all have.
    """

    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Filter:
    """The predicates that all hold for a row that passes; hashable, so that equal filters can be grouped."""

    predicates: tuple[Predicate, ...]

    @property
    def shape(self) -> tuple[tuple[str, str], ...]:
        """Columns and operators, which all filters of a set share: one prepared statement serves them."""
        return tuple((predicate.column, predicate.operator) for predicate in self.predicates)

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each predicate, in the order of the shape."""
        return tuple(predicate.value for predicate in self.predicates)


def make_filters(shape: Sequence[tuple[str, str]], values: Sequence[tuple[Any, ...]]) -> list[Filter]:
    """Return a filter of these columns and operators for each line of values; equal ones are one object."""
    made: dict[tuple[Any, ...], Filter] = {}
    for line in values:
        if line not in made:
            pairs = zip(shape, line, strict=True)
            made[line] = Filter(tuple(Predicate(*column, value) for column, value in pairs))
    return [made[line] for line in values]


@dataclass(frozen=True, eq=False)
class FilteredVector:
    """A query as a plug-in gets it that takes filters: `vector` is what it gets of a query without one."""

    vector: Any
    filter: Filter


@dataclass(frozen=True, eq=False)
class FilterSet:
    """One filter a query, in the queries' order and all of one shape; equal ones are one object.

    `matches`, (queries,) int64, is how many training rows pass each.
    """

    name: str
    filters: Sequence[Filter]
    matches: np.ndarray
    rows: int

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the columns that the filters are about, each once, in the order of the shape."""
        return tuple(dict.fromkeys(column for column, _ in self.filters[0].shape))

    @property
    def matches_by_filter(self) -> dict[Filter, int]:
        """The distinct filters, each with the number of rows that pass it."""
        return dict(zip(self.filters, self.matches.tolist(), strict=True))

    @property
    def selectivity(self) -> float:
        """The mean share of the training rows that pass."""
        return float(np.mean(self.matches)) / self.rows


@dataclass(frozen=True, eq=False)
class RowAttribute:
    """One attribute of all rows, in their order; `kind` is one of KINDS.

    `values` is (rows,): int64 for integers, and for timestamps in microseconds since 1970 UTC; an array of
    str objects for text. For labels it has all rows' labels one after the other, int32, ascending in each
    row, and row i has those from ends[i - 1] (0 for the first) up to ends[i], int64.
    """

    name: str
    kind: str
    values: np.ndarray
    ends: np.ndarray | None = None  # of labels

    def __len__(self) -> int:
        return len(self.values if self.ends is None else self.ends)

    def block(self, start: int, stop: int) -> Sequence[Any] | np.ndarray:
        """Return the values of rows start to stop: an array, or for labels a list of int32 arrays."""
        if self.ends is None:
            return self.values[start:stop]
        first = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:stop]
        last = int(ends[-1]) if len(ends) else first
        return np.split(self.values[first:last], ends[:-1] - first) if len(ends) else []

    def drop_rows(self, removed: np.ndarray) -> "RowAttribute":
        """Return the attribute without some rows: those held out as queries."""
        if self.ends is None:
            return RowAttribute(self.name, self.kind, np.delete(self.values, removed))
        counts = np.diff(self.ends, prepend=0)
        keeps = np.ones(len(counts), bool)
        keeps[removed] = False
        values = self.values[np.repeat(keeps, counts)]
        return RowAttribute(self.name, self.kind, values, np.cumsum(counts[keeps]))


@dataclass(frozen=True, eq=False)
class RowAttributes(Mapping[str, RowAttribute]):
    """Attributes by name, all of `rows` rows; `mark` tells their names and values from others."""

    attributes: Mapping[str, RowAttribute]
    rows: int
    mark: str

    def __getitem__(self, name: str) -> RowAttribute:
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)
