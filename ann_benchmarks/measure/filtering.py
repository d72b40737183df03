"""Queries with filters: answers that are filtered afterwards, and whether all that are given pass."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import Filter, FilteredVector, RowAttributes, passing
from ann_benchmarks.plugin import Plugin


@dataclass(frozen=True, eq=False)
class PostFilter:
    """A query without its filter, for `factor` times as many rows; those that pass are the answer."""

    query: Callable[[Any, int], Any]
    attributes: RowAttributes
    factor: float

    def __call__(self, query: FilteredVector, count: int) -> np.ndarray:
        """Return up to `count` rows that pass, in the order in which the plug-in gives them."""
        requested = min(math.ceil(self.factor * count), self.attributes.rows)
        rows = np.asarray(self.query(query.vector, requested), dtype=np.int64)
        if rows.size and not -1 <= rows.min() <= rows.max() < self.attributes.rows:
            return rows  # which the check of answers says
        rows = rows[rows >= 0]
        return rows[passing(self.attributes, [query.filter], rows[np.newaxis])[0]][:count]


def filter_afterwards(plugin: Plugin, attributes: RowAttributes, factor: float) -> None:
    """Have the framework filter what a plug-in answers, in the part that is timed."""
    plugin.go_through(PostFilter(plugin.query, attributes, factor))


def check_clients_of(plugin: Plugin) -> None:
    """Raise UserError where clients of the plug-in's own send the queries: nothing filters their answers."""
    if plugin.has("open_clients"):
        raise UserError(
            f"--post-filter filters what query returns, and {plugin.class_name} has clients of its own: leave"
            " --clients or --post-filter out"
        )


class AnswerCheck:
    """Sees that rows pass the filters of the queries that they were returned to."""

    def __init__(self, attributes: RowAttributes, filters: Sequence[Filter]) -> None:
        """Take the attributes of all rows, and the filter of each query."""
        self._attributes, self._filters = attributes, filters

    def __call__(self, neighbors: np.ndarray) -> None:
        """Raise UserError, which names the query, where a row of (queries, n) does not pass; -1 is none."""
        passed = passing(self._attributes, self._filters, neighbors)
        if passed.all():
            return
        query, place = np.argwhere(~passed)[0]
        raise UserError(
            f"query {query} was answered with row {neighbors[query, place]}, which does not pass its filter"
            f" {self._filters[query]}"
        )
