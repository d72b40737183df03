"""What the formats share: bytes at an offset, and one line for whatever is wrong with a file."""

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


def read_at(path: Path, array: np.ndarray, offset: int) -> int:
    """Fill a contiguous array from the bytes of a file at `offset`; return how many there were."""
    view, done = array.reshape(-1).view(np.uint8).data, 0
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while done < len(view) and (got := os.preadv(file, [view[done:]], offset + done)):
            done += got
    finally:
        os.close(file)
    return done
