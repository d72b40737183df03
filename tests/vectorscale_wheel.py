"""pgvectorscale out of the wheel that is pinned: in a copy of the embedded PostgreSQL, or as a package."""

import os
import platform
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation, install, read_release
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing.local import get_wheel

from .postgres_fixtures import started
from .vchord_archives import copied_installation

LOCK = Path(__file__).parents[1] / "algorithms/pgvectorscale/release.lock"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ann-benchmarks/pgvectorscale"


def wheel() -> Path:
    """The wheel, which is downloaded once for all tests; skips where it cannot be had."""
    try:
        return get_wheel(LOCK, CACHE, "skipped")
    except UserError as error:
        pytest.skip(str(error))


def installation_with_vectorscale(folder: Path) -> Path:
    """A copy of the embedded PostgreSQL with pgvectorscale in it.

    The account that runs servers must be able to enter `folder`.
    """
    release = read_release(wheel(), "vectorscale")
    copy = copied_installation(folder)
    install(release, Installation(copy))
    return copy


@pytest.fixture(scope="session")
def vectorscale_server(made_server: Path) -> Iterator[Server]:
    """One server with pgvectorscale for all tests that leave it as it is."""
    with started(made_server, installation_with_vectorscale) as server:
        yield server


def release_stand_in(folder: Path, major: str, files: Mapping[str, bytes]) -> Path:
    """A .zip with the names and fields of pgvectorscale's release: a test double, and its package says so."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    name, tree = f"pgvectorscale-postgresql-{major}", folder / "tree"
    for file, content in files.items():
        kind = (
            f"lib/postgresql/{major}/lib" if file.endswith(".so") else f"share/postgresql/{major}/extension"
        )
        path = tree / "usr" / kind / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1:0.9.0-Linux\nArchitecture: {machine}\nDepends: postgresql-{major}\n"
        "Maintainer: nobody <nobody@invalid>\nDescription: a test double of pgvectorscale's package\n"
    )
    package = folder / f"{name}_0.9.0-Linux_{machine}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, package], check=True, capture_output=True)
    path = folder / f"pgvectorscale-0.9.0-pg{major}-{machine}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(package, package.name)
        archive.writestr(f"{name}-dbgsym_0.9.0-Linux_{machine}.deb", "symbols for a debugger")
    return path
