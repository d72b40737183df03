"""Vectors without any structure: each value uniform between 0 and 1, then all divided by the length.

What benchmarks of speed alone often take: no vector is near another one, so that an index finds few of the
true neighbours, and recall says nothing about real vectors.
"""

from collections.abc import Iterator

import numpy as np


def blocks(rows: int, dimension: int, queries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train rows, test rows), first the queries: float32, of length 1."""
    size = max(64, min(4096, 2**22 // dimension))
    nothing = np.empty((0, dimension), np.float32)
    for stream, number in ((1, queries), (2, rows)):
        for block, start in enumerate(range(0, number, size)):
            draw = np.random.Generator(np.random.Philox([rows, dimension, stream, block]))
            # In float64, whose sums round to the same float32 in whatever order a machine adds.
            drawn = draw.random((min(size, number - start), dimension))
            values = (drawn / np.sqrt(np.square(drawn).sum(axis=1, keepdims=True))).astype(np.float32)
            yield (nothing, values) if stream == 1 else (values, nothing)
