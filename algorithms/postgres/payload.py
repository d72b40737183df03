"""What a query returns beside each row's id: nothing, a text of the row, or its vector.

The text is a column of the table, 1,024 hexadecimal digits that follow from the row's number. PostgreSQL
keeps a value of this length within the row, and compresses nothing there. So the table is larger by about
1 KB a row: a table with texts is another one than that without.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .columns import KINDS, AttributedColumn, Column, Kind, NamedAttributes
from .errors import PostgresError
from .filtering.division import Division
from .table_indexes import BuildOptions

TEXT, VECTOR = "text", "vector"
PAYLOADS = (TEXT, VECTOR)
TEXT_BYTES = 1024
TEXT_COLUMN = "ann_payload"
_RETURNED = {"": "", TEXT: TEXT_COLUMN, VECTOR: "embedding"}


def returned_column(payload: str) -> str:
    """Return the column that a query has beside the id, in SQL; "" for none."""
    return _RETURNED[payload]


def checked_payload(payload: str) -> str:
    """Return it; PostgresError for one that there is not."""
    if payload not in PAYLOADS:
        raise PostgresError(f"there is no payload '{payload}': use {' or '.join(PAYLOADS)}")
    return payload


def mark_of(payload: str) -> str:
    """Return the end of the mark of a table, which differs where it has texts."""
    return f" text {TEXT_BYTES}" if payload == TEXT else ""


def text_of(row: int) -> str:
    """Return the text of a row."""
    return hashlib.shake_128(row.to_bytes(8, "big")).hexdigest(TEXT_BYTES // 2)


class RowTexts:
    """The texts of all rows as an attribute, made when they are loaded."""

    name, kind = TEXT_COLUMN, "text"

    def block(self, start: int, stop: int) -> list[str]:
        """Return those of rows start to stop."""
        return [text_of(row) for row in range(start, stop)]


@dataclass
class WithTexts:
    """The attributes of rows, if there are any, and their texts behind them."""

    rows: int
    attributes: NamedAttributes | None
    mark: str = ""  # of the table, which mark_of() completes

    def values(self) -> list[Any]:
        """Return all."""
        return [*(self.attributes.values() if self.attributes is not None else ()), RowTexts()]

    def __len__(self) -> int:
        return len(self.values())

    def __getitem__(self, name: str) -> Any:
        return next(one for one in self.values() if one.name == name)


class TextedColumn(AttributedColumn):
    """The vectors' column of a table with attributes, if there are any, and texts."""

    def __init__(
        self,
        column: Column,
        rows: int,
        attributes: NamedAttributes | None,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        """Take what the rows have beside their texts; PostgresError where those do not fit a page with it."""
        super().__init__(column, WithTexts(rows, attributes), kinds)
        if column.is_plain and not self.is_plain:
            raise PostgresError(
                f"a row of {column.declared} with a text of {TEXT_BYTES:,} bytes does not fit a page, which"
                " would change how the vector is kept: use --payload vector"
            )

    @property
    def analyzed_names(self) -> list[str]:
        """The attributes: what the planner knows is the same with and without texts."""
        return self.attribute_names[:-1]

    @property
    def value_bytes(self) -> int:
        """Bytes of a row's values, with their headers."""
        return super().value_bytes + TEXT_BYTES

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on its way to the server."""
        return super().row_bytes + TEXT_BYTES


def table_column(column: Column, rows: int, options: BuildOptions, division: Division | None) -> Column:
    """Return the column of the vectors with those that the table has beside it."""
    divided = division.column(column) if division is not None else None
    if options.payload == TEXT and divided is not None:
        raise PostgresError("a table with partitions has no texts: use --payload vector, or another division")
    if options.payload == TEXT:
        return TextedColumn(column, rows, options.attributes, options.kinds)
    if options.attributes is None:
        return column
    return divided or AttributedColumn(column, options.attributes, options.kinds)


def payload_bytes(result: Any) -> int:
    """Return the bytes of an answer's payload; each of its rows has an id and a value."""
    value = result.get_value
    return sum(len(value(row, 1) or b"") for row in range(result.ntuples))
