"""Labels of two bytes: those that pgvectorscale has in its index."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import PostgresError
from .kinds import LabelsKind, packed


class SmallLabelsKind(LabelsKind):
    """A set of labels a row, as smallint[]: what pgvectorscale has in its index."""

    type_name, element = "smallint[]", "int2"
    oid = 21

    def binary(self, value: Any) -> bytes:
        """Return two bytes."""
        return packed(">h", value, value, self.element)

    def pieces(self, values: Any, place: Callable[[int], str]) -> list[Any]:
        """Return lengths and arrays; PostgresError for a label of more than two bytes."""
        pieces = []
        for row, labels in enumerate(values):
            given = np.asarray(labels)
            elements = np.empty(len(given), [("length", ">i4"), ("value", ">i2")])
            elements["length"], elements["value"] = 2, given
            if (elements["value"] != given).any():
                raise PostgresError(
                    f"{place(row)} has the label {given[elements['value'] != given][0]}, and pgvectorscale"
                    " takes labels up to 32767: number them from 0 on, or leave the build argument labels out"
                )
            head = (1, 0, self.oid, len(given), 1) if len(given) else (0, 0, self.oid)
            content = struct.pack(f">{len(head)}i", *head) + elements.tobytes()
            pieces.append(len(content).to_bytes(4, "big") + content)
        return pieces

    def binary_array(self, values: Sequence[Any]) -> bytes:
        """Return labels as an array's bytes; PostgresError where there is none to search the index for."""
        if not values:
            raise PostgresError("a filter has no label, which an index with labels has no rows for: give one")
        return super().binary_array(values)

    def contains(self, column: str, value: str) -> str:
        """The index finds rows that have any of the labels; those that have all are among them."""
        return f"{column} && {value} AND {column} @> {value}"
