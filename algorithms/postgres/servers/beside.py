"""The folders of further servers, beside that of the first one."""

import os
from pathlib import Path

from ..environment import PREFIX
from ..errors import PostgresError


def folder_beside(folder: Path, name: str) -> Path:
    """Return the folder of another server, on the same disk; PostgresError where that is another disk."""
    if os.path.ismount(folder):
        raise PostgresError(
            f"{folder} is a disk of its own, and other servers have their folders beside it, on another disk:"
            f" name a folder on it, such as {PREFIX}DATA={folder / 'postgres'}"
        )
    return folder.with_name(f"{folder.name}-{name}")
