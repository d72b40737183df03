"""Which rows are the same vector."""

import numpy as np

_BLOCK = 4096


def hashes(rows: np.ndarray, spherical: bool) -> np.ndarray:
    """Return one number for each row, (n,) uint64: equal for equal vectors, or directions if `spherical`."""
    odd = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], np.uint64) * 2 + 1
    found = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK] + np.float32(0)  # -0.0 is 0.0
        if spherical:
            part = np.round(normalized(part), 5) + np.float32(0)
        bits = part.view(np.uint32).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits ^= bits >> np.uint64(32)
        found[start : start + _BLOCK] = (bits * odd).sum(axis=1)
    return found


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1; those of length 0 as they are."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), vectors.dtype)
