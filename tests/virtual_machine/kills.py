"""Trials of kills in the middle of a sweep: what is stored stays, and what is held is given back."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil

from .image import ACCOUNT
from .sweeps import SCOPE
from .trial import (
    LARGE,
    ROOT,
    SMALL,
    check_points,
    measured,
    points,
    require_nothing_held,
    run,
    sweep_command,
    trial,
    work_folder,
)

_POINTS = 2  # one a tier
_SECONDS = 1500  # for a sweep to come so far, without KVM
_ENDING_SECONDS = 600
_OPTIONS = ("--local", "--tiers", f"{SMALL},{LARGE}", "--tier-method", "cgroup", "--clients", "1")
_MEMORY = ("--local", "--tiers", f"32MB:256MB,{LARGE}", "--clients", "1")
_PAGES = ("--local", "--tiers", "48MB:2GB,48MB:all", "--tier-method", "hugepages", "--clients", "1")


def _run_py(process: psutil.Process) -> psutil.Process:
    return process


def _worker(process: psutil.Process) -> psutil.Process:
    return next(child for child in process.children() if "--multiprocessing-fork" in child.cmdline())


def _server(process: psutil.Process) -> psutil.Process:
    tree = process.children(recursive=True)
    return next(each for each in tree if each.name() == "postgres" and "-D" in each.cmdline())


def _guards(process: psutil.Process) -> list[psutil.Process]:
    return [each for each in process.children() if "tiers.ledger" in each.cmdline()]


_VICTIMS: dict[str, Callable[[psutil.Process], psutil.Process]] = {
    "run.py": _run_py,
    "worker": _worker,
    "server": _server,
}


def _until(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(1)


def _held() -> list[Path]:
    return list(Path("/sys/fs/cgroup").rglob("ann-benchmarks-tier-*"))


def _is_held() -> bool:
    """Whether a server has the memory of the smaller tier."""
    has_pages = "HugePages_Total:       0\n" not in Path("/proc/meminfo").read_text()
    with suppress(OSError):  # a group that has just gone
        return _postgres_runs() and (
            has_pages or any((each / "cgroup.procs").read_text() for each in _held())
        )
    return False


def _postgres_runs() -> bool:
    return any(each.info["name"] == "postgres" for each in psutil.process_iter(["name"]))


def _kill(
    number: signal.Signals,
    victim: str,
    options: tuple[str, ...] = _OPTIONS,
    guards: bool = False,
    before: tuple[str, ...] = (),
) -> None:
    """Kill something in the middle of a tier; `guards`: and what would give back after it, before it.

    `before` begins the command.
    """
    work_folder("kills")
    with Path("output").open("w") as output, ExitStack() as stack:
        sweep = subprocess.Popen([*before, *sweep_command(*options)], stdout=output, stderr=subprocess.STDOUT)
        stack.callback(sweep.kill)  # after a failure; nothing if it has ended
        _until(lambda: sweep.poll() is not None or (points() and _is_held()), _SECONDS, "the second tier")
        assert sweep.poll() is None, Path("output").read_text()
        process = psutil.Process(sweep.pid)
        stored = set(points())
        print(f"killing {victim} by {number.name}, {len(stored)} stored, held: {_held()}", flush=True)
        for guard in _guards(process) if guards else ():
            guard.kill()
        _VICTIMS[victim](process).send_signal(number)
        status = sweep.wait(_SECONDS)
    said = Path("output").read_text()
    print(said, f"status {status}", flush=True)
    assert "Traceback" not in said, "a traceback"
    assert stored <= set(points()), "a stored point is gone"
    check_points(points(), len(points()))
    if guards:
        print(run(sys.executable, "-m", "tiers", "status", cwd=ROOT), flush=True)
    else:
        _until(lambda: not _held() and _nothing_is_held(), _ENDING_SECONDS, "all given back")
    _until(lambda: not _postgres_runs(), _ENDING_SECONDS, "the end of the server")
    measured(_POINTS, *options, before=before)


def _nothing_is_held() -> bool:
    try:
        require_nothing_held()
    except AssertionError:
        return False
    return True


for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    for _victim in _VICTIMS:
        trial(f"kill-{_number.name}-{_victim}")(partial(_kill, _number, _victim))
    trial(f"kill-{_number.name}-hugepages")(partial(_kill, _number, "run.py", _PAGES))
    of_user = partial(_kill, _number, "run.py", _MEMORY, before=SCOPE)
    trial(f"kill-{_number.name}-user", ACCOUNT)(of_user)
trial("kill-SIGKILL-with-guard")(partial(_kill, signal.SIGKILL, "run.py", guards=True))
trial("kill-SIGKILL-with-guard-hugepages")(partial(_kill, signal.SIGKILL, "run.py", _PAGES, guards=True))
