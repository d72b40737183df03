"""What a clustering keeps: a random sample, and the state that an interrupted run resumes from."""

import errno
import hashlib
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .settings import ClusteringError, Settings

BLOCK_BYTES = 4 * 2**20  # read at once
FAR_APART = 256  # if fewer than one row in this many is drawn, the rows are read one by one
SECONDS_BETWEEN_SAVES = 20.0
FORM = 3  # changes when the same rows and settings give another result or another state
_MOST_FOR_HYPERGEOMETRIC = 10**9  # NumPy's bound
_ORDERED_BYTES = 64 * 2**20  # of the sample that are read at a time
_IDENTIFYING_ROWS = 64  # by which datasets are distinguished


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
        drawn = drawn_here(rng, stop - start, rows_left, missing)
        if drawn:
            missing -= drawn
            numbers = start + np.sort(rng.choice(stop - start, drawn, replace=False, shuffle=False))
            if drawn * FAR_APART < stop - start:
                vectors = np.concatenate([np.asarray(rows[n : n + 1]) for n in numbers.tolist()])
            else:
                vectors = np.asarray(rows[start:stop])[numbers - start]
            yield _checked(rows, numbers, np.ascontiguousarray(vectors, np.float32), unit_rows)


def every_block(rows: Any) -> Iterator[np.ndarray]:
    """Yield all rows, in order, in the same blocks, likewise checked."""
    size = _block_rows(rows)
    for start in range(0, rows.shape[0], size):
        vectors = np.array(rows[start : start + size], np.float32)
        yield _checked(rows, np.arange(start, start + len(vectors)), vectors, False)


def _block_rows(rows: Any) -> int:
    return max(1, BLOCK_BYTES // max(1, rows.shape[1] * np.dtype(rows.dtype).itemsize))


def drawn_here(rng: np.random.Generator, here: int, later: int, missing: int) -> int:
    """How many of the `missing` rows are among those `here`; the others are among those `later`."""
    if here + later < _MOST_FOR_HYPERGEOMETRIC:
        return int(rng.hypergeometric(here, later, missing))
    drawn = int(rng.binomial(here, missing / (here + later)))
    return max(missing - later, min(drawn, missing))


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


def new_file(file: Path, shape: tuple[int, int]) -> np.ndarray:
    """Make an NPY file of float32 and map it; its space on the disk is reserved at once."""
    needed, free = 4 * shape[0] * shape[1], shutil.disk_usage(file.parent).free
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


class ClusteringState:
    """Named arrays in a file of a folder, for one clustering; they are kept if `is_kept`.

    `sample_file` is for a sample that is too large for memory.
    """

    def __init__(self, folder: Path, is_kept: bool, identity: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusteringError(f"the folder {folder} cannot be made: {error.strerror}") from None
        self.is_kept, self.sample_file = is_kept, folder / "sample.npy"
        self._file, self._identity = folder / "clustering.npz", identity
        self.values = self._read()
        self._saved = time.monotonic()
        self._started = self._saved - float(self.values.get("seconds", 0))

    @property
    def seconds(self) -> float:
        """Time taken, including that of interrupted runs up to their last save."""
        return time.monotonic() - self._started

    def save(self, must: bool = False, **values: Any) -> None:
        """Keep these values as well; write all to disk if the last time is long enough ago, or if `must`."""
        self.values |= values
        if not self.is_kept or (time.monotonic() < self._saved + SECONDS_BETWEEN_SAVES and not must):
            return
        partial = self._file.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, **{**self.values, "identity": self._identity, "seconds": self.seconds})
        partial.replace(self._file)
        self._saved = time.monotonic()

    def remove(self) -> None:
        """Delete all files, and the folder if nothing else is in it."""
        for file in (self._file, self._file.with_suffix(".partial"), self.sample_file):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.parent.rmdir()

    def _read(self) -> dict[str, Any]:
        """Return what was saved; nothing if it is damaged, absent or of another clustering."""
        try:
            with np.load(self._file) as saved:
                if str(saved["identity"]) == self._identity:
                    return {name: saved[name] for name in saved.files if name != "identity"}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            pass
        return {}


def grouped_rows(sample: np.ndarray, labels: np.ndarray, groups: range) -> Iterator[tuple[int, np.ndarray]]:
    """Read the sample once, and yield the rows of each of these groups."""
    numbers = np.flatnonzero((labels >= groups.start) & (labels < groups.stop))
    order = np.argsort(labels[numbers], kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    rows = np.empty((len(numbers), sample.shape[1]), np.float32)
    size = max(1, _ORDERED_BYTES // (4 * sample.shape[1]))
    for start in range(0, len(numbers), size):
        rows[places[start : start + size]] = sample[numbers[start : start + size]]
    stops = np.cumsum(np.bincount(labels[numbers] - groups.start, minlength=len(groups)))
    parts = zip(groups, np.split(rows, stops[:-1]), strict=True)
    yield from ((group, part) for group, part in parts if len(part))


def identity(rows: Any, settings: Settings) -> str:
    """Identify a clustering by the settings, the rows' shape and some of the rows."""
    mark = hashlib.blake2b(digest_size=16)
    numbers = np.linspace(0, rows.shape[0] - 1, _IDENTIFYING_ROWS).astype(np.int64)
    for number in np.unique(numbers).tolist():
        mark.update(np.ascontiguousarray(rows[number : number + 1]).tobytes())
    given = asdict(settings)
    for name in ("threads", "memory", "device_memory"):  # these change nothing
        del given[name]
    return f"{FORM} {tuple(rows.shape)} {rows.dtype} {given} {mark.hexdigest()}"
