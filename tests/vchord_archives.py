"""Real releases of VectorChord, where the machine has some, and installations to put them into."""

import os
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation, install, read_release
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation

from .postgres_fixtures import started

ARCHIVES = Path(
    os.environ.get("ANN_BENCHMARKS_VCHORD_ARCHIVES") or "~/.cache/ann-benchmarks/vchord"
).expanduser()


def archive(version_prefix: str) -> Path:
    """The newest release archive of a version, such as "1.1", for the embedded PostgreSQL; skips without."""
    major = Installation(embedded_installation()).major()
    found = {
        tuple(map(int, match[1].split("."))): path
        for path in (ARCHIVES.iterdir() if ARCHIVES.is_dir() else ())
        if (match := re.match(rf"postgresql-{major}-vchord_([\d.]+)[-_].*\.(zip|deb)$", path.name))
        and f"{match[1]}.".startswith(f"{version_prefix}.")
    }
    if not found:
        pytest.skip(
            f"no archive of VectorChord {version_prefix} for PostgreSQL {major} in {ARCHIVES} "
            "(ANN_BENCHMARKS_VCHORD_ARCHIVES)"
        )
    return found[max(found)]


def copied_installation(folder: Path) -> Path:
    """A copy of the embedded PostgreSQL below `folder`, to replace files in: they are links, not to edit.

    The wheel's layout is kept: its programs look for libraries in a folder next to their package's.
    """
    original = embedded_installation()
    package = original.parent
    for libraries in package.parent.glob(f"{package.name}.libs"):
        _linked_tree(libraries, folder / libraries.name)
    return _linked_tree(original, folder / package.name / original.name)


def installation_with_vchord(version_prefix: str, folder: Path) -> Path:
    """A copy of the embedded PostgreSQL with this version of VectorChord in it; skips without one.

    The account that runs servers must be able to enter `folder`.
    """
    release = read_release(archive(version_prefix), "vchord")
    copy = copied_installation(folder)
    install(release, Installation(copy))
    return copy


def installation_without_vchord(folder: Path) -> Path:
    """A copy of the embedded PostgreSQL without VectorChord, which the user may have installed there."""
    copy = copied_installation(folder)
    for file in list(copy.rglob("vchord*")):
        file.unlink()
    return copy


@pytest.fixture(scope="session")
def vchord_server(made_server: Path) -> Iterator[Server]:
    """One server with VectorChord for all tests that leave it as it is."""
    with started(made_server, partial(installation_with_vchord, "1.1")) as server:
        yield server


@pytest.fixture(scope="session")
def old_vchord_server(made_server: Path) -> Iterator[Server]:
    """One server with the first VectorChord that is supported."""
    with started(made_server, partial(installation_with_vchord, "1.0")) as server:
        yield server


def _linked_tree(source: Path, target: Path) -> Path:
    def link_or_copy(file: str, place: str) -> None:
        try:
            os.link(file, place)
        except OSError:  # on another disk, or somebody else's
            shutil.copy2(file, place)

    return Path(shutil.copytree(source, target, symlinks=True, copy_function=link_or_copy))
