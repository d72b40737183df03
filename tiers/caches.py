"""A system that remembers no file."""

import os
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.algorithms.postgres.machine import drop_from_cache

_DROP = Path("/proc/sys/vm/drop_caches")


def drop_caches(folder: Path | None = None, everything: bool = True) -> None:
    """Write back and forget the files of a folder; with `everything` all files, where that is allowed."""
    if folder is not None:
        with suppress(FileNotFoundError):  # a file that goes meanwhile
            drop_from_cache(folder)
    if everything:
        os.sync()
        with suppress(OSError):
            _DROP.write_text("3")
