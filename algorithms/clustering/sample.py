"""The sampled rows, in memory or in a file, which every pass goes through."""

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import psutil

from ..postgres import machine
from .errors import ClusteringError

_BLOCK_BYTES = 64 * 2**20  # of a file are put into order at a time


class Sample:
    """(n, dimension) float32 less `shift`, (dimension,), which makes the differences of rows more exact."""

    def __init__(self, rows: np.ndarray, shift: np.ndarray, file: Path | None = None) -> None:
        self.rows, self.shift, self.file = rows, shift, file

    def group(self, labels: np.ndarray, grouped_file: Path) -> np.ndarray:
        """Put the rows of a group, `labels` (n,), next to one another; return how many each has.

        This needs as much memory again for a moment, or a second file beside the first, which is left.
        """
        counts = np.bincount(labels)
        if self.file is None:
            order = np.argsort(labels, kind="stable")
            self.rows = np.take(self.rows, order, axis=0)
            return counts
        grouped = _new_file(grouped_file, self.rows.shape)
        ends = np.cumsum(counts) - counts
        size = max(1, _BLOCK_BYTES // (4 * max(1, self.rows.shape[1])))
        for start in range(0, len(labels), size):
            here = labels[start : start + size]
            order = np.argsort(here, kind="stable")
            rows = self.rows[start : start + size][order]
            done = 0
            for group, count in enumerate(np.bincount(here)):
                grouped[ends[group] : ends[group] + count] = rows[done : done + count]
                ends[group] += count
                done += count
        self.rows, self.file = _mapped(grouped_file), grouped_file
        return counts


def open_sample(file: Path, shift: np.ndarray) -> Sample:
    """Return the sample that a file holds."""
    return Sample(_mapped(file), shift, file)


def new_sample(
    blocks: Iterable[np.ndarray],
    shape: tuple[int, int],
    is_shifted: bool,
    file: Path | None,
    advance: Callable[[int], object],
) -> Sample:
    """Keep the rows of `blocks`, in memory or in `file`; shifted by the mean of the first block."""
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
        return Sample(rows, shift)
    del rows
    return open_sample(file, shift)


def memory_for_sample(given: int | None) -> int:
    """Bytes that the sample may take in memory, in which it is twice for a moment."""
    if given is not None:
        return given
    return min(psutil.virtual_memory().available, machine.memory_bytes()) // 2


def _mapped(file: Path) -> np.ndarray:
    return np.asarray(np.load(file, mmap_mode="r"))


def _new_file(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Make an NPY file of float32 and map it; what it needs of the disk is taken at once."""
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
            f"the sample takes {needed / 1e6:,.0f} MB on disk, {file.parent} has {free / 1e6:,.0f} MB left: "
            f"{error.strerror}: name a folder on a larger disk, or give a smaller sampling_factor"
        ) from None
    return rows
