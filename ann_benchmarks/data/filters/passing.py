"""Whether given rows pass the filters of queries: for what has been answered, and to filter answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .attributes import RowAttribute, RowAttributes
from .filter import Filter

NO_ROW = -1

_COMPARE: dict[str, Any] = {
    "=": np.equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def passing(attributes: RowAttributes, filters: Sequence[Filter], rows: np.ndarray) -> np.ndarray:
    """Return whether each of some rows, (filters, n) int64, passes the filter of its line: (filters, n) bool.

    All filters have one shape. NO_ROW passes: where there is no row, none is wrong.
    """
    held = rows == NO_ROW
    if not len(filters) or not rows.shape[1]:
        return held
    asked = np.where(held, 0, rows)
    passed = np.ones(rows.shape, bool)
    for place, (column, operator) in enumerate(filters[0].shape):
        values = [one.predicates[place].value for one in filters]
        passed &= _hold(attributes[column], operator, values, asked)
    passed |= held
    return passed


def _hold(attribute: RowAttribute, operator: str, values: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """Return whether a predicate holds for each row, (n, k); `values` has one for each line."""
    if attribute.ends is not None:
        return _labels_hold(attribute, operator, values, rows)
    found = attribute.values[rows]
    if operator == "in":
        return np.array([np.isin(line, list(value)) for line, value in zip(found, values, strict=True)])
    given = np.array(values, dtype=object if found.dtype == object else None)
    return np.asarray(_COMPARE[operator](found, given[:, np.newaxis])).astype(bool)


def _labels_hold(
    attribute: RowAttribute, operator: str, values: Sequence[Any], rows: np.ndarray
) -> np.ndarray:
    """Return whether each row has all of its line's labels ("contains"), or any of them ("in")."""
    sets = [value if isinstance(value, tuple) else (value,) for value in values]
    most = max(map(len, sets))
    has_all, has_any = np.ones(rows.shape, bool), np.zeros(rows.shape, bool)
    for place in range(most):
        has_one = np.array([place < len(labels) for labels in sets])[:, np.newaxis]
        label = np.array([labels[place] if place < len(labels) else -1 for labels in sets])
        found = _has_label(attribute, rows, label[:, np.newaxis])
        has_all &= found | ~has_one
        has_any |= found & has_one
    return has_any if operator == "in" else has_all


def _has_label(attribute: RowAttribute, rows: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Search each row's labels, which ascend, for the label of its line: all rows at once, by halves."""
    assert attribute.ends is not None
    last = attribute.ends[rows]
    low, high = np.where(rows > 0, attribute.ends[rows - 1], 0), last
    while (low < high).any():
        middle = (low + high) // 2
        is_below = (low < high) & (attribute.values[np.minimum(middle, len(attribute.values) - 1)] < label)
        high = np.where(is_below, high, np.where(low < high, middle, high))
        low = np.where(is_below, middle + 1, low)
    if not len(attribute.values):
        return np.zeros(rows.shape, bool)
    found: np.ndarray = (low < last) & (attribute.values[np.minimum(low, len(attribute.values) - 1)] == label)
    return found
