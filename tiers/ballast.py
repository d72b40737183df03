"""Ordinary memory that is locked, where it is too scattered for huge pages. It goes with this process."""

import ctypes
import mmap
import os

from ann_benchmarks.common.errors import UserError

from .meminfo import meminfo, readable
from .tier import MIB

MOST = 0.05  # share of the machine's memory
_PART = 4 * MIB


class Ballast:
    """Memory of this process that cannot be pushed out, in parts of 4 MiB."""

    def __init__(self) -> None:
        """Take none yet."""
        self._parts: list[mmap.mmap] = []
        self.most = int(MOST * meminfo()["MemTotal"])

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._parts) * _PART

    def resize(self, size: int) -> None:
        """Hold about so many bytes; UserError where the system does not allow it."""
        parts = max(round(size / _PART), 0)
        while len(self._parts) > parts:
            self._parts.pop().close()
        while len(self._parts) < parts:
            self._parts.append(_locked())


def _locked() -> mmap.mmap:
    part = mmap.mmap(-1, _PART, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = (ctypes.c_char * _PART).from_buffer(part)
    failed = ctypes.CDLL(None, use_errno=True).mlock(ctypes.byref(view), ctypes.c_size_t(_PART))
    reason = os.strerror(ctypes.get_errno())
    del view  # else the part could not be closed
    if failed:
        part.close()
        raise UserError(f"{readable(_PART)} cannot be locked in memory: {reason}")
    return part
