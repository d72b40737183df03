"""Synthetic vectors with the structure that makes approximate search err.

Clusters of very different size and density, each wide in a few directions and thin in the others; some
points between two clusters; a little noise everywhere; queries drawn like the rest.
"""

from collections.abc import Iterator

import numpy as np

LATENT = 32  # directions that the clusters share; in one cluster about half of them matter
SPREAD = 0.9  # median width of a cluster, where the centres' own is 1
DENSITIES = 0.5  # standard deviation of the logarithm of the width
SIZES = 1.2  # standard deviation of the logarithm of the number of points
THINNING = 0.97  # ratio of a cluster's widths from one direction to the next
BETWEEN = 0.1  # share of points between two clusters
NOISE = 0.05  # standard deviation of the noise in every dimension
GRID = 2.0**-12


def blocks(rows: int, dimension: int, queries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train rows, test rows), first the queries: float32, the same for the same rows and dimension."""
    clusters = _Clusters(rows, dimension)
    nothing = np.empty((0, dimension), np.float32)
    for part in clusters.draw(queries, stream=1):
        yield nothing, part
    for part in clusters.draw(rows, stream=2):
        yield part, nothing


class _Clusters:
    """The mixture, and its points in blocks, each from its own seed.

    Everything multiplied by matrices lies on a grid so coarse that float64 sums it exactly: the result does
    not depend on the order in which a machine's BLAS adds.
    """

    def __init__(self, rows: int, dimension: int) -> None:
        self.seed = [rows & 0xFFFFFFFF, rows >> 32, dimension]
        self.dimension = dimension
        self.block = max(64, min(4096, 2**22 // dimension))
        latent = min(dimension, LATENT)
        count = max(8, round(rows**0.5 / 2))
        draw = self._draws(0, 0)
        self.cumulative = np.cumsum(np.exp(SIZES * draw.randn(count)))
        self.cumulative /= self.cumulative[-1]
        self.centres = draw.randn(count, latent)
        width = SPREAD * np.exp(DENSITIES * draw.randn(count, 1))
        rank = np.argsort(draw.rand(count, latent), axis=1)
        self.widths = width * THINNING**rank
        self.directions = _on_grid(draw.randn(latent, dimension) / latent**0.5)

    def draw(self, rows: int, stream: int) -> Iterator[np.ndarray]:
        """Blocks of float32 points of one stream of random numbers, `rows` in all."""
        for number, start in enumerate(range(0, rows, self.block)):
            yield self._points(min(self.block, rows - start), self._draws(stream, number))

    def _draws(self, stream: int, block: int) -> np.random.RandomState:
        return np.random.RandomState([*self.seed, stream, block])

    def _points(self, rows: int, draw: np.random.RandomState) -> np.ndarray:
        latent = self._members(rows, draw)
        between = np.flatnonzero(draw.rand(rows) < BETWEEN)
        share = draw.rand(len(between), 1)
        latent[between] = share * latent[between] + (1 - share) * self._members(len(between), draw)
        points = _on_grid(latent) @ self.directions
        points += NOISE * draw.randn(rows, self.dimension)
        return points.astype(np.float32)

    def _members(self, rows: int, draw: np.random.RandomState) -> np.ndarray:
        cluster = np.searchsorted(self.cumulative, draw.rand(rows))
        points: np.ndarray = self.centres[cluster] + self.widths[cluster] * draw.randn(
            rows, len(self.directions)
        )
        return points


def _on_grid(values: np.ndarray) -> np.ndarray:
    return np.rint(values / GRID) * GRID
