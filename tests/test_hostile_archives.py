"""Archives that are damaged, or made to do harm: refused on one line, soon, in little memory."""

import io
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import archive as bounds
from ann_benchmarks.algorithms.postgres.servers.archive import read_archive, unpack
from ann_benchmarks.algorithms.postgres.servers.installation import read_release

from .archives import tarred
from .programs import run_program

pytestmark = pytest.mark.thorough

FILES = {
    "lib/thing.so": bytes(range(256)) * 20,
    "share/thing.control": b"default_version = '1.2.0'\n",
    "share/thing--1.2.0.sql": b"SELECT 1;\n" * 20,
}


def zipped(files: dict[str, bytes] = FILES, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(name), body, compression)
    return content.getvalue()


WHOLE = {
    "zip": zipped(),
    "stored zip": zipped(compression=zipfile.ZIP_STORED),
    "zip by lzma": zipped(compression=zipfile.ZIP_LZMA),
    "tar": tarred(FILES),
    "tar.gz": tarred(FILES, "gz"),
    "tar.xz": tarred(FILES, "xz"),
}


def harm(path: Path, content: bytes) -> str:
    """Read an archive in every way; return the one line that refuses it, "" where none does."""
    path.write_bytes(content)
    said = ""
    for read in (
        lambda: read_archive(path),
        lambda: read_release(path, "thing"),
        lambda: unpack(path, fresh(path), lambda member: True),
    ):
        try:
            read()
        except PostgresError as error:
            said = str(error)
            assert "\n" not in said and str(path) in said and len(said) < 600
    for made in fresh(path).parent.rglob("*"):
        assert not made.is_symlink()
    return said


def fresh(path: Path) -> Path:
    """A new folder to unpack to."""
    folder = path.with_name("unpacked") / str(time.monotonic_ns())
    folder.mkdir(parents=True)
    return folder


def test_the_archives_are_right(tmp_path: Path) -> None:
    for content in WHOLE.values():
        assert harm(tmp_path / "x", content) == ""
        assert read_archive(tmp_path / "x") == FILES


@pytest.mark.parametrize("kind", WHOLE)
def test_cut_off_anywhere(tmp_path: Path, kind: str, step: int = 0) -> None:
    whole = WHOLE[kind]
    for size in range(0, len(whole), step or max(len(whole) // 40, 1)):
        harm(tmp_path / "x", whole[:size])


@pytest.mark.parametrize("kind", WHOLE)
@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=12))
def test_changed_anywhere(tmp_path: Path, kind: str, changes: list[tuple[int, int]]) -> None:
    content = bytearray(WHOLE[kind])
    for place, value in changes:
        content[place % len(content)] = value
    harm(tmp_path / "x", bytes(content))


NAMES = ["../x.so", "a/../../x.so", "/etc/x.so", "..", "a\x1b[2Jb.so", "a\nb.so", "..\\x.so"]
HOSTILE: dict[str, Callable[[], bytes]] = {
    **{f"zip: {name!a}": lambda name=name: zipped({name: b""}) for name in NAMES},
    **{f"tar: {name!a}": lambda name=name: tarred({name: b""}) for name in NAMES},
    "tar: members": lambda: tarred({f"{number}": b"" for number in range(501)}, "gz"),
    "tar: large members": lambda: tarred({"lib/thing.so": bytes(3 << 20)}, "gz"),
    "zip: large members": lambda: zipped({"lib/thing.so": bytes(3 << 20)}),
    "deb: nothing": lambda: b"!<arch>\n",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_was_made_to_do_harm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(bounds, "_MOST_FILES", 500)
    monkeypatch.setattr(bounds, "_MOST_BYTES", 2 << 20)
    folder = tmp_path / "a/b/c"
    folder.mkdir(parents=True)
    assert harm(folder / "x", HOSTILE[case]())
    assert {path.name for path in tmp_path.rglob("x*")} == {"x"}


@pytest.mark.parametrize(
    "control",
    [
        b"default_version = '../../../evil'\n",
        b"default_version = '/evil'\n",
        b"default_version = '1..2'\n",
        b"default_version = '.'\n",
        b"default_version = '1.2.0'\nmodule_pathname = '$libdir/..'\n",
    ],
)
def test_versions_and_libraries_that_lead_elsewhere(tmp_path: Path, control: bytes) -> None:
    (tmp_path / "x").write_bytes(zipped({**FILES, "share/thing.control": control, "lib/...so": b""}))
    with pytest.raises(PostgresError, match="not a version or file name"):
        read_release(tmp_path / "x", "thing")


def test_the_command_refuses_on_one_line(tmp_path: Path) -> None:
    """Files that are not archives, and a wheel that is damaged in the middle."""
    package, wheel = tmp_path / "x.tar", tmp_path / "x.whl"
    package.write_bytes(b"x" * 512)
    content = bytearray(zipped({"p/pginstall/bin/postgres": bytes(range(256)) * 1000}))
    content[len(content) // 2] ^= 0xFF
    wheel.write_bytes(content)
    for algorithm, archive in (("pgvector_hnsw", package), ("pgvector_hnsw:9.9", wheel)):
        words = ("--local", "--algorithm", algorithm, "--archive", archive)
        done = run_program("install.py", *words, cwd=tmp_path, timeout=60)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"error: {archive} is damaged, or not a .zip")


@pytest.mark.skipif(sys.platform != "linux", reason="another system has other devices")
def test_what_is_no_file(tmp_path: Path) -> None:
    subprocess.run(["mkfifo", tmp_path / "pipe"], check=True)
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(PostgresError, match="it is not a regular file"):
            read_archive(path)
