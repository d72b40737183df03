"""Datasets that are generated at any size, by names such as clustered-100k-96-angular."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ann_benchmarks.common.errors import UserError

from . import clustered, uniform
from .write import NEIGHBORS, write_dense

# Give (train rows, test rows) block by block: the same for the same numbers of rows, dimensions and queries.
KINDS: dict[str, Callable[[int, int, int], Iterator[tuple[np.ndarray, np.ndarray]]]] = {
    "clustered": clustered.blocks,
    "uniform": uniform.blocks,
}
PATTERNS = [f"{kind}-ROWS-DIMENSION-METRIC" for kind in KINDS]
NAME = re.compile(rf"({'|'.join(KINDS)})-([1-9]\d*)([km]?)-([1-9]\d*)-(euclidean|angular|ip)")
FACTORS = {"": 1, "k": 1000, "m": 1000_000}
QUERIES = 1000


class Generated(NamedTuple):
    """What a name asks for."""

    kind: str
    rows: int
    dimension: int
    metric: str

    @property
    def queries(self) -> int:
        """How many queries are drawn: 1,000, fewer for a set of under 10,000 rows."""
        return min(QUERIES, self.rows // 10)


def parse(name: str) -> Generated | None:
    """Read a name; None if it is of none of the kinds."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    kind, number, factor, dimension, metric = match.groups()
    size = Generated(kind, int(number) * FACTORS[factor], int(dimension), metric)
    if size.rows < NEIGHBORS or size.dimension > 65536:
        raise UserError(f"'{name}' needs at least {NEIGHBORS} rows and at most 65536 dimensions")
    return size


def write_generated(path: Path, size: Generated) -> None:
    """Generate the vectors block by block into a dataset file."""
    shapes = (size.rows, size.dimension), (size.queries, size.dimension)
    blocks = KINDS[size.kind](size.rows, size.dimension, size.queries)
    write_dense(path, size.metric, shapes, np.float32, blocks)
