"""The project's programs as a user starts them, and folders for their servers."""

import atexit
import fcntl
import gc
import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil
import pytest
import yaml

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.common import command
from ann_benchmarks.common.cli import run_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import COMMANDS
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.run import process

ROOT = Path(__file__).parent.parent
PATIENCE = float(os.environ.get("ANN_BENCHMARKS_TEST_PATIENCE", "1"))  # how many times slower a machine is
takes_long = pytest.mark.skipif(
    "ANN_BENCHMARKS_LONG_TESTS" not in os.environ, reason="takes long (ANN_BENCHMARKS_LONG_TESTS=1)"
)


def run_program(name: str, *arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run run.py, plot.py ... in the current folder or in `cwd`; options are those of subprocess.run."""
    command = [sys.executable, str(ROOT / name), *map(str, arguments)]
    done = subprocess.run(
        command, **{"capture_output": True, "text": True, "timeout": 300 * PATIENCE, **options}
    )
    done.stderr = without_others(done.stderr)
    return done


@contextmanager
def one_line(message: str, *kinds: type[Exception]) -> Iterator[None]:
    """Expect an error whose message matches and is one line."""
    with pytest.raises(kinds or (UserError, PostgresError), match=message) as caught:
        yield
    assert "\n" not in str(caught.value)


def without_others(said: Any) -> Any:
    """Leave out what is said of other tests, which take CPU meanwhile."""
    if not isinstance(said, str):
        return said
    return "".join(
        line for line in said.splitlines(keepends=True) if ": other programs took up to " not in line
    )


def call_program(
    name: str,
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = 300,
) -> "subprocess.CompletedProcess[str]":
    """Do what run_program does in a fork of this process, which has the program's modules already.

    So are its workers, which import plug-ins anew; servers, clients and containers are as a user has them.
    Its signals, its streams but for what is written to them, and workers that are interpreters of their own
    are tested by programs that are started.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        if (child := os.fork()) == 0:
            _become(name, words, cwd or Path.cwd(), dict(os.environ if env is None else env), (out, errors))
        deadline = time.monotonic() + seconds * PATIENCE
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
        out.seek(0)
        errors.seek(0)
        status = os.waitstatus_to_exitcode(ended[1])
        return subprocess.CompletedProcess([name, *words], status, out.read(), without_others(errors.read()))


def _become(
    name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str], outputs: Sequence[IO[str]]
) -> NoReturn:
    status: Any = 1
    try:
        gc.freeze()
        os.chdir(folder)
        for number, file in enumerate(outputs, 1):
            os.dup2(file.fileno(), number)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:0] = environment.get("PYTHONPATH", "").split(":")
        sys.argv = [str(ROOT / name), *words]
        _fork_workers()
        run_command(main_of(name))
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def main_of(script: str) -> Callable[[], int | None]:
    """Return what a script at the root, or a module that is a program, calls."""
    modules = {command.script: command.module for command in COMMANDS}
    name = modules.get(script, script.removesuffix(".py"))
    main: Callable[[], int | None] = importlib.import_module(name).main
    return main


def _fork_workers() -> None:
    """Have each worker be a fork of this process in place of an interpreter that imports all of it again."""
    own_context, own_serve = multiprocessing.get_context, process.serve

    def get_context(method: str | None = None) -> Any:
        return own_context("fork" if method == "spawn" else method)

    def serve(*arguments: Any) -> None:
        for name in [one for one in sys.modules if one.startswith(("ann_benchmarks.algorithms", "plugins"))]:
            del sys.modules[name]
        importlib.invalidate_caches()
        command._is_waiting = False  # as it is while a process is started
        own_serve(*arguments)

    vars(multiprocessing)["get_context"] = get_context
    vars(process)["serve"] = serve
    process.resource_tracker.ensure_running = lambda: None  # type: ignore[method-assign]


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for it: only what never comes takes these seconds."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def has_ended(process: psutil.Process) -> bool:
    """Whether it has ended, also where nobody has asked for its exit status yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def write_config(folder: Path, name: str, **keys: Any) -> None:
    """Write the config.yml of one algorithm, in a plug-in's folder; `keys` are what is not as usual."""
    entry = {"name": name, "module": f"plugins.{name}", "constructor": "Plugin"}
    entry |= {"docker_tag": f"ann-benchmarks-{name}", "run_groups": {"all": {"args": []}}, **keys}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))


def events_of(job: Job) -> list[Any]:
    """Carry out a job in this process and return the events that it reports."""
    events: list[Any] = []
    carry_out(JobRequest(job), events.append)
    return events


SHARED = "ANN_TESTS_SHARED"


def share_folder() -> str:
    """Return the folder of all processes of one run of the tests: the first one makes it, and removes it."""
    if SHARED not in os.environ:
        os.environ[SHARED] = tempfile.mkdtemp(prefix="ann-test-")
        Path(os.environ[SHARED]).chmod(0o755)
        atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)
    return os.environ[SHARED]


@cache
def made_once(make: Callable[[Path], object]) -> Path:
    """Return a folder that was filled by `make`, once for all processes of one run of the tests."""
    folder, made = (Path(share_folder(), f"{make.__module__}.{make.__qualname__}{x}") for x in ("", ".made"))
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of one that failed
            folder.mkdir(0o755)
            make(folder)
            made.touch()
    return folder


@contextmanager
def temporary_folder(on_disk: bool = False) -> Iterator[Path]:
    """A folder for the time of the block, which the account that runs a server can enter.

    TMPDIR may be in memory. What a limit of memory or of a disk is for has to be on a disk.
    """
    with tempfile.TemporaryDirectory(prefix="ann-test-", dir="/var/tmp" if on_disk else None) as name:
        Path(name).chmod(0o755)
        yield Path(name)
