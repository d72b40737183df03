"""Changes on their way to the processes that make them: records of one size in a stream that all read.

A record has when it is due (s from the start, NaN: at once), its number, its kind, and then what the
statement is given, in PostgreSQL's binary formats: an int4 and a vector.
"""

import struct
from typing import Any

import numpy as np

from ..encoding import ELEMENTS

INSERT, UPDATE, DELETE, END = 0, 1, 2, -1
HEAD = struct.Struct("<dqq")
ID_BYTES = 4


def record_layout(dimension: int, column_type: str) -> np.dtype[Any]:
    """One record as a NumPy type."""
    return np.dtype(
        [
            ("due", "<f8"),
            ("number", "<i8"),
            ("kind", "<i8"),
            ("id", ">i4"),
            ("dimension", ">i2"),
            ("unused", ">i2"),
            ("values", ELEMENTS[column_type].newbyteorder(">"), (dimension,)),
        ]
    )


def encoded(changes: Any, first: int, layout: np.dtype[Any]) -> memoryview:
    """Return records of changes, whose numbers are those from `first` on.

    `changes` has arrays of one length: `due` or None, `kinds`, `ids`, and `vectors`, (n, dimension).
    """
    records = np.zeros(len(changes.ids), dtype=layout)
    records["due"] = np.nan if changes.due is None else changes.due
    records["number"] = np.arange(first, first + len(records))
    records["kind"] = changes.kinds
    records["id"] = changes.ids
    records["dimension"] = layout["values"].shape[0]
    records["values"] = changes.vectors
    return records.view(np.uint8).data


def end_marks(writers: int, layout: np.dtype[Any]) -> memoryview:
    """Return a record for each writer, on which it stops."""
    records = np.zeros(writers, dtype=layout)
    records["kind"] = END
    return records.view(np.uint8).data
