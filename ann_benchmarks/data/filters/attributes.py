"""Attributes of rows: named columns beside the vectors, in the order of the training rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("integer", "text", "timestamp", "labels")


@dataclass(frozen=True, eq=False)
class RowAttribute:
    """One attribute of all rows; `kind` is one of KINDS.

    `values` is (rows,): int64 for integers, and for timestamps in microseconds since 1970 UTC; an array of
    str objects for text. For labels it has all rows' labels one after the other, int32, ascending in each
    row, and row i has those from ends[i - 1] (0 for the first) up to ends[i], int64.
    """

    name: str
    kind: str
    values: np.ndarray
    ends: np.ndarray | None = None  # of labels

    def __len__(self) -> int:
        return len(self.values if self.ends is None else self.ends)

    def block(self, start: int, stop: int) -> Sequence[Any] | np.ndarray:
        """Return the values of rows start to stop: an array, or for labels a list of int32 arrays."""
        if self.ends is None:
            return self.values[start:stop]
        first = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:stop]
        last = int(ends[-1]) if len(ends) else first
        return np.split(self.values[first:last], ends[:-1] - first) if len(ends) else []


@dataclass(frozen=True, eq=False)
class RowAttributes(Mapping[str, RowAttribute]):
    """Attributes by name, all of `rows` rows; `mark` tells their names and values from others."""

    attributes: Mapping[str, RowAttribute]
    rows: int
    mark: str

    def __getitem__(self, name: str) -> RowAttribute:
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)
