"""The sample: rows drawn at random, in memory or in a file, that every pass goes through."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from . import machine
from .device import Advance
from .settings import ClusteringError

BLOCK_BYTES = 4 * 2**20  # that are read at once
FAR_APART = 256  # if fewer than one row in this many is drawn, the rows are read one by one
_MOST_FOR_HYPERGEOMETRIC = 10**9  # NumPy's bound
_ORDERED_BYTES = 64 * 2**20  # of a file that are put into order at a time


def drawn_blocks(rows: Any, count: int, unit_rows: bool, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield `count` rows drawn without replacement, in order, in blocks of (n, dimension) float32.

    Only one block is in memory at a time. Every set of `count` rows is equally likely, because the number
    drawn from a block follows the hypergeometric distribution. Above 10^9 rows it is the binomial one, which
    differs by about a block's share of all rows. ClusteringError names the row whose values cannot be
    clustered.
    """
    rows_left, size, missing = rows.shape[0], _block_rows(rows), count
    for start in range(0, rows.shape[0], size):
        stop = min(start + size, rows.shape[0])
        rows_left -= stop - start
        drawn = _drawn_from_block(rng, stop - start, rows_left, missing)
        if drawn:
            missing -= drawn
            numbers = start + np.sort(rng.choice(stop - start, drawn, replace=False, shuffle=False))
            yield _checked(rows, numbers, _read(rows, numbers, start, stop), unit_rows)


def every_block(rows: Any) -> Iterator[np.ndarray]:
    """Yield all rows, in order, in the same blocks, likewise checked."""
    size = _block_rows(rows)
    for start in range(0, rows.shape[0], size):
        vectors = np.array(rows[start : start + size], np.float32)
        yield _checked(rows, np.arange(start, start + len(vectors)), vectors, False)


def _block_rows(rows: Any) -> int:
    return max(1, BLOCK_BYTES // max(1, rows.shape[1] * np.dtype(rows.dtype).itemsize))


def _drawn_from_block(rng: np.random.Generator, here: int, later: int, missing: int) -> int:
    """How many of the `missing` rows are among those `here`; the others are among those `later`."""
    if here + later < _MOST_FOR_HYPERGEOMETRIC:
        return int(rng.hypergeometric(here, later, missing))
    drawn = int(rng.binomial(here, missing / (here + later)))
    return max(missing - later, min(drawn, missing))


def _read(rows: Any, numbers: np.ndarray, start: int, stop: int) -> np.ndarray:
    if len(numbers) * FAR_APART < stop - start:
        vectors = np.concatenate([np.asarray(rows[n : n + 1]) for n in numbers.tolist()])
    else:
        vectors = np.asarray(rows[start:stop])[numbers - start]
    return np.ascontiguousarray(vectors, np.float32)


@np.errstate(over="ignore", invalid="ignore")
def _checked(rows: Any, numbers: np.ndarray, vectors: np.ndarray, unit_rows: bool) -> np.ndarray:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    finite = np.isfinite(squares)
    if not finite.all():
        number = int(numbers[np.argmin(finite)])
        name = rows.where(number) if hasattr(rows, "where") else f"row {number} (from 0)"
        raise ClusteringError(
            f"{name} holds NaN, infinity or values too large to square; "
            "finite numbers were expected: remove or correct it"
        )
    if unit_rows:
        norms = np.sqrt(squares)
        vectors /= np.where(norms > 0, norms, 1)[:, np.newaxis]
    return vectors


class ClusteringSample:
    """(n, dimension) float32 less `shift`, (dimension,), which makes the differences of rows more exact."""

    def __init__(self, rows: np.ndarray, shift: np.ndarray, file: Path | None = None) -> None:
        self.rows, self.shift, self.file = rows, shift, file

    def group(self, labels: np.ndarray, grouped_file: Path) -> np.ndarray:
        """Put the rows of each group, `labels` (n,), next to one another; return the groups' sizes.

        This needs as much memory again for a moment, or a second file. The first file is left in place.
        """
        counts = np.bincount(labels)
        if self.file is None:
            self.rows = np.take(self.rows, np.argsort(labels, kind="stable"), axis=0)
            return counts
        grouped = _new_file(grouped_file, self.rows.shape)
        ends = np.cumsum(counts) - counts
        size = max(1, _ORDERED_BYTES // (4 * max(1, self.rows.shape[1])))
        for start in range(0, len(labels), size):
            here = labels[start : start + size]
            rows = self.rows[start : start + size][np.argsort(here, kind="stable")]
            done = 0
            for group, count in enumerate(np.bincount(here).tolist()):
                grouped[ends[group] : ends[group] + count] = rows[done : done + count]
                ends[group] += count
                done += count
        self.rows, self.file = _mapped(grouped_file), grouped_file
        return counts


def open_sample(file: Path, shift: np.ndarray) -> ClusteringSample:
    """Return the sample that a file holds."""
    return ClusteringSample(_mapped(file), shift, file)


def new_sample(
    blocks: Iterable[np.ndarray],
    shape: tuple[int, int],
    is_shifted: bool,
    file: Path | None,
    advance: Advance,
) -> ClusteringSample:
    """Keep the rows of `blocks` in memory or in `file`, shifted by the mean of the first block."""
    rows = np.empty(shape, np.float32) if file is None else _new_file(file, shape)
    shift = np.zeros(shape[1], np.float32)
    done = 0
    for block in blocks:
        if is_shifted and not done:
            shift = block.mean(axis=0, dtype=np.float64).astype(np.float32)
        np.subtract(block, shift, out=rows[done : done + len(block)])
        done += len(block)
        advance(len(block))
    assert done == len(rows)
    if file is None:
        return ClusteringSample(rows, shift)
    del rows
    return open_sample(file, shift)


def memory_for_sample(given: int | None) -> int:
    """Bytes that the sample may take in memory, where it is held twice for a moment."""
    if given is not None:
        return given
    return min(psutil.virtual_memory().available, machine.memory_bytes()) // 2


def _mapped(file: Path) -> np.ndarray:
    return np.asarray(np.load(file, mmap_mode="r"))


def _new_file(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Make an NPY file of float32 and map it; its space on the disk is reserved at once."""
    needed = 4 * int(np.prod(shape))
    free = shutil.disk_usage(file.parent).free
    try:
        if needed > free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rows = np.lib.format.open_memmap(file, "w+", np.float32, shape)
        if hasattr(os, "posix_fallocate"):
            with file.open("rb+") as opened:
                os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
    except OSError as error:
        raise ClusteringError(
            f"the sample takes {needed / 2**20:,.0f} MB on disk, {file.parent} has {free / 2**20:,.0f} MB"
            f" left: {error.strerror}: name a folder on a larger disk, or give a smaller sampling_factor"
        ) from None
    return rows
