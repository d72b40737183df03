"""Which rows pass a filter."""

from typing import Any

import numpy as np

from .attributes import RowAttribute, RowAttributes
from .filter import Filter, Predicate

SORTED_AFTER = 8  # lookups in a span of a column: then sorting it pays
_RANGES = ("=", "<", "<=", ">", ">=")
_NUMBERS = np.iinfo(np.int64)


class Matcher:
    """Finds the rows that pass a filter, span by span.

    The last span of each column is kept sorted once it has been looked up a few times, so that a thousand
    filters on one column cost little more than one. Memory: 16 bytes for a value of such a span. Spans should
    be requested one after the other, each with all its filters. Not for several threads.
    """

    def __init__(self, attributes: RowAttributes) -> None:
        self._attributes = attributes
        self._columns: dict[str, _Column] = {}
        self._span = range(0)

    def rows(self, filter: Filter, span: range) -> np.ndarray:
        """Return the numbers of the rows of a span that pass, ascending int64."""
        if span != self._span:
            self._columns, self._span = {}, span
        found: np.ndarray | None = None
        by_column: dict[str, list[Predicate]] = {}
        for predicate in filter.predicates:
            by_column.setdefault(predicate.column, []).append(predicate)
        for name, predicates in by_column.items():
            column = self._columns.get(name)
            if column is None:
                kind = _Labels if self._attributes[name].kind == "labels" else _Values
                column = self._columns[name] = kind(self._attributes[name], span)
            passing = column.passing(predicates)
            found = passing if found is None else np.intersect1d(found, passing, assume_unique=True)
        assert found is not None
        return found + span.start


class _Column:
    """A span of an attribute."""

    def passing(self, predicates: list[Predicate]) -> np.ndarray:
        """Return the places in the span, ascending int64, of rows for which all predicates hold."""
        raise NotImplementedError


class _Values(_Column):
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
        ranges = [predicate for predicate in predicates if predicate.operator in _RANGES]
        others = [predicate for predicate in predicates if predicate.operator not in _RANGES]
        lowest, highest = self._bounds(ranges)
        if self._lookups > SORTED_AFTER:
            rows = self._between(lowest, highest)
        else:
            rows = np.flatnonzero(self._mask(lowest, highest))
        for predicate in others:
            wanted = [self._code(value) for value in predicate.value]
            rows = rows[np.isin(self._values[rows], [code for code in wanted if code is not None])]
        return rows

    def _bounds(self, ranges: list[Predicate]) -> tuple[int | None, int | None]:
        """Return the lowest and the highest number that passes; None where there is no bound."""
        lowest: int | None = None
        highest: int | None = None
        for predicate in ranges:
            # A text's number is its place among the texts: one that is absent lies between two of them.
            low, high = self._numbers(predicate.value)
            if predicate.operator in ("=", ">=", ">"):
                least = high + 1 if predicate.operator == ">" else low
                lowest = least if lowest is None else max(lowest, least)
            if predicate.operator in ("=", "<=", "<"):
                most = low - 1 if predicate.operator == "<" else high
                highest = most if highest is None else min(highest, most)
        return lowest, highest

    def _numbers(self, value: Any) -> tuple[int, int]:
        """Return the first and the last number that stands for a value; first > last where none does."""
        if self._texts is None:
            return int(value), int(value)
        first = int(np.searchsorted(self._texts, value, "left"))
        return first, int(np.searchsorted(self._texts, value, "right")) - 1

    def _code(self, value: Any) -> int | None:
        first, last = self._numbers(value)
        return first if first == last else None

    def _mask(self, lowest: int | None, highest: int | None) -> np.ndarray:
        mask = np.ones(len(self._values), bool)
        if lowest is not None:
            mask &= self._values >= lowest
        if highest is not None:
            mask &= self._values <= highest
        return mask

    def _between(self, lowest: int | None, highest: int | None) -> np.ndarray:
        if (lowest or 0) > _NUMBERS.max or (highest or 0) < _NUMBERS.min:
            return np.empty(0, np.int64)  # a bound beyond int64 would be compared as float64, which rounds it
        if self._sorted is None or self._order is None:
            self._order = np.argsort(self._values, kind="stable")
            self._sorted = np.asarray(self._values)[self._order]
        start = 0 if lowest is None else int(np.searchsorted(self._sorted, lowest, "left"))
        stop = len(self._sorted) if highest is None else int(np.searchsorted(self._sorted, highest, "right"))
        return np.sort(self._order[start : max(start, stop)])


class _Labels(_Column):
    """Rows in lists by label."""

    def __init__(self, attribute: RowAttribute, span: range) -> None:
        assert attribute.ends is not None
        first = int(attribute.ends[span.start - 1]) if span.start else 0
        ends = attribute.ends[span.start : span.stop] - first
        values = attribute.values[first : first + int(ends[-1])] if len(ends) else attribute.values[:0]
        if len(values) and values.min() >= 0 and values.max() < 2**16:
            values = values.astype(np.uint16)  # which NumPy sorts in linear time
        order = np.argsort(values, kind="stable")
        self._labels, self._starts = np.unique(np.asarray(values)[order], return_index=True)
        self._starts = np.append(self._starts, len(values))
        self._rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))[order]

    def passing(self, predicates: list[Predicate]) -> np.ndarray:
        found: np.ndarray | None = None
        for predicate in predicates:
            lists = [self._with(label) for label in predicate.value]
            if predicate.operator == "in":
                lists = [np.unique(np.concatenate(lists))]
            for rows in sorted(lists, key=len):
                found = rows if found is None else np.intersect1d(found, rows, assume_unique=True)
        assert found is not None
        return found

    def _with(self, label: int) -> np.ndarray:
        """Return the rows that have a label, ascending."""
        at = int(np.searchsorted(self._labels, label))
        if at == len(self._labels) or self._labels[at] != label:
            return self._rows[:0]
        rows: np.ndarray = self._rows[self._starts[at] : self._starts[at + 1]]
        return rows
