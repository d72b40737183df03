"""The nearest centroid of rows, by matrix products in tiles that stay in the cache."""

import numpy as np

TILE_LISTS = 512
TILE_VALUES = 2**18  # of a product in float32: 1 MiB
MOST_ROWS = 4096


class Table:
    """Centroids, (k, dimension) float32, made ready to be compared with rows.

    |x - c|^2 is least where x.c - |c|^2 / 2 is largest: the second term is one more column, that of ones for
    the rows. `rows`: (k, dimension or one more).
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        k, self._dimension = centroids.shape
        self.rows = np.empty((k, self._dimension + (not spherical)), np.float32)
        self.rows[:, : self._dimension] = centroids
        if not spherical:
            exact = centroids.astype(np.float64)
            self.rows[:, -1] = np.einsum("ij,ij->i", exact, exact) / -2
        self._tiles = [self.rows[start : start + TILE_LISTS].T for start in range(0, k, TILE_LISTS)]
        self._width = self._tiles[0].shape[1]
        self._rows_at_once = max(64, min(MOST_ROWS, TILE_VALUES // self._width))

    def extended(self, rows: np.ndarray) -> np.ndarray:
        """Return rows, (n, dimension), with the column of ones that the centroids need."""
        if self.rows.shape[1] == self._dimension:
            return rows
        extended = np.ones((len(rows), self.rows.shape[1]), np.float32)
        extended[:, :-1] = rows
        return extended

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Number of the nearest centroid of each row, (rows,) int32; of equally near ones the first."""
        labels = np.empty(len(rows), np.int32)
        scores = np.empty(min(self._rows_at_once, len(rows)) * self._width, np.float32)
        for start in range(0, len(rows), self._rows_at_once):
            part = slice(start, start + self._rows_at_once)
            labels[part] = self._nearest(self.extended(rows[part]), scores)
        return labels

    def ranked(self, start: int, stop: int, count: int) -> np.ndarray:
        """Numbers of the `count` centroids nearest to each of those from `start` on, in no order."""
        scores = self.extended(self.rows[start:stop, : self._dimension]) @ self.rows.T
        if count >= len(self.rows):
            return np.broadcast_to(np.arange(len(self.rows)), scores.shape)
        return np.argpartition(scores, -count, axis=1)[:, -count:]

    def _nearest(self, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
        best = labels = np.empty(0)
        for number, tile in enumerate(self._tiles):
            width = tile.shape[1]
            product = np.matmul(rows, tile, out=scores[: len(rows) * width].reshape(len(rows), width))
            found = product.argmax(axis=1)
            if len(self._tiles) == 1:
                return found
            score = np.take_along_axis(product, found[:, np.newaxis], axis=1)[:, 0]
            if number == 0:
                best, labels = score, found
            else:
                nearer = score > best
                best = np.where(nearer, score, best)
                labels = np.where(nearer, found + number * TILE_LISTS, labels)
        return labels
