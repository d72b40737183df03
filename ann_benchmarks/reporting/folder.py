"""The folder of a report: whole, or the older one stays; nothing of anybody else's is replaced."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from ann_benchmarks.common.errors import UserError

MARK_FILE = "report.json"
MARK = {"made_by": "python report.py"}


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside; if the block succeeds it takes the place of the older report.

    UserError if something else is there, or nothing can be written.
    """
    folder = folder.resolve()
    if folder == Path.cwd() or folder in Path.cwd().parents:
        raise UserError(f"{folder} is where you are: name a folder of the report's own with -o")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        clear_up(folder)
        check_replaceable(folder)
        temporary, old = beside(folder, "partial"), beside(folder, "replaced")
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


def beside(folder: Path, what: str) -> Path:
    """Return the name of a folder that only this process uses."""
    return folder.with_name(f".{folder.name}.{what}-{os.getpid()}")


def clear_up(folder: Path) -> None:
    """Put back a report that a killed process had moved away, and delete what one has left."""
    for what in ("replaced", "partial"):
        for left in folder.parent.glob(f".{glob_text(folder.name)}.{what}-*"):
            owner = left.name.rpartition("-")[2]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                if what == "replaced" and not folder.exists():
                    left.rename(folder)
                else:
                    shutil.rmtree(left)


def glob_text(text: str) -> str:
    """Have each character of a pattern mean itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def check_replaceable(folder: Path) -> None:
    """Raise UserError unless the folder is missing, empty, or an older report and nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder with -o")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    ours = files_of_report(folder)
    if ours is None:
        raise UserError(f"{folder} holds something else than a report: name another folder with -o")
    if others := sorted(names - ours):
        raise UserError(f"{folder} holds {others[0]}, which is none of the report's: move it elsewhere")


def files_of_report(folder: Path) -> set[str] | None:
    """Return the names of the files of the report in a folder, None if there is none."""
    try:
        content: Any = json.loads((folder / MARK_FILE).read_text(encoding="utf-8"))
        if content["made_by"] != MARK["made_by"]:
            return None
        return {str(name) for name in content["files"]}
    except (OSError, ValueError, LookupError, TypeError):
        return None
