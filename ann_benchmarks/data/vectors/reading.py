"""What the formats share: files read at offsets, and one line for whatever is wrong with them."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import DAMAGE, reason_of, shortened

LARGEST = 2**48  # rows, or numbers in one: no machine addresses more
# What big-ann's tools append to the name of a file's first rows, and what a file has until it is whole.
_APPENDED = re.compile(r"(\.crop_nb_\d+)?(\.partial(-\d+)?)?$")


def format_suffix(path: Path) -> str:
    """Return the ending of a file's name that tells its format, such as .npy."""
    return Path(_APPENDED.sub("", path.name)).suffix.lower()


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Turn a failed read of `what` into a UserError that names it."""
    try:
        yield
    except DAMAGE as error:
        reason = reason_of(error)
        if not getattr(error, "strerror", None):
            reason += "; is it whole, and what its name says?"
        raise UserError(f"cannot read {what}: {reason}") from None


def row_range(label: str, start: int, stop: int) -> str:
    """Name rows `start` to `stop` - 1, for an error."""
    return f"{label} rows {start} to {stop - 1} (from 0)"


def require_vectors(label: str, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Raise UserError unless this is an array of numbers, (rows, dimension)."""
    if len(shape) != 2:
        raise UserError(
            f"{label} has shape {tuple(shape)}; vectors are an array of two dimensions, one row each"
        )
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise UserError(
            f"{label} holds {shortened(dtype, 60)}, not numbers of up to 64 bits; so do rows of uneven length"
        )
    if not 0 <= shape[0] < LARGEST or not 0 <= shape[1] < LARGEST or (shape[0] and not shape[1]):
        raise UserError(f"{label} has {shape[0]} rows of {shape[1]} numbers; a row has one or more")


def choose(path: Path, kind: str, names: Sequence[str], key: str) -> str:
    """Return which of `names` the key means; without a key there must be one."""
    if key in names:
        return key
    if not key and len(names) == 1:
        return names[0]
    if not names:
        raise UserError(f"{path} has no {kind}")
    problem = f"has no {kind} '{key}'" if key else f"has more than one {kind}"
    raise UserError(f"{path} {problem}; choose with {path}:KEY from {shortened(', '.join(names[:10]))}")


class _Descriptor:
    """An open file, closed with the last reference to it: never under a thread that reads."""

    number = -1

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class OffsetFile:
    """A file that any number of threads read at offsets; opened when first read, and anew when pickled."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor: _Descriptor | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    def read_into(self, array: np.ndarray, offset: int) -> int:
        """Fill a contiguous array from the bytes at `offset`; return how many there were."""
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._descriptor = _Descriptor(self.path)
        view = array.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(view) and (got := os.preadv(descriptor.number, [view[done:]], offset + done)):
            done += got
        return done

    def close(self) -> None:
        """Close the file when whoever is reading it has finished."""
        self._descriptor = None

    def __reduce__(self) -> Any:
        return OffsetFile, (self.path,)
