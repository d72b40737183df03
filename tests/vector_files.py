"""Write vectors in each format that the project reads."""

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RANDOM = np.random.default_rng(5)
VECTORS = RANDOM.standard_normal((1000, 12)).astype(np.float32)
BYTES = RANDOM.integers(-128, 128, (1000, 12)).astype(np.int8)


def write_npy(path: Path, vectors: np.ndarray, version: tuple[int, int] = (1, 0)) -> Path:
    with path.open("wb") as file:
        np.lib.format.write_array(file, vectors, version=version)
    return path


def write_hdf5(path: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def write_chunked(path: Path, vectors: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("train", data=vectors, chunks=(64, vectors.shape[1]), compression="gzip")
    return path


def write_big_ann(path: Path, vectors: np.ndarray) -> Path:
    path.write_bytes(np.array(vectors.shape, "<u4").tobytes() + vectors.tobytes())
    return path


def lists(vectors: np.ndarray, kind: str = "list") -> pa.Array:
    values, width = pa.array(vectors.ravel()), vectors.shape[1]
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, width)
    ends = np.arange(len(vectors) + 1) * width
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(ends), values)
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values)


def write_parquet(path: Path, column: pa.Array, group: int = 300, ids: np.ndarray | None = None) -> Path:
    ids = np.arange(len(column)) if ids is None else ids
    pq.write_table(pa.table({"id": ids, "emb": column}), path, row_group_size=group, data_page_size=2000)
    return path


FORMATS = {
    "npy": lambda at: (write_npy(at / "v.npy", VECTORS), VECTORS),
    "npy 2": lambda at: (write_npy(at / "v.npy", VECTORS, (2, 0)), VECTORS),
    "npy 3": lambda at: (write_npy(at / "v.npy", VECTORS, (3, 0)), VECTORS),
    "npy float16": lambda at: (write_npy(at / "v.npy", VECTORS.astype("f2")), VECTORS.astype("f2")),
    "npy float64": lambda at: (write_npy(at / "v.npy", VECTORS.astype("f8")), VECTORS.astype("f8")),
    "npy big-endian": lambda at: (write_npy(at / "v.npy", VECTORS.astype(">f4")), VECTORS),
    "npy int8": lambda at: (write_npy(at / "v.npy", BYTES), BYTES),
    "npy bool": lambda at: (write_npy(at / "v.npy", BYTES > 0), BYTES > 0),
    "hdf5": lambda at: (write_hdf5(at / "v.hdf5", train=VECTORS, test=VECTORS[:9]), VECTORS),
    "hdf5 big-endian": lambda at: (write_hdf5(at / "v.h5", a=VECTORS.astype(">f4")), VECTORS),
    "hdf5 bool": lambda at: (write_hdf5(at / "v.h5", a=BYTES > 0), BYTES > 0),
    "hdf5 chunked": lambda at: (write_chunked(at / "v.hdf5", VECTORS), VECTORS),
    "fbin": lambda at: (write_big_ann(at / "v.fbin", VECTORS), VECTORS),
    "cropped": lambda at: (write_big_ann(at / "v.1B.fbin.crop_nb_1000", VECTORS), VECTORS),
    "u8bin": lambda at: (write_big_ann(at / "v.u8bin", BYTES.view("u1")), BYTES.view("u1")),
    "i8bin": lambda at: (write_big_ann(at / "v.i8bin", BYTES), BYTES),
    "parquet": lambda at: (write_parquet(at / "v.parquet", lists(VECTORS)), VECTORS),
    "parquet float64": lambda at: (
        write_parquet(at / "v.parquet", lists(VECTORS.astype("f8"))), VECTORS.astype("f8"),
    ),
    "parquet float16": lambda at: (
        write_parquet(at / "v.parquet", lists(VECTORS.astype("f2"))), VECTORS.astype("f2"),
    ),
    "parquet large": lambda at: (write_parquet(at / "v.parquet", lists(VECTORS, "large")), VECTORS),
    "parquet fixed": lambda at: (write_parquet(at / "v.parquet", lists(VECTORS, "fixed")), VECTORS),
}  # fmt: skip
