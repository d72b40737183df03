"""A table's vectors divided among several indexes. Each index serves some of the filters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arguments import one_of, whole_number
from ..errors import PostgresError
from ..table import ColumnKind, NamedAttribute, NamedAttributes, partition_name
from ..table.conditions import ColumnCondition, SharedShape, conditions_of

NONE = "none"  # of what can be chosen: nothing of it
_SPAN_ROWS = 1 << 20


@dataclass(frozen=True)
class FilteredRows:
    """The rows of a table as filters see them, before it is there."""

    attributes: NamedAttributes
    kinds: Mapping[str, ColumnKind]  # of the attributes
    matches: Mapping[SharedShape, int]  # the filters of the queries, with the number of rows that pass each


@dataclass(frozen=True)
class Part:
    """Rows that have an index of their own."""

    table: str  # with its schema: the table, or a partition of it
    rows: int
    predicate: str = ""  # of a partial index


class Division:
    """Which indexes of vectors there are in place of one."""

    settings: ClassVar[Mapping[str, str]] = {}  # of sessions that query, unless the user sets them
    mark = ""  # of a table that no other index can use; "": the usual table serves
    partitions: tuple[str, Sequence[Any]] | None = None  # of that table: the attribute and its values

    def parts(self, table: str) -> Sequence[Part]:
        """Return what has an index each, the largest first."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it."""
        raise NotImplementedError


DivisionMaker = Callable[[FilteredRows], Division]


def value_counts(attribute: NamedAttribute, kind: ColumnKind, rows: int) -> list[tuple[Any, int]]:
    """Return the distinct values of an attribute, for labels the labels, with the number of rows of each.

    The most frequent come first, and of equally frequent ones the smallest.
    """
    counts: Counter[Any] = Counter()
    for start in range(0, rows, _SPAN_ROWS):
        block = attribute.block(start, min(start + _SPAN_ROWS, rows))
        if kind.has_several:
            block = np.concatenate([np.empty(0, np.int32), *block])
        values, numbers = np.unique(block, return_counts=True)
        counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def shapes_of(rows: FilteredRows, purpose: str) -> list[tuple[tuple[str, str], ...]]:
    """Return the distinct shapes of the filters; PostgresError without filters."""
    shapes = list(dict.fromkeys(each.shape for each in rows.matches if each.shape))
    if not shapes:
        raise PostgresError(f"{purpose} serve queries that have a filter: add --filter")
    return shapes


MOST_FILTERS = 1000  # distinct ones that have an index each, where it is not the values that have one


class PartialIndexes(Division):
    """An index for each value of a column, or for each filter, that has enough rows.

    A column that filters compare by `=`, or for one label by `contains`, has one for each value. Filters of
    any other shape have one each.
    """

    # The planner uses a partial index where the query implies its predicate. `column = $2` implies nothing.
    settings: ClassVar[Mapping[str, str]] = {"plan_cache_mode": "force_custom_plan"}

    def __init__(self, rows: FilteredRows, least_rows: int, least_rows_of_labels: int) -> None:
        """Take the fewest rows of a value, or a filter, that has an index; those of a label by themselves."""
        self._rows, self._least, self._least_of_labels = rows, least_rows, least_rows_of_labels
        counts: dict[str, int] = {}
        for shape in shapes_of(rows, "partial indexes"):
            filters = [each for each in rows.matches if each.shape == shape]
            place = _compared_by_value(filters)
            if place is None:
                counts |= self._count_filters(filters)
            else:
                counts |= self._count_values(conditions_of(filters[0], rows.kinds).conditions[place])
        self._counts = dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def parts(self, table: str) -> Sequence[Part]:
        """Return a part for each predicate."""
        return [Part(table, rows, predicate) for predicate, rows in self._counts.items()]

    def facts(self) -> dict[str, Any]:
        """Return the number of indexes."""
        return {"partial_indexes": len(self._counts)}

    def _count_values(self, condition: ColumnCondition) -> dict[str, int]:
        attribute, kind = self._rows.attributes[condition.column], condition.kind
        least = self._least_of_labels if kind.has_several else self._least
        counts = value_counts(attribute, kind, self._rows.attributes.rows)
        return {
            condition.predicate((value,) if condition.takes_several else value): rows
            for value, rows in counts
            if rows >= least
        }

    def _count_filters(self, filters: Sequence[SharedShape]) -> dict[str, int]:
        enough = [each for each in filters if self._rows.matches[each] >= max(self._least, 1)]
        if len(enough) > MOST_FILTERS:
            compared = " and ".join(f"{column} {operator}" for column, operator in filters[0].shape)
            raise PostgresError(
                f"the filters by {compared} differ in {len(enough):,} ways, and each can have a partial"
                f" index up to {MOST_FILTERS:,}: use filters that more queries share, or another algorithm"
            )
        return {
            conditions_of(each, self._rows.kinds).predicate(each): self._rows.matches[each] for each in enough
        }


def _compared_by_value(filters: Sequence[SharedShape]) -> int | None:
    """Return the place of the predicate that has an index for each value, if any."""
    operators = [operator for _, operator in filters[0].shape]
    if "=" in operators:
        return operators.index("=")
    if operators == ["contains"] and all(len(each.values[0]) == 1 for each in filters):
        return 0
    return None


class ListPartitions(Division):
    """A partition for each value of the one attribute that all filters compare by `=`."""

    def __init__(self, rows: FilteredRows) -> None:
        """Find that attribute, and its values."""
        keys = [
            {column for column, operator in shape if operator == "="}
            for shape in shapes_of(rows, "partitions")
        ]
        common = sorted(set.intersection(*keys))
        if len(common) != 1:
            found = " and ".join(common) or "none"
            raise PostgresError(
                "list partitions are by the one attribute that all filters compare by =, and there is"
                f" {found}: use filters such as tenants:N, or another algorithm"
            )
        key = common[0]
        self._counts = value_counts(rows.attributes[key], rows.kinds[key], rows.attributes.rows)
        self.mark = f"partitioned by {key}"
        self.partitions = key, [value for value, _ in self._counts]

    def parts(self, table: str) -> Sequence[Part]:
        """Return the partitions."""
        return [Part(partition_name(table, number), rows) for number, (_, rows) in enumerate(self._counts)]

    def facts(self) -> dict[str, Any]:
        """Return the number of partitions."""
        return {"partitions": len(self._counts)}


PARTIAL, LARGE, PARTITIONS = "partial", "partial_large", "partitions"
DIVISIONS = (NONE, PARTIAL, LARGE, PARTITIONS)
_LEAST_ROWS = {PARTIAL: 200, LARGE: 10_000}  # by default, of labels, or of every value
DIVISION_ARGUMENTS = {"division": NONE, "partial_rows": None}


def chosen_division(division: Any, partial_rows: Any) -> DivisionMaker | None:
    """Return what divides a table as the build arguments say, None where it has one index of vectors.

    partial: a partial index for each value, but for labels that fewer than `partial_rows` rows have;
    partial_large: one for each value that at least `partial_rows` rows have; partitions: an index on each of
    the partitions by a value.
    """
    chosen = one_of("division", NONE if division is None else division, DIVISIONS)
    if partial_rows is not None and chosen not in _LEAST_ROWS:
        raise PostgresError("partial_rows is for division: partial or partial_large: leave it out")
    if chosen not in _LEAST_ROWS:
        return ListPartitions if chosen == PARTITIONS else None
    least = whole_number("partial_rows", _LEAST_ROWS[chosen] if partial_rows is None else partial_rows)
    return lambda rows: PartialIndexes(rows, least if chosen == LARGE else 1, least)
