"""Standard streams that are closed, full, or closed early by their reader."""

import subprocess
from pathlib import Path

import pytest

from .kill_commands import command_line, environment_of

pytestmark = pytest.mark.thorough

FULL = "error: the disk is full: free some space and run again\n"


def started(folder: Path, name: str, streams: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Start a command with standard streams as a shell is to have them."""
    words = command_line(name)
    words = [*words[: 3 if words[1] == "-m" else 2], *options] if options else words
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {streams}', "-", *words],
        cwd=folder, env=environment_of(folder), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["run.py", "plot.py"])
def test_a_command_without_streams_does_its_work(workplace: Path, name: str) -> None:
    done = started(workplace, name, "<&- >&- 2>&-")
    assert done.returncode == 0


@pytest.mark.parametrize("streams", [">&-", "<&- 2>&-", "| true"])
def test_streams_that_are_closed_or_full(workplace: Path, streams: str) -> None:
    done = started(workplace, "compare.py", streams)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_whose_output_goes_to_a_full_disk_ends(workplace: Path) -> None:
    done = started(workplace, "run.py", ">/dev/full")
    assert (done.returncode, done.stderr) == (1, FULL)


def test_a_reader_that_goes_early_is_told_nothing(workplace: Path) -> None:
    done = started(workplace, "run.py", "| head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("dataset tiny: ")
