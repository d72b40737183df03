"""Commands under attack: each case in a process of its own, in a folder of its own, within 10 s of the CPU.

A failure is a traceback, a crash, a hang, or a message of more than a line.
"""

import importlib
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common import layout

from .hostile_options import COMMANDS
from .hostile_yaml import CONFIG, KINDS
from .plotting_data import make_result, make_truth

CPU_SECONDS = 10
PATIENCE = 120  # s, on a machine that others use
LONGEST_LINE = 1200
PIPES = ["pipe", "pipe.npy", "pipe.npz", "pipe.h5", "pipe.parquet", "pipe.csr", "pipe.yml", "data/pipe.hdf5"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int  # of wait
    output: str
    errors: str

    @property
    def problem(self) -> str | None:
        """What is wrong with that, None if nothing is."""
        if "Traceback (most recent call last)" in self.errors:
            return "traceback: " + self.errors.strip().splitlines()[-1][:200]
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            return "hang" if number in (signal.SIGXCPU, signal.SIGKILL) else f"crash: signal {number}"
        # argparse quotes the words of its own messages in full.
        said = [line for line in self.errors.splitlines() if line.startswith(("error: ", "warning: "))]
        if any(len(line) > LONGEST_LINE for line in said):
            return f"a message of {max(map(len, said))} characters"
        if os.WEXITSTATUS(self.status) == 1 and not said and "error" not in self.errors:
            return f"no message: {self.errors[-200:]!r}"
        return None


def prepare(folder: Path) -> None:
    """Make what commands find: a dataset with results, an algorithm, and what is not what it seems."""
    os.chdir(folder)
    truth = make_truth("tiny", queries=5)
    for recall in (0.9, 1.0):
        make_result("tiny", "exact", f"exact({recall})", truth, recall, 0.1)
    path = Path(KINDS["config"][0])
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG)
    Path("folder").mkdir()
    Path("file").write_text("text")
    np.save("file.npy", np.ones((20, 2), np.float32))
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nowhere")
    for name in PIPES:
        os.mkfifo(name)


def attack(command: str, words: list[str], folder: Path) -> Ended:
    """Run a command's own main in a fork of this process: jobs are planned only, and no server is reached."""
    outputs = [folder / "stdout", folder / "stderr"]
    child = os.fork()
    if child == 0:
        _become(command, words, outputs)
    deadline = time.monotonic() + PATIENCE
    pid, status = os.waitpid(child, os.WNOHANG)
    while not pid:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
        pid, status = os.waitpid(child, os.WNOHANG)
    output, errors = (path.read_text(errors="replace") for path in outputs)
    return Ended(status, output, errors)


def _become(command: str, words: list[str], outputs: list[Path]) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
        null = os.open(os.devnull, os.O_RDONLY)
        files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in outputs]
        for number, file in enumerate((null, *files)):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(0),
            os.fdopen(1, "w"),
            os.fdopen(2, "w", errors="replace"),
        )
        sys.modules["ann_benchmarks.commands.run"].execute = lambda *arguments: 0  # type: ignore[attr-defined]
        socket.socket.connect = _refuse  # type: ignore[method-assign, assignment]
        module = module_of(command)
        sys.argv = [f"{command}.py", *(os.fsdecode(word.encode(errors="surrogateescape")) for word in words)]
        from ann_benchmarks.common.cli import run_command

        run_command(module.main)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def module_of(command: str) -> Any:
    """Import a command: the script of this name calls it, or it is a module itself."""
    modules = {each.script: each.module for each in layout.COMMANDS}
    return importlib.import_module(modules.get(f"{command}.py", command))


def load_commands() -> None:
    """Import all commands once, so that forks start at once."""
    for command in COMMANDS:
        module_of(command)


def _refuse(*arguments: object) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def attack_once(place: Path, command: str, words: list[str], file: tuple[str, str] | None = None) -> Ended:
    """Run one case in a new folder; `file` is the kind and the text of the file that the command reads."""
    home = Path.cwd()
    outer = Path(tempfile.mkdtemp(dir=place))
    folder = outer / "a" / "b"
    folder.mkdir(parents=True)
    try:
        prepare(folder)
        if file is not None:
            path = Path(KINDS[file[0]][0])
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(file[1].encode(errors="surrogatepass"))
        return attack(command, words, outer)
    finally:
        os.chdir(home)
        shutil.rmtree(outer, ignore_errors=True)
