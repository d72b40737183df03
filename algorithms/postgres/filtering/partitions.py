"""List partitions: a table for each value of one attribute, with an index of vectors each."""

from collections.abc import Sequence
from typing import Any

from ..columns import Column, PartitionedColumn, partition_name
from ..errors import PostgresError
from .division import Division, FilteredRows, Part, shapes_of, value_counts
from .locks import LockRoom

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
