"""Sparse vectors for tests, as arrays, as objects and as files."""

from pathlib import Path

import numpy as np

from ann_benchmarks.common.sparse import SparseVectors


def sparse_from(dense: np.ndarray) -> SparseVectors:
    rows, places = np.nonzero(dense)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(dense))))
    return SparseVectors(
        indptr.astype(np.int64),
        places.astype(np.int32),
        dense[rows, places].astype(np.float32),
        dense.shape[1],
    )


def dense_rows(rows: int, dimension: int, seed: int = 1, share: float = 0.1) -> np.ndarray:
    """Rows of which about `share` of the values are not 0; each has one at least."""
    draw = np.random.default_rng(seed)
    values = draw.random((rows, dimension)).astype(np.float32)
    values[draw.random(values.shape) > share] = 0
    values[np.arange(rows), draw.integers(dimension, size=rows)] = 0.5
    return values


def csr_bytes(vectors: SparseVectors) -> bytes:
    """A file as big-ann-benchmarks writes it."""
    header = np.array([*vectors.shape, len(vectors.data)], "<i8").tobytes()
    return b"".join([header, vectors.indptr.tobytes(), vectors.indices.tobytes(), vectors.data.tobytes()])


def write_csr(path: Path, vectors: SparseVectors) -> Path:
    path.write_bytes(csr_bytes(vectors))
    return path


def big_ann_truth(ids: np.ndarray, distances: np.ndarray) -> bytes:
    header = np.array(ids.shape, "<u4").tobytes()
    return header + ids.astype("<i4").tobytes() + distances.astype("<f4").tobytes()
