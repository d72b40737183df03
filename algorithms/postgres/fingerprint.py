"""What identifies a training set: an index is used again only for the very same vectors."""

import hashlib
from typing import Any

import numpy as np

_WHOLE_BYTES = 2 << 30
_BLOCK_ROWS = 4096
_SAMPLES = 4096  # so many that each of hundreds of files has some
_SAMPLE_ROWS = 64


def fingerprint(train: Any) -> str:
    """Hash shape, type and rows: all of them up to 2 GiB, else 4,096 blocks of 64 evenly spaced.

    `train` has a shape, a dtype, and rows by range, and may be larger than memory. Where it has a method
    `fingerprint` of its own, that decides.
    """
    if callable(own := getattr(train, "fingerprint", None)):
        return str(own())
    rows, dimension = train.shape
    digest = hashlib.blake2b(f"{rows} {dimension} {np.dtype(train.dtype).str}".encode(), digest_size=16)
    starts, size = range(0, rows, _BLOCK_ROWS), _BLOCK_ROWS
    if rows * dimension * np.dtype(train.dtype).itemsize > _WHOLE_BYTES:
        spaced = np.linspace(0, max(rows - _SAMPLE_ROWS, 0), _SAMPLES, dtype=np.int64)
        starts, size = spaced.tolist(), _SAMPLE_ROWS
    for start in starts:
        digest.update(np.ascontiguousarray(train[start : start + size]).data)
    return digest.hexdigest()
