"""What ends commands and workers at bad moments: no traceback, the conventional status, nothing left."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from ann_benchmarks.common.errors import shortage

from .kill_commands import COMMANDS, PROBLEMS, Victim, command_line, environment_of, kill_often
from .programs import ROOT, temporary_folder, until, without_others
from .test_run import HELD, SIX_POINTS, finished

pytestmark = pytest.mark.thorough

KILLS = "ANN_BENCHMARKS_TEST_KILLS"
INTERRUPTED_IMPORT = """
import os, signal, time
os.kill(os.getpid(), signal.{name})
time.sleep(10)
"""
WORKER = """
import os, sys
from ann_benchmarks.run.process import ProcessWorker
worker = ProcessWorker()
"""


@pytest.mark.parametrize(
    ("command", "number"),
    [
        *((name, signal.SIGINT) for name in COMMANDS if name != "run.py, pgvector"),
        ("run.py", signal.SIGTERM),
        ("run.py", signal.SIGHUP),
    ],
)
def test_an_interrupted_import_says_nothing(tmp_path: Path, command: str, number: signal.Signals) -> None:
    for module in ("argparse", "dataclasses", "numpy"):  # one of which every command imports
        (tmp_path / f"{module}.py").write_text(INTERRUPTED_IMPORT.format(name=number.name))
    done = subprocess.run(
        command_line(command), cwd=tmp_path, env=environment_of(tmp_path), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")


def begun_worker(tmp_path: Path, then: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", WORKER + then]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_worker_that_is_ended_while_it_starts_says_nothing(tmp_path: Path) -> None:
    done = begun_worker(tmp_path, "worker.ask_to_end()\nworker.stop()\nprint(worker.process.exitcode)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert not list(tmp_path.iterdir())


def test_a_worker_that_is_killed_with_its_parent_leaves_no_file(tmp_path: Path) -> None:
    done = begun_worker(tmp_path, "worker.process.kill()\nos._exit(3)")
    assert (done.returncode, done.stderr) == (3, "")
    assert not list(tmp_path.iterdir())


def test_a_worker_that_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    script = """
from multiprocessing import popen_spawn_posix
def stop(*_): raise KeyboardInterrupt
popen_spawn_posix.Popen._launch = stop
before = set(os.listdir("/proc/self/fd"))
try:
    ProcessWorker()
except KeyboardInterrupt:
    print(len(set(os.listdir("/proc/self/fd")) - before))
os._exit(0)
"""
    done = begun_worker(tmp_path, script)
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert not list(tmp_path.iterdir())


def test_a_plugin_that_raises_what_ends_programs_fails_alone(workspace) -> None:
    """Its line says what it raised, and the others are measured."""
    workspace.add_plugin("a-fit", "def fit(self, X): raise KeyboardInterrupt")
    workspace.add_plugin("b-exit", "def query(self, q, n): sys.exit('enough')")
    workspace.add_plugin("c-import", "sys.exit(3)")
    workspace.add_plugin("d-well", "def query(self, q, n): return [1]")
    done = workspace.run()
    assert done.returncode == 1 and "Traceback" not in done.stderr
    imported, fit, query = done.stderr.splitlines()
    assert imported.startswith("failed: c-import") and "SystemExit: 3" in imported
    assert fit.startswith("failed: a-fit") and "KeyboardInterrupt (see logs/" in fit
    assert query.startswith("failed: b-exit") and "SystemExit: enough (see logs/" in query
    assert workspace.results() == ["tiny/10/d-well/.hdf5"]


@pytest.mark.parametrize("raised", ["SystemExit", "KeyboardInterrupt"])
def test_what_ends_programs_in_a_thread_of_a_batch_ends_the_batch(workspace, raised: str) -> None:
    workspace.add_plugin("exits", f"def query(self, q, n): raise {raised}")
    done = workspace.run("--batch")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed: exits") and raised in line


def test_where_ctrl_c_is_ignored_sigterm_ends_a_run(workspace) -> None:
    """As in the background of a shell: SIGINT does nothing there, and is not spoken of."""
    workspace.add_plugin("slow", HELD, SIX_POINTS)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = workspace.start()
    finally:
        signal.signal(signal.SIGINT, before)
    until(finished)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert without_others(said) == "terminated; what is finished is kept, the same command continues\n"


def test_a_signal_in_a_finalizer_is_not_lost() -> None:
    """Python cannot raise from there; it would print a traceback and go on."""
    code = """
        import os, signal, time
        from ann_benchmarks.common.cli import run_command

        class Kept:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.1)

        def main():
            Kept()
            time.sleep(600)

        run_command(main)
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", dedent(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        143, "terminated; what is finished is kept, the same command continues\n"
    )  # fmt: skip


def test_a_worker_that_is_ended_in_a_finalizer_ends(workspace) -> None:
    body = """\
        def fit(self, X):
            class Kept:
                def __del__(self):
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(0.1)
            Kept()
            time.sleep(600)
        def done(self): Path("done").touch()
        """
    workspace.add_plugin("kept", dedent(body))
    done = workspace.run()
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("failed: kept()") and Path("done").exists()


@pytest.mark.parametrize("name", COMMANDS if KILLS in os.environ else ["run.py", "compare.py"])
def test_random_kills(name: str) -> None:
    """A sample; with ANN_BENCHMARKS_TEST_KILLS all commands are killed so often."""
    with temporary_folder() as folder:
        outcome = kill_often(Victim(name, folder / "work"), int(os.environ.get(KILLS, "3")), seed=3)
    assert not any(outcome.counts[problem] for problem in PROBLEMS), outcome.details


# Few files and little of anything else: a line says what is short, and what to do.


FILES = "error: too many open files: raise the limit (ulimit -n 1024)"


@pytest.mark.parametrize("name", ["run.py", "report.py", "create_dataset.py", "compare.py"])
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


# Standard streams that are closed, full, or closed early by their reader.


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
