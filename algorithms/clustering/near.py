"""Passes that compare a row only with the lists near its own: a small share of the work of a whole pass."""

from collections.abc import Callable, Iterable

import numpy as np

from .nearest import Table
from .passes import Pass, nothing
from .sums import CHUNK, Part, added, order_of, summed

NEAR = 32  # lists that a row is compared with, at least
_WINDOW_VALUES = 2**26  # of the rows that are put into the order of their lists; 256 MiB
_ROWS_AT_ONCE = 512
_BLOCK = 512  # lists whose near ones are found at once


class NearRows:
    """Rows that each know their list; it may change to a near one with each pass.

    What is near is seen from the list's centroid, so that a few rows in a hundred miss the nearest list at
    first; with the centroids they move on in the next pass.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self.labels, self._each = rows, labels, each
        self._window = max(CHUNK, _WINDOW_VALUES // rows.shape[1] // CHUNK * CHUNK)

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Callable[[int], object] = nothing,
    ) -> Pass:
        """Go through all rows; what comes of it does not depend on the number of threads."""
        k = len(centroids)
        table = Table(centroids, spherical)
        blocks = self._each(lambda start: table.ranked(start, start + _BLOCK, NEAR), range(0, k, _BLOCK))
        near = np.concatenate(list(blocks))

        def part(numbers: np.ndarray) -> Part:
            rows = self.rows.take(numbers, axis=0)
            found = self._nearest(rows, self.labels[numbers], table, near)
            self.labels[numbers] = found
            return summed(rows, found, k)

        found = added(self._each(part, self._parts(k)), centroids.shape, advance)
        if labels is not None:
            labels[:] = self.labels
        return found

    def _parts(self, k: int) -> Iterable[np.ndarray]:
        """Numbers of rows, in windows of which each is in the order of the lists."""
        for start in range(0, len(self.rows), self._window):
            order = start + order_of(self.labels[start : start + self._window], k)
            yield from np.split(order, range(CHUNK, len(order), CHUNK))

    @staticmethod
    def _nearest(rows: np.ndarray, lists: np.ndarray, table: Table, near: np.ndarray) -> np.ndarray:
        """Return the nearest of the lists near theirs; rows in the order of their lists share those."""
        found = np.empty(len(rows), np.int32)
        extended = table.extended(rows)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            here = lists[part]
            some = np.unique(near[here[np.flatnonzero(np.diff(here, prepend=-1))]])
            products = extended[part] @ table.rows.take(some, axis=0).T
            found[part] = some[products.argmax(axis=1)]
        return found
