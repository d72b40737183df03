"""The process that outlives one that is killed, and gives back what that held.

Run as a module: guard FOLDER_OF_RECORDS PID START; its standard input ends when the owner does.
"""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .records import Record, Records, start_of
from .releasing import release

# Few imports: it is there all the time.
_PROJECT = Path(__file__).parent.parent
_LOOK_SECONDS = 1.0
_TRIES = 10


def start_guard(records: Records, record: Record) -> "subprocess.Popen[bytes]":
    """Start one for this process; it ends when its standard input is closed and all is given back."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(records.folder), str(record.pid), str(record.start)],
        cwd=_PROJECT,  # where Python finds this module
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C, and a kill of the whole group, are not for it
    )


def main(folder: Path, pid: int, start: int) -> None:
    """Wait for the end of the owner, then give back what it still holds."""
    with suppress(OSError):  # the last that the system should end when memory runs out: it frees some
        Path("/proc/self/oom_score_adj").write_text("-1000")
    # A child of the owner's may hold the other end of our input open, hence the look at the owner.
    while start_of(pid) == start:
        if select.select([0], [], [], _LOOK_SECONDS)[0] and not os.read(0, 1024):
            break
    records = Records(folder)
    for _ in range(_TRIES):
        with suppress(UserError, OSError), records.lock():
            for record in records.all():
                if (record.pid, record.start) == (pid, start):
                    release(records, record)
            return
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
