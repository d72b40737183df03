"""Files that the system's cache is to forget: all of them, or it is told that some were not."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers.machine import drop_from_cache

NOBODY = 65534
pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system cannot be told")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder as a server's: files in folders, a link, and a pipe, at which opening would wait."""
    with tempfile.TemporaryDirectory(prefix="ann-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "base/16384").mkdir(parents=True)
        (folder / "base/16384/2619").write_bytes(bytes(1 << 20))
        (folder / "PG_VERSION").write_text("17\n")
        (folder / "pg_wal").symlink_to(folder / "none-such")
        os.mkfifo(folder / "pipe")
        yield folder


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Root may open every file."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


def test_all_files_are_dropped(folder: Path) -> None:
    assert drop_from_cache(folder) is True
    assert (folder / "base/16384/2619").read_bytes() == bytes(1 << 20)


def test_a_file_that_cannot_be_opened_is_told(folder: Path, request: pytest.FixtureRequest) -> None:
    (folder / "PG_VERSION").chmod(0)
    request.getfixturevalue("ordinary_user")
    assert drop_from_cache(folder) is False


def test_each_file_is_told_of_also_after_one_that_was_not(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    advise = os.posix_fadvise

    def noting(file: int, *how: int) -> None:
        told.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        advise(file, *how)

    if not Path("/proc/self/fd").exists():
        pytest.skip("it cannot be seen which file was told of")
    (folder / "PG_VERSION").chmod(0)
    monkeypatch.setattr(os, "posix_fadvise", noting)
    request.getfixturevalue("ordinary_user")
    drop_from_cache(folder)
    assert told == [str(folder / "base/16384/2619")]


def test_a_system_that_cannot_be_told_has_dropped_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    assert drop_from_cache(folder) is False
