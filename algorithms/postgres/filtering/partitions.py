"""The ways to divide a table: partial indexes, or partitions by the values of one attribute."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..arguments import one_of, whole_number
from ..columns import Column, PartitionedColumn, partition_name
from ..errors import PostgresError
from .conditions import ColumnCondition, SharedShape, conditions_of
from .division import Division, DivisionMaker, FilteredRows, LockRoom, Part, shapes_of, value_counts
from .indexes import NONE

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
                counts |= self._of_filters(filters)
            else:
                counts |= self._of_values(conditions_of(filters[0], rows.kinds).conditions[place])
        self._counts = dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def parts(self, table: str) -> Sequence[Part]:
        """Return a part for each predicate."""
        return [Part(table, rows, predicate) for predicate, rows in self._counts.items()]

    def facts(self) -> dict[str, Any]:
        """Return the number of indexes, and the least rows of one, where there is one."""
        least = {"partial_index_rows": min(self._counts.values())} if self._counts else {}
        return {"partial_indexes": len(self._counts), **least}

    def check_room(self, room: LockRoom, others: int, may_be_generic: bool) -> None:
        """Raise PostgresError for more indexes than the server can lock."""
        what = f"{len(self._counts):,} partial indexes" + (f" and {others} of attributes" if others else "")
        room.check(self.locked_by_query(others, may_be_generic), f"{what}: the plans of queries")

    def locked_by_query(self, others: int, may_be_generic: bool) -> int:
        """Return the table with all of its indexes: planning a query locks each."""
        return 1 + len(self._counts) + others

    def _of_values(self, condition: ColumnCondition) -> dict[str, int]:
        attribute, kind = self._rows.attributes[condition.column], condition.kind
        least = self._least_of_labels if kind.has_several else self._least
        counts = value_counts(attribute, kind, self._rows.attributes.rows)
        return {
            condition.predicate((value,) if condition.takes_several else value): rows
            for value, rows in counts
            if rows >= least
        }

    def _of_filters(self, filters: Sequence[SharedShape]) -> dict[str, int]:
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
    """Return the place of the predicate that has an index for each value; None: there is none."""
    operators = [operator for _, operator in filters[0].shape]
    if "=" in operators:
        return operators.index("=")
    if operators == ["contains"] and all(len(each.values[0]) == 1 for each in filters):
        return 0
    return None


_LOCKS_OF_A_NEW_PARTITION = 3  # itself, what is kept apart from its rows (TOAST), and the index of that


class ListPartitions(Division):
    """A partition for each value of the one attribute that all filters compare by `=`."""

    def __init__(self, rows: FilteredRows) -> None:
        """Find that attribute, and its values."""
        self._rows = rows
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
        self._key = common[0]
        self._kind = rows.kinds[self._key]
        self._counts = value_counts(rows.attributes[self._key], self._kind, rows.attributes.rows)
        self.mark = f" partitioned by {self._key}"

    def column(self, column: Column) -> Column:
        """Return what a table with partitions is loaded by."""
        values = [value for value, _ in self._counts]
        return PartitionedColumn(column, self._rows.attributes, self._key, values)

    def parts(self, table: str) -> Sequence[Part]:
        """Return the partitions."""
        return [Part(partition_name(table, number), rows) for number, (_, rows) in enumerate(self._counts)]

    def facts(self) -> dict[str, Any]:
        """Return the number of partitions."""
        return {"partitions": len(self._counts)}

    def check_room(self, room: LockRoom, others: int, may_be_generic: bool) -> None:
        """Raise PostgresError for more partitions than one transaction can make, or query.

        An index of an attribute of all partitions takes fewer locks than making these.
        """
        what, count = f"{len(self._counts):,} partitions", len(self._counts)
        room.check(1 + count * _LOCKS_OF_A_NEW_PARTITION, f"{what}: the transactions that make them")
        room.check(self.locked_by_query(others, may_be_generic), f"{what}: the plans of queries")

    def locked_by_query(self, others: int, may_be_generic: bool) -> int:
        """Return the table, partitions and the indexes of all of them.

        With a query's values, all partitions but one are pruned before they are locked.
        """
        partitions = len(self._counts) if may_be_generic else 1
        return 1 + others + partitions * (2 + others)


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
