"""What a cold start begins with: files of which the system's cache holds nothing."""

import os
from pathlib import Path


def drop_from_cache(folder: Path) -> bool:
    """Have the system forget the files in a folder, which nobody may be writing; whether all were told."""
    if not hasattr(os, "posix_fadvise"):
        return False
    told = True
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            told = False
            continue
        try:
            os.fsync(file)  # only what is on the disk can be forgotten
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    return told
