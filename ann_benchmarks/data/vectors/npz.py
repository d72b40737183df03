"""Vectors in NPZ archives, compressed or not."""

import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

from .flat import read_npy_header, require_row_order
from .reading import choose, reading, require_vectors, row_range
from .rows import Rows


class NpzRows(Rows):
    """An array of an archive, read as a stream: going back begins anew, going on costs nothing."""

    def __init__(self, path: Path, key: str) -> None:
        self.paths = (path.absolute(),)
        with reading(path), zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            self._key = choose(path, "array", names, key)
            self.label = f"{path}:{self._key}"
            with archive.open(f"{self._key}.npy") as member:
                shape, by_column, self._stored = read_npy_header(member)
                self._offset = member.tell()
            size = archive.getinfo(f"{self._key}.npy").file_size
        require_row_order(self.label, shape, by_column)
        require_vectors(self.label, shape, self._stored)
        self.shape, self.dtype = (shape[0], shape[1]), self._stored.newbyteorder("=")
        if self._offset + self.nbytes > size:
            raise UserError(
                f"cannot read {self.label}: its header promises {shape[0]:,} rows of {shape[1]} "
                f"{self.dtype}, {self._offset + self.nbytes:,} bytes, but the archive has {size:,} of it; "
                "write it again"
            )
        self._member: Any = None
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        rows = np.empty((stop - start, self.shape[1]), self._stored)
        with self._lock, reading(row_range(self.label, start, stop)):
            if rows.nbytes:
                self._fill(rows.reshape(-1).view(np.uint8).data, start)
        if self._stored.isnative:
            return rows
        return rows.byteswap(inplace=True).view(self.dtype)

    def _fill(self, view: memoryview, start: int) -> None:
        member = self._member or self._open()
        self._member = None  # not used again after an error
        at = self._offset + start * (self.nbytes // len(self))
        if member.tell() != at:
            member.seek(at)
        done = 0
        while done < len(view):
            got = member.readinto(view[done:])
            if not got:
                raise EOFError("the archive ends too early")
            done += got
        self._member = member

    def _open(self) -> Any:
        with zipfile.ZipFile(self.paths[0]) as archive:
            return archive.open(f"{self._key}.npy")  # keeps the file open

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._member = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_member": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
