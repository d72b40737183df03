"""Few files, processes and little memory: a line says what is short, and what to do."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import shortage

from .kill_commands import COMMANDS, command_line, environment_of

pytestmark = pytest.mark.thorough

QUICK = [name for name in COMMANDS if name != "run.py, pgvector"]
FILES = "error: too many open files: raise the limit (ulimit -n 1024)"
PROCESSES = "error: no further process or thread can be started: end others, or raise the limit (ulimit -u)"
ADVICE = "(ulimit -"  # OpenBLAS has its own words, and ends the process itself
SOMEBODY = 64321  # whose processes are counted, unlike root's


def limited(folder: Path, limit: str, name: str, *before: str) -> "subprocess.CompletedProcess[str]":
    """Start a command under a limit of the shell."""
    words = [*before, "bash", "-c", f'ulimit {limit}; exec "$@"', "-", *command_line(name)]
    return subprocess.run(
        words, cwd=folder, env=environment_of(folder), capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", ["run.py", "report.py", "create_dataset.py", "clustering"])
def test_few_files(workplace: Path, name: str) -> None:
    done = limited(workplace, "-n 10", name)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.splitlines() == [FILES]
    else:
        assert name != "run.py"  # which starts another process, and pipes to it


@pytest.mark.parametrize("name", QUICK)
def test_no_threads(workplace: Path, name: str) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0:
        if setpriv is None:
            pytest.skip("root's processes are not limited, and there is no setpriv")
        capabilities = "+dac_override,+dac_read_search"  # for folders that are closed to others
        before = [setpriv, "--reuid", str(SOMEBODY), "--clear-groups"]
        before += ["--inh-caps", capabilities, "--ambient-caps", capabilities]
    else:
        before = []
    done = limited(workplace, "-u 1", name, *before)
    assert (done.returncode, done.stderr.splitlines()) == (1, [PROCESSES])


@pytest.mark.parametrize("size", [30_000, 150_000])  # KiB
def test_little_memory(workplace: Path, size: int) -> None:
    done = limited(workplace, f"-v {size}", "report.py")
    assert done.returncode and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("OpenBLAS") or (last.startswith("error: ") and ADVICE in last), done.stderr


@pytest.mark.parametrize(
    "error, text",
    [
        (MemoryError(), "out of memory: "),
        (MemoryError("Unable to allocate 3 GiB"), "out of memory (Unable to allocate 3 GiB): "),
        (OSError(errno.EMFILE, "Too many open files", "a"), "too many open files (a): raise the limit"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no further process"),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: "),
        (RuntimeError("can't start new thread"), "no further process"),
        (ImportError("libx.so: failed to map segment from shared object"), "out of memory: "),
        (
            ImportError("libx.so: cannot open: Too many open files"),
            "too many open files: ",
        ),
        (OSError("Unable to open file (error message = 'Too many open files')"), "too many open files: "),
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
