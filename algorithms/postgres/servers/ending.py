"""The end of a postmaster, also of one that waits for processes which never end.

PostgreSQL 18 does so where it is to shut down while it recovers from the crash of a session. The recovery
ends, and then its I/O workers and its checkpointer do nothing more. An immediate shutdown ends them. It loses
nothing: the next start recovers.
"""

import signal
import time
from contextlib import suppress

import psutil

_STOP_SECONDS = 120
_IDLE_SECONDS = 3.0  # without work, of processes that write all to disk until they end
_LAST = ("postgres: io worker", "postgres: checkpointer")


def end_postmaster(process: psutil.Process | None) -> None:
    """Stop a postmaster: fast shutdown, then immediate, then by force."""
    if process is None:
        return
    for signal_number, patience in (
        (signal.SIGINT, _STOP_SECONDS),
        (signal.SIGQUIT, 10),
        (signal.SIGKILL, 10),
    ):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal_number)
        if _ends_within(process, patience):
            return


def _ends_within(process: psutil.Process, seconds: float) -> bool:
    """Wait for its end; return at once where it will not come."""
    began = since = time.monotonic()
    work = None
    while (now := time.monotonic()) < began + seconds:
        if _has_ended(process):
            return True
        if now > since + _IDLE_SECONDS:
            before, work = work, _last_work(process)
            if work is not None and work == before:
                return False
            since = now
        time.sleep(0.01)
    return False


def _last_work(process: psutil.Process) -> list[tuple[int, float]] | None:
    """Return the CPU time of the last processes of a shutdown, None while others run or a disk works."""
    found = []
    try:
        for child in process.children():
            if not child.cmdline()[0].startswith(_LAST) or child.status() == psutil.STATUS_DISK_SLEEP:
                return None
            times = child.cpu_times()
            found.append((child.pid, times.user + times.system))
    except (psutil.Error, IndexError):  # one has just ended
        return None
    return found or None


def _has_ended(process: psutil.Process) -> bool:
    """Whether it has ended, also where nobody asks for its exit status, as in a container without an init."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
