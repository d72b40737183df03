"""A filter set: one filter a query, all of one shape."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .filter import Filter


@dataclass(frozen=True, eq=False)
class FilterSet:
    """`filters` has that of each query, in their order; equal ones are one object.

    `matches`, (queries,) int64, is how many training rows pass each. `attributes` names the columns that they
    are about.
    """

    name: str
    filters: Sequence[Filter]
    matches: np.ndarray
    rows: int

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the columns, each once, in the order of the shape."""
        return columns_of(self.filters)

    @property
    def matches_by_filter(self) -> dict[Filter, int]:
        """The distinct filters, each with the number of rows that pass it."""
        return dict(zip(self.filters, self.matches.tolist(), strict=True))

    @property
    def selectivity(self) -> float:
        """The mean share of the training rows that pass."""
        return float(np.mean(self.matches)) / self.rows


def columns_of(filters: Sequence[Filter]) -> tuple[str, ...]:
    """Names of the columns that filters of one shape are about, each once."""
    return tuple(dict.fromkeys(column for column, _ in filters[0].shape))
