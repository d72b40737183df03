"""Write vectors as NPY, in bounded memory; what is interrupted goes on where it stopped."""

import glob
import hashlib
import io
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors, require_space, sync_folder, unfinished_file

from .rows import BLOCK_BYTES, Rows

CHECKPOINT_BYTES = 2**28  # brought to the disk at once: what was written before them survives a power cut


def convert(rows: Rows, path: Path, dtype: Any = None) -> None:
    """Write `path`, an NPY file of version 1.0 in C order: there when it is whole, or not at all.

    What has been written stays next to it, under a name that tells the source and its state, and the next
    call goes on from there. Raises UserError for a full disk, a damaged source, and numbers that `dtype`
    cannot hold.
    """
    stored = np.dtype(dtype or rows.dtype)
    header, row_bytes = _header(rows.shape, stored), rows.shape[1] * stored.itemsize
    total = len(header) + len(rows) * row_bytes
    partial = path.with_name(f".{path.name}.{_identity(rows, stored)}.partial")
    require_space(path.parent, total - (partial.stat().st_size if partial.exists() else 0))
    with disk_errors(path):
        file = unfinished_file(partial, f"writing {partial}")
    if file is None:
        return  # while this run waited, another gave the file its name
    with disk_errors(path), file:
        for other in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
            if other != partial:
                other.unlink()
        written = os.fstat(file.fileno()).st_size - len(header) - CHECKPOINT_BYTES
        done = max(0, written // row_bytes) if rows.paths else 0
        file.truncate(len(header) + done * row_bytes if done else 0)
        file.write(header)
        file.seek(len(header) + done * row_bytes)
        synced = done
        size = max(1, BLOCK_BYTES // (rows.shape[1] * max(stored.itemsize, rows.dtype.itemsize)))
        title = f"writing {path.name}"
        with tqdm(
            None, title, len(rows), initial=done, unit="row", unit_scale=True, delay=1, disable=None
        ) as bar:
            for start in range(done, len(rows), size):
                stop = min(start + size, len(rows))
                file.write(np.ascontiguousarray(cast(rows, start, rows.read(start, stop), stored)).data)
                bar.update(stop - start)
                if (stop - synced) * row_bytes >= CHECKPOINT_BYTES:
                    _sync(file)
                    synced = stop
        _sync(file)
        partial.replace(path)
        sync_folder(path.parent)


def cast(rows: Rows, start: int, block: np.ndarray, stored: np.dtype) -> np.ndarray:
    """Return rows from `start` on as another type; UserError for a number that it cannot hold."""
    if block.dtype == stored:
        return block
    with np.errstate(all="ignore"):  # reported below, with the row
        converted = block.astype(stored)
        lost = np.isinf(converted) & np.isfinite(block) if stored.kind == "f" else converted != block
    if lost.any():
        row, place = divmod(int(np.argmax(lost)), block.shape[1])
        raise UserError(
            f"{rows.row_name(start + row)} has {block[row, place]} as number {place} (from 0), which "
            f"{stored} cannot hold; convert to a larger type"
        )
    return converted


def _header(shape: tuple[int, int], stored: np.dtype) -> bytes:
    buffer = io.BytesIO()
    description = {
        "descr": np.lib.format.dtype_to_descr(stored),
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def _identity(rows: Rows, stored: np.dtype) -> str:
    """Return a digest of what must not have changed between two runs."""
    files = [(path, path.stat()) for path in rows.paths]
    states = [(str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in files]
    text = repr((rows.label, rows.shape, rows.dtype.str, stored.str, states))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
