"""A folder that is written whole, or the older one stays."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from .errors import UserError

LEFTOVERS = ("partial", "replaced")  # hidden folders next to it, while it is written


@contextmanager
def whole_folder(folder: Path, check: Callable[[Path], None], option: str) -> Iterator[Path]:
    """Yield an empty folder next to it, which takes the place of an older one if the block succeeds.

    `check` raises UserError if what is there must not be replaced; `option` is where the user names another.
    UserError also if nothing can be written.
    """
    folder = folder.resolve()
    if folder == Path.cwd() or folder in Path.cwd().parents:
        raise UserError(f"{folder} is the folder you are in: name another with {option}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        clear_up(folder)
        check(folder)
        temporary, old = (folder.with_name(f".{folder.name}.{what}-{os.getpid()}") for what in LEFTOVERS)
        temporary.mkdir()
        try:
            yield temporary
            if folder.exists():
                folder.rename(old)
            temporary.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        finally:
            for left in (temporary, old):
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error


def clear_up(folder: Path) -> None:
    """Put back a folder that a killed process had moved away, and delete what one has left."""
    name = "".join(f"[{c}]" if c in "*?[" else c for c in folder.name)
    for what in reversed(LEFTOVERS):
        for left in folder.parent.glob(f".{name}.{what}-*"):
            owner = left.name.rpartition("-")[2]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                if what == "replaced" and not folder.exists():
                    left.rename(folder)
                else:
                    shutil.rmtree(left)
