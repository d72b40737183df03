"""The image of pgpu, made of stand-ins, and the libraries that it loads."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import programs
from ann_benchmarks.algorithms.postgres.servers.account import ServerAccount
from ann_benchmarks.algorithms.postgres.servers.programs import SUFFIX, library_folders, library_path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.installing.catalog import ImageCatalog
from ann_benchmarks.installing.context import read_build_arguments
from ann_benchmarks.installing.main import main

from .docker_engine import BASE, install
from .programs import ROOT, takes_long
from .vchord_archives import ARCHIVES

pytestmark = pytest.mark.thorough

ALGORITHMS = ROOT / "algorithms"
IMAGE = "ann-benchmarks-pgpu"


def catalog(*arguments: str) -> ImageCatalog:
    configs, broken = read_configs(ALGORITHMS)
    return ImageCatalog(
        ALGORITHMS, configs, broken, read_build_arguments(arguments), "debian:trixie-slim", None
    )


@pytest.fixture
def package(tmp_path: Path) -> str:
    (tmp_path / "x.deb").touch()
    return f"PGPU={tmp_path}/x.deb"


@pytest.mark.parametrize("further", [[], ["--build-arg", "PGPU=2.0.0"]])
def test_without_a_file_a_line_says_what_to_give(further: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        main(["--algorithm", "pgpu", *further])
    assert str(raised.value) == (
        f"{IMAGE} needs a package that you have: give --build-arg PGPU=./FILE.deb with pgpu's package, which"
        " EnterpriseDB's repository has (docs/docker.md)"
    )


def test_an_install_of_everything_leaves_it_out(package: str) -> None:
    book = catalog()
    images = {each.image for each in book.specs(None)}
    assert IMAGE not in images and "ann-benchmarks-vchord" in images
    assert "give --build-arg PGPU=./FILE.deb" in book.left_out[IMAGE]
    book = catalog(package)
    assert IMAGE in {each.image for each in book.specs(None)} and book.left_out == {}


def test_its_layers_are_those_of_vectorchord() -> None:
    """Up to pgpu's own, so that they are stored once."""
    text = (ALGORITHMS / "vchord/Dockerfile").read_text()
    assert text[text.index("COPY ") :] in (ALGORITHMS / "pgpu/Dockerfile").read_text()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_what_pgpu_loads_is_found_in_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of cuVS that needs one of CUDA, each in the folder of its wheel."""
    folders = [tmp_path / "libcuvs/lib64", tmp_path / "nvidia/cu13/lib"]
    for folder in folders:
        folder.mkdir(parents=True)
    cublas = linked(folders[1], "libcublas.so.13")
    cuvs = linked(folders[0], "libcuvs_c.so", cublas, linked(tmp_path, "libcuda.so.1"))
    content = linked(tmp_path, "pgpu.so", cuvs).read_bytes()
    account = ServerAccount("stranger", 65534, 65534)
    monkeypatch.setattr(programs, "server_account", lambda: account)
    with pytest.raises(
        PostgresError, match=r"^pgpu.so needs libcuvs_c.so, which .*`pip install libcuvs-cu13`"
    ):
        library_folders("pgpu.so", content)
    monkeypatch.syspath_prepend(tmp_path)
    if os.geteuid() == 0:  # pytest's folder is root's own
        with pytest.raises(
            PostgresError, match="^the server's account 'stranger' cannot read .*libcuvs/lib64"
        ):
            library_folders("pgpu.so", content)
    account = ServerAccount("")
    found = library_folders("pgpu.so", content)
    assert found == [str(folder) for folder in folders]
    (tmp_path / f"pgpu{SUFFIX}").write_text("\n".join(found))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/given")
    assert library_path(tmp_path) == {"LD_LIBRARY_PATH": ":".join([*found, "/given"])}
    assert library_path(folders[0]) == {}


# The image itself


def stand_in(folder: Path, version: str, major: str = "17") -> Path:
    """A package NAMED a stand-in: an extension pgpu of one SQL function, which needs no library."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    extension = tree / f"usr/share/postgresql/{major}/extension"
    extension.mkdir(parents=True)
    (extension / "pgpu.control").write_text(
        f"comment = 'a stand-in for pgpu'\ndefault_version = '{version}'\nrelocatable = false\n"
        "superuser = true\nschema = 'pgpu'\nrequires = 'vector, vchord'\n"
    )
    (extension / f"pgpu--{version}.sql").write_text(
        "CREATE FUNCTION ping() RETURNS text RETURN 'a stand-in';\n"
    )
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: edb-pg17-pgpu\nVersion: {version}-1.bookworm\nArchitecture: amd64\n"
        "Maintainer: nobody <nobody@invalid>\n"
        f"Depends: edb-pg{major}-pgvector-0 (>= 0.8), libc6, libcublas-12-9, postgresql-{major},"
        f" edb-pg{major}-vectorchord | postgresql-{major}-vchord\nDescription: a stand-in for pgpu\n"
    )
    path = folder / f"edb-pg17-pgpu_{version}-1.bookworm_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, path], check=True, capture_output=True)
    return path


@pytest.fixture
def vchord() -> Path:
    packages = sorted(ARCHIVES.glob("postgresql-17-vchord_*.deb")) if ARCHIVES.is_dir() else []
    if not packages:
        pytest.skip(f"no package of VectorChord in {ARCHIVES} (ANN_BENCHMARKS_VCHORD_ARCHIVES)")
    return packages[-1]


@dataclass
class Image:
    """The image of pgpu, built with a tag of its own."""

    engine: Any
    folder: Path
    vchord: Path
    name: str = f"{IMAGE}:test{os.getpid()}"

    def build(self, package: Path) -> "subprocess.CompletedProcess[str]":
        chosen = self.name.removeprefix("ann-benchmarks-")
        common = ("--algorithm", chosen, "--base", "debootstrap", "--build-arg", f"VCHORD={self.vchord}")
        return install(*common, f"CUDA={BASE}", f"PGPU={package}", folder=self.folder)

    def built(self, package: Path) -> "subprocess.CompletedProcess[str]":
        done = self.build(package)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def failure(self, package: Path) -> str:
        done = self.build(package)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        return line

    @property
    def log(self) -> str:
        return (self.folder / f"logs/install/{self.name.replace(':', '-')}.log").read_text()


@pytest.fixture
def image(engine: Any, base_image: str, vchord: Path, tmp_path: Path) -> Iterator[Image]:
    made = Image(engine, tmp_path, vchord)
    yield made
    if engine.images.list(made.name):
        engine.images.remove(made.name, force=True)


@takes_long
def test_the_image_of_pgpu_with_a_stand_in(engine: Any, image: Image, tmp_path: Path) -> None:
    """All but NVIDIA's image, EnterpriseDB's package and a GPU: stand-ins play these."""
    package = stand_in(tmp_path, "2.0.0")
    done = image.built(package)
    assert re.search(r"vchord 1\.\S+, pgpu 2\.0\.0|pgpu 2\.0\.0.* vchord 1\.", done.stdout), done.stdout
    assert engine.images.get(image.name).labels["ann-benchmarks.gpu"] == "all"
    assert "installed: pgpu 2.0.0" in image.log
    assert re.search(rf"{image.name} +unchanged", image.built(package).stdout)
    older = stand_in(tmp_path, "1.0.0", major="16")
    assert "holds pgpu for PostgreSQL 16, no pgpu for Debian's PostgreSQL 17" in image.failure(older)
    (tmp_path / "text.deb").write_text("no package\n")
    assert "text.deb is not a Debian package" in image.failure(tmp_path / "text.deb")


def linked(folder: Path, name: str, *needs: Path) -> Path:
    """A library that does nothing, and needs others."""
    path = folder / name
    source = folder / "empty.c"
    source.write_text("")
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-o", path, source]
    subprocess.run([*command, *needs], check=True)
    return path
