"""The rows of one shard, with the ids that they have in the training set: every n-th, or those of a cell."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..columns import row_of_an_array
from ..columns.column import RowEncoder

_PART = 1 << 16  # rows whose places are looked through at once
_ID_BYTES = slice(6, 10)  # of a row of a binary COPY: behind the number of columns and the id's length


class ShardRows:
    """The rows `place`, `place` + `count`, `place` + 2 `count` ... of a training set, read by range."""

    def __init__(self, rows: Any, place: int, count: int, mark: str) -> None:
        """Take the training set, rows by range of a fixed length, and what identifies it."""
        self._rows, self._place, self._count, self._mark = rows, place, count, mark
        self.shape = (len(range(place, rows.shape[0], count)), rows.shape[1])
        self.dtype = rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice) -> Any:
        start, stop, step = numbers.indices(len(self))
        if start >= stop or step != 1:
            return self._rows[0:0] if step == 1 else self[:][numbers]
        # What lies between them is read, too: files give a whole range faster than parts of it.
        first, last = self.id_of(start), self.id_of(stop - 1)
        return self._rows[first : last + 1][:: self._count]

    def id_of(self, row: Any) -> Any:
        """Return the number in the training set of a row of the shard, or of an array of them."""
        return self._place + row * self._count

    def where(self, row: int) -> str:
        """Name a row of the shard for an error, as the training set does."""
        name: Callable[[int], str] = getattr(self._rows, "where", row_of_an_array)
        return name(self.id_of(row))

    def fingerprint(self) -> str:
        """Return what tells these rows from those of other shards, and of other numbers of them."""
        return f"{self._mark} shard {self._place} of {self._count}"

    def numbered(self, encoder: RowEncoder) -> RowEncoder:
        """Return the same encoder, for rows that have their ids in the training set."""
        return NumberedEncoder(encoder, self)


class CellRows(ShardRows):
    """The rows of a training set whose place is that of the shard, read by range."""

    def __init__(self, rows: Any, place: int, places: np.ndarray[Any, Any], count: int, mark: str) -> None:
        """Take the training set, the place of each of its rows, (rows,), and what identifies both."""
        super().__init__(rows, place, count, mark)
        self._places = places
        own = [np.count_nonzero(places[i : i + _PART] == place) for i in range(0, len(places), _PART)]
        self._before = np.concatenate([[0], np.cumsum(own)])  # rows of the shard before each part
        self.shape = (int(self._before[-1]), rows.shape[1])

    def __getitem__(self, numbers: slice) -> Any:
        start, stop, step = numbers.indices(len(self))
        return self._rows[self.id_of(np.arange(start, stop, step))]

    def id_of(self, row: Any) -> Any:
        """Return the number in the training set of a row of the shard, or of an array of them, ascending."""
        numbers = np.atleast_1d(row)
        if not len(numbers):
            return numbers
        first, last = np.searchsorted(self._before, numbers[[0, -1]], "right") - 1
        part = slice(int(first) * _PART, (int(last) + 1) * _PART)
        ids = part.start + np.flatnonzero(self._places[part] == self._place)
        found = ids[numbers - self._before[first]]
        return found if np.ndim(row) else int(found[0])

    def fingerprint(self) -> str:
        """Return what tells these rows from those of other shards, and of other cells."""
        return f"{super().fingerprint()} by cells"


class NumberedEncoder:
    """Rows of a shard as another encoder makes them, with the ids of the training set in them."""

    def __init__(self, encoder: RowEncoder, rows: ShardRows) -> None:
        """Take an encoder that gives every row the same number of bytes."""
        self._encoder, self._rows = encoder, rows

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the bytes of the rows that begin with this number in the shard."""
        content = self._encoder.encode(first_id, block)
        each = np.frombuffer(content, np.uint8).reshape(len(block), -1)
        ids = self._rows.id_of(np.arange(first_id, first_id + len(block))).astype(">i4")
        each[:, _ID_BYTES] = ids.view(np.uint8).reshape(-1, 4)
        return content

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return the bytes of each row by itself."""
        content = self.encode(first_id, block)
        size = len(content) // max(len(block), 1)
        return [content[start : start + size] for start in range(0, len(content), size)]
