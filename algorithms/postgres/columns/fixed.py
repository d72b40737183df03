"""Types of fixed length: NumPy encodes whole blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .column import ALONE, Beside, Column, row_of_an_array


class FixedColumn(Column):
    """A type with a layout: fields that all values have alike, then `values`."""

    @property
    def layout(self) -> np.dtype[Any]:
        """The bytes of a value in PostgreSQL's binary format, as a NumPy type."""
        raise NotImplementedError

    def begin(self, out: np.ndarray[Any, Any]) -> None:
        """Fill in the fields of `out`, (n,) of the layout, that all values have alike."""
        raise NotImplementedError

    def values_of(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return rows, (n, dimension), as the layout's `values` take them."""
        return block

    @property
    def value_bytes(self) -> int:
        """Bytes of a value in a row: in its binary format it has all but the length."""
        return self.layout.itemsize + 4

    def row_encoder(
        self, rows: int, where: Callable[[int], str] = row_of_an_array, beside: Beside = ALONE
    ) -> "FixedRowEncoder":
        """Return what encodes blocks of up to `rows` rows."""
        return FixedRowEncoder(self, rows, where, beside)


class FixedRowEncoder:
    """Encodes blocks into one buffer that is used again and again."""

    def __init__(self, column: FixedColumn, rows: int, where: Callable[[int], str], beside: Beside) -> None:
        """Fill in all that is the same in every row."""
        self._column, self._where, self._beside = column, where, beside
        layout = column.layout
        self._rows = np.zeros(
            rows,
            dtype=[
                ("columns", ">i2"),
                ("id_length", ">i4"),
                ("id", ">i4"),
                ("length", ">i4"),
                ("value", layout),
                *beside.fields,
            ],
        )
        self._rows["columns"], self._rows["id_length"] = 2 + beside.columns, 4
        self._rows["length"] = layout.itemsize
        column.begin(self._rows["value"])
        self._values = self._rows["value"]["values"]

    def encode(self, first_id: int, block: np.ndarray[Any, Any]) -> memoryview:
        """Return the rows of `block`, (n, dimension), valid until the next call."""
        rows = self._rows[: len(block)]
        self._values[: len(block)] = self.checked(first_id, block)
        rows["id"] = np.arange(first_id, first_id + len(block))
        if self._beside.fields:
            self._beside.fill(rows, first_id)
        return rows.view(np.uint8).data

    def rows(self, first_id: int, block: np.ndarray[Any, Any]) -> list[Any]:
        """Return each row of `block` by itself, valid until the next call."""
        content, size = self.encode(first_id, block), self._rows.itemsize
        return [content[start : start + size] for start in range(0, len(content), size)]

    def checked(self, first_id: int, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the block as the column's values; PostgresError for one that it cannot hold."""
        return self._column.values_of(block)
