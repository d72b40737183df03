"""Samples: datasets with fewer rows of another one, and its queries. A smaller sample is part of a larger."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from ..vectors import Rows
from ..vectors.rows import BLOCK_BYTES
from .dataset import Dataset
from .write import write_dense

MOST_PARTS = 1024
FEWEST_ROWS = 1000  # of a sample
SEED = 1
SAMPLE_OF = "sample_of"  # attribute of a sample's file: the mark of the vectors that it was drawn from
_NAME = re.compile(r"(.+)-1of([1-9][0-9]{0,3})")


def sample_name(name: str, part: int) -> str:
    """Return the name of the sample that has one row in `part`; with all rows it is the dataset itself."""
    return name if part == 1 else f"{name}-1of{part}"


def sampled(name: str) -> tuple[str, int]:
    """Return the dataset that a sample is of, and the part; any other name is its own, with part 1."""
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match and 1 < int(match[2]) <= MOST_PARTS else (name, 1)


def draw_rows(rows: int, part: int) -> np.ndarray:
    """Return the numbers of the rows of a sample, ascending: (rows // part,) int64."""
    order = np.arange(rows, dtype=np.min_scalar_type(rows))  # a billion take 4 GB
    np.random.RandomState(SEED).shuffle(order)
    return np.sort(order[: rows // part]).astype(np.int64)


def write_sample(path: Path, whole: Dataset, part: int) -> None:
    """Write a sample as a dataset with exact neighbours of its own; UserError where it has too few rows."""
    if whole.attrs["type"] != "dense":
        raise UserError(f"{whole.name} has sets, and samples need vectors: choose another dataset")
    if whole.rows // part < FEWEST_ROWS:
        needed = f"a sample of one in {part} needs at least {FEWEST_ROWS * part:,}"
        raise UserError(f"{whole.name} has {whole.rows:,} rows: {needed}")
    train, test = whole.train_rows(), np.asarray(whole.test())
    chosen = draw_rows(len(train), part)
    shapes = (len(chosen), train.shape[1]), test.shape
    values = np.result_type(train.dtype, test.dtype)
    facts = {"point_type": whole.attrs["point_type"], SAMPLE_OF: whole.mark()}
    write_dense(path, whole.attrs["distance"], shapes, values, _blocks(train, test, chosen), facts=facts)


def _blocks(train: Rows, test: np.ndarray, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield test[:0], test
    size = max(1, BLOCK_BYTES * len(chosen) // train.nbytes)
    for start in range(0, len(chosen), size):
        yield train[chosen[start : start + size]], test[:0]
