"""Few files and little of anything else: a line says what is short, and what to do."""

import errno
import subprocess
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import shortage

from .kill_commands import command_line, environment_of

pytestmark = pytest.mark.thorough

FILES = "error: too many open files: raise the limit (ulimit -n 1024)"


@pytest.mark.parametrize("name", ["run.py", "report.py", "create_dataset.py", "clustering"])
def test_few_files(workplace: Path, name: str) -> None:
    words = ["bash", "-c", 'ulimit -n 10; exec "$@"', "-", *command_line(name)]
    done = subprocess.run(
        words, cwd=workplace, env=environment_of(workplace), capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.splitlines() == [FILES]
    else:
        assert name != "run.py"  # which starts another process, and pipes to it


@pytest.mark.parametrize(
    "error, text",
    [
        (MemoryError(), "out of memory: "),
        (MemoryError("Unable to allocate 3 GiB"), "out of memory (Unable to allocate 3 GiB): "),
        (OSError(errno.EMFILE, "Too many open files", "a"), "too many open files (a): raise the limit"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no further process"),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: "),
        (RuntimeError("can't start new thread"), "no further process"),
    ],
)
def test_what_is_short(error: Exception, text: str) -> None:
    found = shortage(error)
    assert found is not None and found.startswith(text)
    try:
        try:
            raise error
        except Exception:
            raise ImportError("numpy cannot be imported") from None
    except ImportError as outer:
        assert shortage(outer) == found


@pytest.mark.parametrize("error", [ValueError("No space left on device"), FileNotFoundError(2, "x"), None])
def test_what_is_not(error: Exception | None) -> None:
    assert shortage(error) is None
