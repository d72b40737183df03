"""systemd, where it manages the control groups: requested to leave on what the limits of tiers need.

It switches a controller off when the last unit that requested it has ended, also for groups that are not its
own, whose limits are gone with it. A delegated unit requests all of them for every group above it.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .control_groups import MEMORY, find_place

_RUNS = Path("/run/systemd/system")  # is there where systemd manages the system
_SECONDS = 30
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def keep_controllers(pid: int, processes: Path = Path("/proc")) -> None:
    """Move a process into a delegated scope of its own, which ends with it, in the slice that we are in.

    Nothing happens where there is no systemd or no right to that: limits that go are seen later. `processes`
    is what /proc is.
    """
    place = find_place(MEMORY, processes=processes)
    if place is None or place.version == 1 or not _RUNS.exists():
        return
    is_root = os.geteuid() == 0
    if not is_root and not any(part.startswith("user@") for part in place.own.parts):
        return  # the user's systemd may not take processes out of the system's groups
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            _request(pid, _slice_of(place.own), is_root),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, start_new_session=True,
        )  # fmt: skip


def _slice_of(group: Path) -> str:
    return next((part for part in reversed(group.parts) if part.endswith(".slice")), "-.slice")


def _request(pid: int, slice_name: str, is_root: bool) -> Sequence[str]:
    properties = [
        *("PIDs", "au", "1", str(pid)),
        *("Delegate", "b", "true"),
        *("Slice", "s", slice_name),
        *("CollectMode", "s", "inactive-or-failed"),
    ]
    call = ["busctl", "--system" if is_root else "--user", "call", *_MANAGER, "StartTransientUnit"]
    name = f"ann-benchmarks-tiers-{pid}.scope"
    return [*call, "ssa(sv)a(sa(sv))", name, "fail", "4", *properties, "0"]
