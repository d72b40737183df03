"""A vector column with attributes beside it: one row of a COPY has them all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PostgresError
from .column import ALONE, Beside, Column, RowEncoder, row_of_an_array
from .fixed import FixedColumn
from .kinds import KINDS, FixedKind, Kind, NamedAttribute, NamedAttributes, kind_of, quoted

_POINTER_BYTES = 24  # of a value of any length that is kept elsewhere; of a fixed one with its padding
# A page's worth: PostgreSQL would move what a row has beside its vector out of it from 2 kB on.
_WITHIN_THE_ROW = " WITH (toast_tuple_target = 8160)"


class AttributedColumn(Column):
    """The vectors' column, for a table that has further columns; queries see the vectors' own alone."""

    def __init__(
        self, column: Column, attributes: NamedAttributes, kinds: Mapping[str, Kind] = KINDS
    ) -> None:
        """Take the attributes of all rows that will be loaded; `kinds` has the types of their columns."""
        self._column, self._attributes = column, list(attributes.values())
        self._kinds = [kind_of(attribute, kinds) for attribute in self._attributes]
        self.type_name, self.dimension = column.type_name, column.dimension

    @property
    def declared(self) -> str:
        """The type of the vectors as a table declares it."""
        return self._column.declared

    @property
    def attribute_names(self) -> list[str]:
        """The names of the further columns in SQL."""
        return [quoted(attribute.name) for attribute in self._attributes]

    @property
    def table_definition(self) -> str:
        """The columns of the table."""
        return f"{self._all_columns}{_WITHIN_THE_ROW}"

    @property
    def _all_columns(self) -> str:
        pairs = zip(self.attribute_names, self._kinds, strict=True)
        further = "".join(f", {name} {kind.type_name} NOT NULL" for name, kind in pairs)
        return f"{self._column.table_definition[:-1]}{further})"

    @property
    def value_bytes(self) -> int:
        """Bytes of a row's values, with their headers; those of text and labels as if they were few."""
        return self._column.value_bytes + _POINTER_BYTES * len(self._kinds)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on its way to the server, likewise."""
        return self._column.row_bytes + _POINTER_BYTES * len(self._kinds)

    @property
    def is_plain(self) -> bool:
        """Whether every vector fits a page with what is beside it."""
        return self._column.is_plain and Column.is_plain.fget(self)  # type: ignore[attr-defined]

    def source_bytes(self, train: Any) -> int:
        """Bytes of a row of the training set."""
        return self._column.source_bytes(train)

    def row_encoder(
        self, rows: int, where: Callable[[int], str] = row_of_an_array, beside: Beside = ALONE
    ) -> RowEncoder:
        """Return what encodes blocks of vectors with the attributes of these rows."""
        if isinstance(self._column, FixedColumn) and all(isinstance(kind, FixedKind) for kind in self._kinds):
            return self._column.row_encoder(rows, where, FixedBeside(self._attributes, self._kinds, where))
        alone = self._column.row_encoder(rows, where, Beside(len(self._kinds)))
        return JoinedRowEncoder(alone, self._attributes, self._kinds, where)

    def parameter_encoder(self) -> Callable[[Any], bytes | bytearray]:
        """Return what encodes a query's vector."""
        return self._column.parameter_encoder()

    def literal(self, row: Any) -> str:
        """Write a query's vector."""
        return self._column.literal(row)


class PartitionedColumn(AttributedColumn):
    """The same, for a table with a partition for each value of an attribute."""

    def __init__(self, column: Column, attributes: NamedAttributes, name: str, values: Sequence[Any]) -> None:
        """Take the attribute's name and its values, in the order of the partitions."""
        super().__init__(column, attributes)
        self._name, self._values = name, values
        self._kind = kind_of(attributes[name])

    @property
    def table_definition(self) -> str:
        """The columns of the table, and what it is partitioned by."""
        return f"{self._all_columns} PARTITION BY LIST ({quoted(self._name)})"

    def partition_definitions(self, table: str) -> list[str]:
        """A partition for each value."""
        return [
            f"CREATE TABLE {partition_name(table, number)} PARTITION OF {table}"
            f" FOR VALUES IN ({self._kind.literal(value)}){_WITHIN_THE_ROW}"
            for number, value in enumerate(self._values)
        ]


def partition_name(table: str, number: int) -> str:
    """Name of a partition, with its schema."""
    return f"{table}_part{number}"


class FixedBeside(Beside):
    """Attributes that all take eight bytes, as fields of each row: whole blocks are encoded by NumPy."""

    def __init__(
        self, attributes: Sequence[NamedAttribute], kinds: Sequence[Kind], where: Callable[[int], str]
    ) -> None:
        """Take the attributes, and what names a row for an error."""
        fields = []
        for place in range(len(kinds)):
            fields += [(f"length_{place}", ">i4"), (f"attribute_{place}", ">i8")]
        super().__init__(len(kinds), tuple(fields))
        self._attributes, self._kinds, self._where = attributes, kinds, where

    def fill(self, rows: np.ndarray[Any, Any], first_id: int) -> None:
        """Put the attributes of rows from `first_id` on into their fields."""
        for place, (attribute, kind) in enumerate(zip(self._attributes, self._kinds, strict=True)):
            assert isinstance(kind, FixedKind)
            values = attribute.block(first_id, first_id + len(rows))
            rows[f"length_{place}"] = 8
            rows[f"attribute_{place}"] = kind.checked(values, lambda row: self._where(first_id + row))


@dataclass(frozen=True)
class JoinedRowEncoder:
    """Attributes of any length, put behind each row that another encoder has made."""

    alone: RowEncoder
    attributes: Sequence[NamedAttribute]
    kinds: Sequence[Kind]
    where: Callable[[int], str]

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the rows with all that is beside them."""
        return memoryview(b"".join(self.rows(first_id, block)))

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return the pieces of all rows, one after the other."""
        vectors = self.alone.rows(first_id, block)
        columns: list[list[Any]] = [vectors]
        for attribute, kind in zip(self.attributes, self.kinds, strict=True):
            values = attribute.block(first_id, first_id + len(vectors))
            columns.append(kind.pieces(values, lambda row: self.where(first_id + row)))
        return [piece for row in zip(*columns, strict=True) for piece in row]


def attribute_kinds(
    attributes: NamedAttributes | None, rows: int, kinds: Mapping[str, Kind] = KINDS
) -> Mapping[str, Kind]:
    """Return the kinds of a table's attributes by name, none where it has none; PostgresError for others."""
    if attributes is None:
        return {}
    if attributes.rows != rows:
        raise PostgresError(
            f"there are {rows:,} vectors, and attributes of {attributes.rows:,} rows: make the attributes of"
            " these vectors"
        )
    return {attribute.name: kind_of(attribute, kinds) for attribute in attributes.values()}
