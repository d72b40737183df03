"""What is held is listed and given back: by its process, by its guard, by the next process, or by hand.

As a module this is the guard, which outlives a process that is killed: release FOLDER_OF_LEDGER PID START.
Its standard input ends when the owner does.
"""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted

from .group_files import remove_group
from .ledger import SYSTEM_FOLDER, Hold, Ledger, start_of
from .locked_memory import change_pages, page_size, resolve_change
from .memory import readable

# Few imports: the guard is there all the time.
ENDING_SECONDS = 30  # that a server has to end by itself
_PROJECT = Path(__file__).parent.parent
_POLL_SECONDS = 1.0
_TRIES = 10
_NOTHING = "nothing is held"


def empty(ledger: Ledger, hold: Hold, patience: float = ENDING_SECONDS) -> None:
    """Give back all that is held, and keep the hold. Within lock().

    Pages first: others wait for memory. UserError says what could not be given back; the rest was.
    """
    failures = []
    try:
        resolve_change(hold)
        if hold.pages:
            change_pages(ledger, hold, 0)
    except OSError as error:
        failures.append(f"{hold.pages:,} huge pages: {error.strerror}")
    for group in list(hold.groups):
        try:
            remove_group(Path(group.folder), Path(group.home), 0 if group.adopted else patience)
        except OSError as error:
            failures.append(f"{group.folder}: {error.strerror}")
        else:
            hold.groups.remove(group)
    ledger.write(hold)
    if failures:
        raise UserError(f"could not give back {'; '.join(failures)}: try `python -m tiers release` as root")


def give_back(ledger: Ledger, hold: Hold) -> None:
    """Give back all that is held, and forget the hold. Within lock()."""
    if hold.is_of_this_boot:  # a restart has given back the rest
        empty(ledger, hold)
    ledger.delete(hold)


def release_dead(ledger: Ledger) -> None:
    """Give back what dead processes left. Takes the lock."""
    if ledger.folder.exists():
        with ledger.lock():
            for hold in ledger.all():
                if not hold.is_alive:
                    give_back(ledger, hold)


def status() -> list[str]:
    """Lines that say what is held, by this user or by root."""
    folders = dict.fromkeys((SYSTEM_FOLDER, Ledger().folder))
    found = [hold for folder in folders for hold in Ledger(folder).all()]
    return [_line(hold) for hold in found] or [_NOTHING]


def release(everything: bool) -> list[str]:
    """Give back what dead processes left, with `everything` also what living ones hold; lines say what."""
    ledger = Ledger()
    if not ledger.folder.exists():
        return [_NOTHING]
    lines, failures = [], []
    with ledger.lock():
        for hold in ledger.all():
            if hold.is_alive and not everything:
                lines.append(f"kept: {_line(hold)}")
                continue
            line = _line(hold)
            try:
                give_back(ledger, hold)
                lines.append(f"released: {line}")
            except (UserError, OSError) as error:
                failures.append(f"{hold.owner}: {error}")
    if failures:
        raise UserError("; ".join(failures))
    return lines or [_NOTHING]


def _line(hold: Hold) -> str:
    if not hold.is_of_this_boot:
        return f"{hold.owner}, of before the last restart: nothing"
    resolve_change(hold)
    parts = []
    if hold.pages:
        parts.append(f"{counted(hold.pages, 'huge page')} ({readable(hold.pages * page_size())})")
    parts += [f"control group {group.folder}" for group in hold.groups if Path(group.folder).exists()]
    return f"{hold.owner}, {_age(hold)}: {', '.join(parts) or 'nothing'}"


def _age(hold: Hold) -> str:
    if not hold.is_alive:
        return "which has ended"
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    seconds = max(uptime - hold.start / os.sysconf("SC_CLK_TCK"), 0)
    return f"running for {timedelta(seconds=int(seconds))}"


def start_guard(ledger: Ledger, hold: Hold) -> "subprocess.Popen[bytes]":
    """Start one for this process; it ends when its standard input is closed and all is given back."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(ledger.folder), str(hold.pid), str(hold.start)],
        cwd=_PROJECT,  # where Python finds this module
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C, and a kill of the whole group, are not for it
    )


def guard(folder: Path, pid: int, start: int) -> None:
    """Wait for the end of the owner, then give back what it still holds."""
    with suppress(OSError):  # the last that the system should end when memory runs out: it frees some
        Path("/proc/self/oom_score_adj").write_text("-1000")
    # A child of the owner's may hold the other end of our input open, hence the check of the owner.
    while start_of(pid) == start:
        if select.select([0], [], [], _POLL_SECONDS)[0] and not os.read(0, 1024):
            break
    ledger = Ledger(folder)
    for _ in range(_TRIES):
        with suppress(UserError, OSError), ledger.lock():
            for hold in ledger.all():
                if (hold.pid, hold.start) == (pid, start):
                    give_back(ledger, hold)
            return
        time.sleep(1)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
