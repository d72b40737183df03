"""Releases of pgvector beside each other on this machine: installed from wheels, run, told apart."""

import re
import zipfile

import h5py
import pytest

from ann_benchmarks.algorithms.postgres.errors import NotInstalledError, PostgresError
from ann_benchmarks.algorithms.postgres.servers import releases
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing import local as wheels

from .programs import call_program, temporary_folder

pytestmark = pytest.mark.thorough


@pytest.fixture
def folder():
    with temporary_folder() as folder:
        yield folder


def test_two_releases_are_two_curves(folder):
    installed = call_program("install.py", "--local", "--algorithm", "pgvector_hnsw:0.6.2", cwd=folder)
    if "cannot be downloaded" in installed.stderr:
        pytest.skip(installed.stderr.strip())
    assert installed.returncode == 0, installed.stderr
    assert "pgvector 0.6.2 is installed with a PostgreSQL 16 in data/releases/pgvector" in installed.stdout
    again = call_program("install.py", "--local", "--algorithm", "pgvector_hnsw:0.6.2", cwd=folder)
    assert "is here already" in again.stdout
    options = ("--dataset", "clustered-500-8-euclidean", "--runs", "1", "--max-n-algorithms", "1")
    one_point = ("--clients", "1", "--target-recall", "0.5", "--max-queries", "50", "--warmup", "50")
    both = ("--algorithm", "pgvector_hnsw:0.6.2", "pgvector_hnsw")
    ran = call_program("run.py", "--local", *both, *options, *one_point, cwd=folder)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    versions = {}
    for path in folder.glob("results/*/10/*/*.hdf5"):
        with h5py.File(path) as file:
            versions[path.parent.name] = file.attrs["vector_version"], file.attrs["postgres_version"]
    here = Installation(embedded_installation())
    assert set(versions) == {"pgvector_hnsw-c1", "pgvector_hnsw-0.6.2-c1"}
    old, new = versions["pgvector_hnsw-0.6.2-c1"], versions["pgvector_hnsw-c1"]
    assert old[0] == "0.6.2" and old[1].startswith("16.")
    assert new[0] == here.version_of("vector") and new[1].startswith(f"{here.major()}.")


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("pgvector_hnsw:0.6.2", "pgvector 0.6.2 is not here: `python install.py --local"),
        ("pgvector_hnsw:0.1", "--archive FILE takes one that you have; there are wheels with"),
        ("vchord:1.0.0", "'vchord' has no build 1.0.0"),
        ("bruteforce-numpy:2", "has one version here, and a tag names another: leave it out"),
    ],
)
def test_a_tag_that_means_nothing_here_is_one_line(tmp_path, algorithm, said):
    ran = call_program(
        "run.py", "--local", "--algorithm", algorithm, "--dataset", "clustered-300-4-euclidean", cwd=tmp_path
    )
    assert ran.returncode == 1 and said in ran.stderr, ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr and ran.stderr.count("error:") == 1
    assert not list(tmp_path.glob("results/*/*/*/*.hdf5"))


def test_a_tag_does_not_go_with_tiers_nor_with_version(tmp_path):
    words = ("--dataset", "clustered-300-4-euclidean", "--tiers", "64MB:256MB")
    ran = call_program("run.py", "--local", "--algorithm", "pgvector_hnsw:0.6.2", *words, cwd=tmp_path)
    assert ran.returncode == 1 and "--tiers --local measures the one server" in ran.stderr
    ran = call_program(
        "install.py", "--local", "--algorithm", "pgvector_hnsw:0.6.2", "--version", "0.7", cwd=tmp_path
    )
    assert ran.returncode == 1 and "both name a release" in ran.stderr


def test_the_release_that_is_here_needs_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    version = Installation(embedded_installation()).version_of("vector")
    assert releases.installed("vector", version) == embedded_installation()
    assert "is here already" in releases.install_release("vector", version, None)


def test_wheels_that_will_not_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(PostgresError, match="other.whl has no vector.control: it holds __init__.py"):
        releases.install_release("vector", "0.6.2", wheel)
    wheel.write_bytes(b"no wheel")
    with pytest.raises(PostgresError, match="is damaged, or not a .zip, .whl, .*: .*; download it again"):
        releases.install_release("vector", "0.6.2", wheel)
    with pytest.raises(PostgresError, match="pgvector 0.1 is in no wheel; there are wheels with 0.5.1"):
        releases.install_release("vector", "0.1", None)
    pinned = f"no-such-package-of-postgres==1 --hash=sha256:{'0' * 64}"
    (tmp_path / "pgvector-0.2.lock").write_text(pinned)
    monkeypatch.setitem(releases.WHEELS, "0.2", tmp_path / "pgvector-0.2.lock")
    with pytest.raises(PostgresError, match="cannot be downloaded: .*--archive WHEEL takes yours"):
        releases.install_release("vector", "0.2", None)
    assert not list((tmp_path / "data/releases/pgvector").iterdir())
    with pytest.raises(NotInstalledError):
        releases.use_release("vector", "0.6.2")


def test_another_wheel_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    (tmp_path / "pins").mkdir()
    with zipfile.ZipFile(tmp_path / "thing_of_ours-1-py3-none-any.whl", "w") as archive:
        archive.writestr("thing_of_ours-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    lock = tmp_path / "pins/pgvector-0.2.lock"
    lock.write_text(f"thing_of_ours==1 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setitem(releases.WHEELS, "0.2", lock)
    with pytest.raises(PostgresError, match="has another sha256 than the one it is pinned by; --archive"):
        releases.download("0.2", tmp_path / "pins")
    monkeypatch.setattr(releases, "MOST_SECONDS", 0)
    with pytest.raises(PostgresError, match="thing_of_ours==1 has not arrived within 0 s; try again"):
        releases.download("0.2", tmp_path / "pins")
    monkeypatch.setattr(wheels, "MOST_WHEEL_SECONDS", 0)
    with pytest.raises(UserError, match="thing_of_ours==1 has not arrived within 0 s; try another"):
        wheels.get_wheel(lock, tmp_path / "pins", "try another")


def test_every_release_is_pinned():
    assert list(releases.WHEELS) == ["0.5.1", "0.6.2", "0.7.4", "0.8.0", "0.8.1", "0.8.5", "0.8.6"]
    for lock in releases.WHEELS.values():
        wheel, *pins = lock.read_text().replace("\\\n", "").split()
        assert re.fullmatch(r"[\w-]+==[\d.]+", wheel)
        assert pins and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", pin) for pin in pins)


def test_nothing_of_a_wheel_is_run_when_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = b"#!/bin/sh\ntouch %s/ran\necho 'postgres (PostgreSQL) 17.1'\n" % str(tmp_path).encode()
    with zipfile.ZipFile("own.whl", "w") as archive:
        archive.writestr("own/pginstall/bin/postgres", program)
        archive.writestr(
            "own/pginstall/share/postgresql/extension/vector.control", "default_version = '9.9'\n"
        )
    said = releases.install_release("vector", "9.9", tmp_path / "own.whl")
    assert "with a PostgreSQL 17 in data/releases" in said
    assert not (tmp_path / "ran").exists()
