"""run.py with poolers: contenders over one index, and what is left when all of it is killed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from .programs import ROOT, until
from .test_poolers import POOLERS, installed

pytestmark = pytest.mark.thorough

__all__ = ["installed"]


@pytest.fixture
def command(installed, new_folder, monkeypatch):
    """What runs poolers in a workspace of its own, and those that can be had here, none among them."""
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(new_folder))
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_buffers=64MB")
    monkeypatch.chdir(new_folder.parent)
    return [
        *(sys.executable, str(ROOT / "run.py"), "--local", "--algorithm", "pgvector_exact"),
        *("--dataset", "clustered-600-8-euclidean", "--clients", "3", "--warmup", "10", "--rounds", "1"),
        "--pooler",
    ], ["none", *POOLERS]


def of_folder(folder):
    """Return the processes of programs that have the folder in their arguments: servers and poolers."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(folder) in word for word in words) and process.pid != os.getpid():
            found.append(process)
    return found


def commands(folder):
    """Return the command lines of these processes, some of which may have ended meanwhile."""
    return [" ".join(process.info["cmdline"]) for process in of_folder(folder)]


def name_of(process):
    """Return the name of a process, an empty one where it has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def test_a_kill_of_all_leaves_no_process_and_the_next_command_goes_on(command, new_folder):
    command, names = command
    running = subprocess.Popen(
        [*command, names[-1], "--duration", "120"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: any("pgbouncer.ini" in words for words in commands(new_folder)))
    finally:
        own = psutil.Process(running.pid)
        python = [child for child in own.children(recursive=True) if "python" in name_of(child)]
        for process in [own, *python]:  # the process that has started the servers among them
            with suppress(ProcessLookupError):  # one ends with the other
                os.kill(process.pid, signal.SIGKILL)
        running.wait()
    until(lambda: not of_folder(new_folder))
    words = [*command, ",".join(names), "--duration", "0.3"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    series = {path.parent.name for path in new_folder.parent.glob("results/**/*.hdf5")}
    assert series == {
        "pgvector_exact" + ("" if name == "none" else f"-{name.replace(':', '-')}") + "-c3" for name in names
    }
    assert not list(new_folder.glob("**/pooler")) and not of_folder(new_folder)
