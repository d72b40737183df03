"""What identifies a training set: an index is used again only for the very same vectors."""

import hashlib
from typing import Any

import numpy as np

_WHOLE_BYTES = 2 << 30
_SAMPLED_BLOCKS = 256
_BLOCK_ROWS = 4096


def fingerprint(train: Any) -> str:
    """Hash shape, type and rows: all of them up to 2 GiB, else 256 blocks of 4,096 evenly spaced.

    `train` has a shape, a dtype, and rows by range, and may be larger than memory. Where it has a method
    `fingerprint` of its own, that decides.
    """
    if callable(own := getattr(train, "fingerprint", None)):
        return str(own())
    rows, dimension = train.shape
    digest = hashlib.blake2b(f"{rows} {dimension} {np.dtype(train.dtype).str}".encode(), digest_size=16)
    starts = range(0, rows, _BLOCK_ROWS)
    if rows * dimension * np.dtype(train.dtype).itemsize > _WHOLE_BYTES:
        chosen = np.linspace(0, len(starts) - 1, min(_SAMPLED_BLOCKS, len(starts)), dtype=int)
        starts_used = [starts[i] for i in chosen]
    else:
        starts_used = list(starts)
    for start in starts_used:
        digest.update(np.ascontiguousarray(train[start : start + _BLOCK_ROWS]).data)
    return digest.hexdigest()
