"""Builds of an extension under names of the user's choice, such as base and head.

Each is in a copy of the embedded PostgreSQL, below `FOLDER/EXTENSION/NAME`. Two commits of an extension have
the same version; the digest of its files tells them apart.
"""

import hashlib
import shutil
from pathlib import Path

from .errors import PostgresError
from .servers.binaries import embedded_installation
from .servers.installation import ExtensionRelease, Installation, install

FOLDER = Path("data/releases")
_NAMES = {"vector": "pgvector"}  # of a folder, where it is not the extension's
_MARK = "build"  # the file in a build's folder that has its digest
_DIGITS = 12


def folder_of(extension: str) -> Path:
    """Return where the releases and builds of an extension are, a folder each."""
    return FOLDER / _NAMES.get(extension, extension)


def make_build(release: ExtensionRelease, folder: Path) -> None:
    """Put a copy of the embedded PostgreSQL with this release into an empty folder.

    PostgresError if it is for another PostgreSQL.
    """
    original = embedded_installation()
    package = original.parent
    # The wheel's layout is kept: its programs look for libraries in a folder next to their package's.
    try:
        for part in (original, *package.parent.glob(f"{package.name}.libs")):
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    except OSError as error:
        reason = error.strerror or "some of its files cannot be copied"
        raise PostgresError(f"cannot copy {original} to {folder}: {reason}; free some space there") from None
    install(release, Installation(folder / original.relative_to(package.parent)))
    (folder / _MARK).write_text(_digest(release))


def build_of(folder: Path) -> str:
    """Return the digest of the build in a folder, "" where it is none, but a published release."""
    try:
        return (folder / _MARK).read_text(errors="replace").strip()[:_DIGITS]
    except OSError:
        return ""


def _digest(release: ExtensionRelease) -> str:
    whole = hashlib.sha256()
    for name, content in sorted(release.contents.items()):
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:_DIGITS]
