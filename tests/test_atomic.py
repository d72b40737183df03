"""Files are whole or not there."""

import os
import subprocess
from pathlib import Path

import pytest

from ann_benchmarks.common.files import atomic_path


def test_the_file_appears_whole(tmp_path: Path):
    path = tmp_path / "deep" / "file.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
        assert temporary.name.startswith(".")
    assert path.read_text() == "all of it"
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


def test_an_error_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead, living = tmp_path / f".file.txt.partial-{gone.pid}", tmp_path / f".file.txt.partial-{os.getppid()}"
    dead.touch()
    living.touch()
    with atomic_path(tmp_path / "file.txt") as temporary:
        temporary.touch()
    assert not dead.exists()
    assert living.exists()


def test_what_is_no_file_is_not_replaced(tmp_path: Path):
    """Not a device either, which root could replace for all."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match="is not a file that can be replaced"), atomic_path(path):
            pass
    assert pipe.is_fifo()
