"""Which rows pass a filter: all rows, span by span, or given rows, such as those of an answer."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .filter import RANGES, Filter, Predicate, RowAttribute, RowAttributes

SORTED_AFTER = 8  # lookups in a span of a column: then sorting it pays
NO_ROW = -1
_NUMBERS = np.iinfo(np.int64)
_COMPARE = dict(zip(RANGES, (operator.eq, operator.lt, operator.le, operator.gt, operator.ge), strict=True))


class Matcher:
    """Finds the rows that pass a filter, span by span.

    The last span of each column is kept sorted once it has been looked up a few times, so that a thousand
    filters on one column cost little more than one. Memory: 16 bytes for a value of such a span. Spans should
    be requested one after the other, each with all its filters. Not for several threads.
    """

    def __init__(self, attributes: RowAttributes) -> None:
        self._attributes = attributes
        self._columns: dict[str, _Values | _Labels] = {}
        self._span = range(0)

    def rows(self, filter: Filter, span: range) -> np.ndarray:
        """Return the numbers of the rows of a span that pass, ascending int64."""
        if span != self._span:
            self._columns, self._span = {}, span
        by_column: dict[str, list[Predicate]] = {}
        for predicate in filter.predicates:
            by_column.setdefault(predicate.column, []).append(predicate)
        return span.start + _common([self._column(name).passing(by_column[name]) for name in by_column])

    def _column(self, name: str) -> "_Values | _Labels":
        """Return a column's span; its `passing` gives the places, ascending, where all predicates hold."""
        if name not in self._columns:
            kind = _Labels if self._attributes[name].kind == "labels" else _Values
            self._columns[name] = kind(self._attributes[name], self._span)
        return self._columns[name]


class _Values:
    """One value a row: numbers, or text, for which its place among all texts of the span stands."""

    def __init__(self, attribute: RowAttribute, span: range) -> None:
        self._values: np.ndarray = attribute.values[span.start : span.stop]
        self._texts: np.ndarray | None = None
        if attribute.kind == "text":
            self._texts, self._values = np.unique(self._values, return_inverse=True)
        self._lookups = 0
        self._order: np.ndarray | None = None
        self._sorted: np.ndarray | None = None

    def passing(self, predicates: list[Predicate]) -> np.ndarray:
        self._lookups += 1
        ranges = [predicate for predicate in predicates if predicate.operator in RANGES]
        others = [predicate for predicate in predicates if predicate.operator not in RANGES]
        lowest, highest = self._bounds(ranges)
        if lowest > _NUMBERS.max or highest < _NUMBERS.min:
            return np.empty(0, np.int64)  # a bound beyond int64 would be compared as float64, which rounds it
        if self._lookups > SORTED_AFTER:
            rows = self._find_between(lowest, highest)
        else:
            rows = np.flatnonzero((self._values >= lowest) & (self._values <= highest))
        for predicate in others:
            spans = [self._numbers(value) for value in predicate.value]
            rows = rows[np.isin(self._values[rows], [first for first, last in spans if first == last])]
        return rows

    def _bounds(self, ranges: list[Predicate]) -> tuple[int, int]:
        """Return the lowest and the highest number that passes."""
        lowest, highest = [int(_NUMBERS.min)], [int(_NUMBERS.max)]
        for predicate in ranges:
            # A text's number is its place among the texts: one that is absent lies between two of them.
            low, high = self._numbers(predicate.value)
            if predicate.operator in ("=", ">=", ">"):
                lowest.append(high + 1 if predicate.operator == ">" else low)
            if predicate.operator in ("=", "<=", "<"):
                highest.append(low - 1 if predicate.operator == "<" else high)
        return max(lowest), min(highest)

    def _numbers(self, value: Any) -> tuple[int, int]:
        """Return the first and the last number that stands for a value; first > last where none does."""
        if self._texts is None:
            return int(value), int(value)
        first = int(np.searchsorted(self._texts, value, "left"))
        return first, int(np.searchsorted(self._texts, value, "right")) - 1

    def _find_between(self, lowest: int, highest: int) -> np.ndarray:
        if self._sorted is None or self._order is None:
            self._order = np.argsort(self._values, kind="stable")
            self._sorted = np.asarray(self._values)[self._order]
        start = int(np.searchsorted(self._sorted, lowest, "left"))
        stop = int(np.searchsorted(self._sorted, highest, "right"))
        return np.sort(self._order[start : max(start, stop)])


class _Labels:
    """Rows in lists by label."""

    def __init__(self, attribute: RowAttribute, span: range) -> None:
        assert attribute.ends is not None
        first = int(attribute.ends[span.start - 1]) if span.start else 0
        ends = attribute.ends[span.start : span.stop] - first
        values = attribute.values[first : first + int(ends[-1])] if len(ends) else attribute.values[:0]
        if len(values) and values.min() >= 0 and values.max() < 2**16:
            values = values.astype(np.uint16)  # NumPy sorts these in linear time
        order = np.argsort(values, kind="stable")
        self._labels, self._starts = np.unique(np.asarray(values)[order], return_index=True)
        self._starts = np.append(self._starts, len(values))
        self._rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))[order]

    def passing(self, predicates: list[Predicate]) -> np.ndarray:
        found: list[np.ndarray] = []
        for predicate in predicates:
            lists = [self._labelled(label) for label in predicate.value]
            found += [np.unique(np.concatenate(lists))] if predicate.operator == "in" else lists
        return _common(found)

    def _labelled(self, label: int) -> np.ndarray:
        """Return the rows that have a label, ascending."""
        at = int(np.searchsorted(self._labels, label))
        if at == len(self._labels) or self._labels[at] != label:
            return self._rows[:0]
        rows: np.ndarray = self._rows[self._starts[at] : self._starts[at + 1]]
        return rows


def _common(lists: list[np.ndarray]) -> np.ndarray:
    """Return what all of some ascending arrays have."""
    found, *others = sorted(lists, key=len)
    for rows in others:
        found = np.intersect1d(found, rows, assume_unique=True)
    return found


def passing(attributes: RowAttributes, filters: Sequence[Filter], rows: np.ndarray) -> np.ndarray:
    """Return whether each of some rows, (filters, n) int64, passes the filter of its line: (filters, n) bool.

    All filters have one shape. NO_ROW passes: a missing row is not a wrong one.
    """
    held = rows == NO_ROW
    if not len(filters) or not rows.shape[1]:
        return held
    asked = np.where(held, 0, rows)
    passed = np.ones(rows.shape, bool)
    for place, (column, comparison) in enumerate(filters[0].shape):
        values = [one.predicates[place].value for one in filters]
        passed &= _hold(attributes[column], comparison, values, asked)
    passed |= held
    return passed


def _hold(attribute: RowAttribute, comparison: str, values: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """Return whether a predicate holds for each row, (n, k); `values` has one for each line."""
    if attribute.ends is not None:
        return _labels_hold(attribute, comparison, values, rows)
    found = attribute.values[rows]
    if comparison == "in":
        return np.array([np.isin(line, list(value)) for line, value in zip(found, values, strict=True)])
    given = np.array(values, dtype=object if found.dtype == object else None)
    return np.asarray(_COMPARE[comparison](found, given[:, np.newaxis])).astype(bool)


def _labels_hold(
    attribute: RowAttribute, comparison: str, values: Sequence[Any], rows: np.ndarray
) -> np.ndarray:
    """Return whether each row has all of its line's labels ("contains"), or any of them ("in")."""
    assert attribute.ends is not None
    distinct, places = np.unique(rows, return_inverse=True)
    ends, starts = attribute.ends[distinct], np.where(distinct > 0, attribute.ends[distinct - 1], 0)
    labels = [set(attribute.values[first:last].tolist()) for first, last in zip(starts, ends, strict=True)]
    holds = set.issuperset if comparison == "contains" else _overlap
    return np.array(
        [
            [holds(labels[place], requested) for place in line]
            for requested, line in zip(values, places.reshape(rows.shape), strict=True)
        ]
    )


def _overlap(labels: set[int], requested: tuple[int, ...]) -> bool:
    return not labels.isdisjoint(requested)
