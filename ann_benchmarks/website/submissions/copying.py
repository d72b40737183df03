"""Copies the files of a bundle next to its page, in forms in which a browser runs nothing of theirs."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import scratch_path
from ann_benchmarks.submission.manifest import MANIFEST, file_in

from .reading import SubmittedBundle

REPORT = "report/report.html"
# What browsers show as text or picture, or keep as a file. Any other kind gets a name of text.
INERT = frozenset({".csv", ".hdf5", ".json", ".md", ".png", ".txt", ".yaml", ".yml"})
AS_TEXT = ".txt"
# The first element of the report's page: with it, a browser loads nothing but its pictures, and runs nothing.
POLICY = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src'
    " 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">\n"
)
DIRECTIVE = re.compile("http-equiv", re.IGNORECASE)  # such as one that leads to another page


def copy_files(bundle: SubmittedBundle, folder: Path) -> Mapping[str, str]:
    """Copy every file of a bundle into a folder; return the path of each copy in it by that of the file.

    OSError where a copy cannot be written, UserError where a file has gone.
    """
    names = (MANIFEST, *bundle.manifest.files)
    copies = {name: name for name in names if is_inert(name)}
    for name in names:
        source = file_in(bundle.folder, name)
        copy = copies.get(name) or f"{name}{AS_TEXT}"
        while name not in copies and copy in copies.values():  # which a bundle can have on purpose
            copy += AS_TEXT
        copies[name] = copy
        with scratch_path(folder / copy) as temporary:
            if name == REPORT:
                temporary.write_text(without_scripts(source), encoding="utf-8")
            else:
                shutil.copyfile(source, temporary)
            temporary.replace(folder / copy)
    return copies


def is_inert(name: str) -> bool:
    """Whether a file of this name may keep it."""
    return name == REPORT or PurePosixPath(name).suffix.lower() in INERT


def without_scripts(path: Path) -> str:
    """Return a page of others that runs no script, sends nothing and leads nowhere by itself."""
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError:
        raise UserError(f"{path} is no text in UTF-8") from None
    return POLICY + DIRECTIVE.sub("data-equiv", text)
