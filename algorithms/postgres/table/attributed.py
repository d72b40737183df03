"""A vector column with attributes beside it, or texts that queries return: one row of a COPY has them all.

A table with texts is larger by about 1 KB a row, and so another one than that without.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import PostgresError
from .column import Column, RowEncoder, row_of_an_array
from .kinds import KINDS, ColumnKind, FixedKind, NamedAttribute, NamedAttributes, kind_of, quoted

TEXT, VECTOR = "text", "vector"  # what a query can return beside the id
# The column of each in SQL, none without a payload.
RETURNED_COLUMNS = {"": "", TEXT: "ann_payload", VECTOR: "embedding"}
TEXT_BYTES = 1024  # hexadecimal digits, which PostgreSQL keeps within the row and does not compress
_POINTER_BYTES = 24  # of a value of any length that is kept elsewhere; of a fixed one with its padding
# A page's worth: PostgreSQL would move what a row has beside its vector out of it from 2 kB on.
_WITHIN_THE_ROW = " WITH (toast_tuple_target = 8160)"


class AttributedColumn(Column):
    """The vectors' column, for a table that has further columns; queries see the vectors' own alone.

    These are attributes, and perhaps the rows' texts. The planner does not know the texts.
    """

    def __init__(
        self,
        column: Column,
        attributes: Iterable[NamedAttribute],
        kinds: Mapping[str, ColumnKind] = KINDS,
        has_texts: bool = False,
        partitions: tuple[str, Sequence[Any]] | None = None,
    ) -> None:
        """Take the attributes of all rows that will be loaded; `kinds` has the types of their columns.

        `partitions` has the name and the values of an attribute, with a partition for each. PostgresError
        where texts do not fit a page with the vector.
        """
        self._column, self._attributes, self._partitions = column, list(attributes), partitions
        self.analyzed_names = [quoted(attribute.name) for attribute in self._attributes]
        self._attributes += [RowTexts()] if has_texts else []
        self.attribute_names = [quoted(attribute.name) for attribute in self._attributes]
        self._kinds = [kind_of(attribute, kinds) for attribute in self._attributes]
        self.type_name, self.dimension = column.type_name, column.dimension
        self._more_bytes = _POINTER_BYTES * len(self._kinds) + (TEXT_BYTES if has_texts else 0)
        if has_texts and column.is_plain and not self.is_plain:
            raise PostgresError(
                f"a row of {column.declared} with a text of {TEXT_BYTES:,} bytes does not fit a page, which"
                " would change how the vector is kept: use --payload vector"
            )

    @property
    def table_definition(self) -> str:
        pairs = zip(self.attribute_names, self._kinds, strict=True)
        further = "".join(f", {name} {kind.type_name} NOT NULL" for name, kind in pairs)
        key = quoted(self._partitions[0]) if self._partitions else ""
        return (
            f"{self._column.table_definition[:-1]}{further})"
            f"{f' PARTITION BY LIST ({key})' if key else _WITHIN_THE_ROW}"
        )

    def partition_definitions(self, table: str) -> list[str]:
        """The statements that make a partition for each value."""
        if self._partitions is None:
            return []
        name, values = self._partitions
        kind = self._kinds[self.attribute_names.index(quoted(name))]
        return [
            f"CREATE TABLE {partition_name(table, number)} PARTITION OF {table}"
            f" FOR VALUES IN ({kind.literal(value)}){_WITHIN_THE_ROW}"
            for number, value in enumerate(values)
        ]

    @property
    def value_bytes(self) -> int:
        """Bytes of a row's values, with their headers; those of text and labels as if they were few."""
        return self._column.value_bytes + self._more_bytes

    @property
    def row_bytes(self) -> int:
        return self._column.row_bytes + self._more_bytes

    @property
    def is_plain(self) -> bool:
        """Whether every vector fits a page with what is beside it."""
        return self._column.is_plain and Column.is_plain.fget(self)  # type: ignore[attr-defined]

    @property
    def layout(self) -> np.dtype[Any]:
        return self._column.layout

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        self._column.begin(out)

    def row_encoder(self, rows: int, where: Callable[[int], str] = row_of_an_array) -> RowEncoder:
        fixed = [kind for kind in self._kinds if isinstance(kind, FixedKind)]
        if len(fixed) == len(self._kinds):
            beside = [*zip(self._attributes, fixed, strict=True)]
            return RowEncoder(self._column, rows, where, beside)
        return JoinedRowEncoder(self._column, rows, where, self._attributes, self._kinds)

    def parameter_encoder(self) -> Callable[[Any], bytes | bytearray]:
        return self._column.parameter_encoder()

    def literal(self, row: Any) -> str:
        return self._column.literal(row)


def partition_name(table: str, number: int) -> str:
    """Name of a partition, with its schema."""
    return f"{table}_part{number}"


class JoinedRowEncoder(RowEncoder):
    """Puts attributes of any length behind each row."""

    def __init__(
        self,
        column: Column,
        rows: int,
        where: Callable[[int], str],
        attributes: Sequence[NamedAttribute],
        kinds: Sequence[ColumnKind],
    ) -> None:
        super().__init__(column, rows, where, further=len(kinds))
        self._attributes, self._kinds = attributes, kinds

    def encode(self, first: int, block: Any) -> memoryview:
        """Return the rows with all that is behind them."""
        content, size = super().encode(first, block), self._rows.itemsize
        columns: list[list[Any]] = [[content[at : at + size] for at in range(0, len(content), size)]]
        for attribute, kind in zip(self._attributes, self._kinds, strict=True):
            values = attribute.block(first, first + len(block))
            columns.append(kind.pieces(values, lambda row: self._where(first + row)))
        return memoryview(b"".join([piece for row in zip(*columns, strict=True) for piece in row]))


def attribute_kinds(
    attributes: NamedAttributes | None, rows: int, kinds: Mapping[str, ColumnKind] = KINDS
) -> Mapping[str, ColumnKind]:
    """Return the kinds of a table's attributes by name, none where it has none; PostgresError for others."""
    if attributes is None:
        return {}
    if attributes.rows != rows:
        raise PostgresError(
            f"there are {rows:,} vectors, and attributes of {attributes.rows:,} rows: make the attributes of"
            " these vectors"
        )
    return {attribute.name: kind_of(attribute, kinds) for attribute in attributes.values()}


def row_text(row: int) -> str:
    """Return the text of a row, which follows from its number."""
    return hashlib.shake_128(row.to_bytes(8, "big")).hexdigest(TEXT_BYTES // 2)


class RowTexts:
    """The texts of all rows as an attribute, made when they are loaded."""

    name, kind = RETURNED_COLUMNS[TEXT], "text"

    def block(self, start: int, stop: int) -> list[str]:
        """Return those of rows start to stop."""
        return [row_text(row) for row in range(start, stop)]
