"""What users can do who may not hold anything back: it depends on the user, and on what the machine has."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ann_benchmarks.common.errors import UserError

_SCOPE = "systemd-run --user --scope -p Delegate=yes"
_SOCKETS = ("run/docker.sock", "var/run/docker.sock")


def ways_out(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> str:
    """Return what this user can do here, as the end of a message; `root` is the machine's topmost folder."""
    is_root = os.geteuid() == 0
    ways = []
    if not is_root and _has_unified_groups(root) and shutil.which("systemd-run") is not None:
        has_manager = _has_user_manager(root)
        if has_manager and _session_folder(root, environment):
            ways.append(f"run it by `{_SCOPE} python ...`, which hands you control groups")
        elif has_manager or (root / "run/systemd/system").exists():  # which would start one
            ways.append(f"log in as this user, not by su or sudo, and run it by `{_SCOPE} python ...`")
    sockets = _docker_sockets(root, environment)
    if any(os.access(socket, os.W_OK) for socket in sockets) or environment.get("DOCKER_HOST"):
        ways.append("leave --local out, to measure in containers")
    elif any(socket.exists() for socket in sockets):
        ways.append("have yourself added to the group 'docker' and leave --local out")
    ways.append("start the container with --privileged" if is_root else "run it as root")
    return ", or ".join(ways)


def advice_for(controller: str, group: Path) -> str:
    """Return what to do where a group of version 2 may not be made below `group` with this controller."""
    if any(part.startswith("user@") for part in group.parts):  # systemd has handed it to the user
        return (
            f"have an administrator add {controller} to the line Delegate=cpu memory pids of user@.service "
            "(systemctl edit user@.service), and log in again; or leave that limit out"
        )
    return ways_out()


def require_linux() -> None:
    """Raise UserError on any other system."""
    if sys.platform != "linux":
        raise UserError("tiers need Linux: it is the one that can hold memory, CPUs and disks back")


def _has_unified_groups(root: Path) -> bool:
    return (root / "sys/fs/cgroup/cgroup.controllers").exists()


def _has_user_manager(root: Path) -> bool:
    """Whether systemd runs for this user."""
    return (root / f"run/user/{os.getuid()}/systemd").exists()


def _session_folder(root: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the folder of this user's login session; none after `su`, which leaves another account's."""
    own = environment.get("XDG_RUNTIME_DIR")
    folder = root / own.lstrip("/") if own else None
    return folder if folder and os.access(folder, os.W_OK | os.X_OK) else None


def _docker_sockets(root: Path, environment: Mapping[str, str]) -> list[Path]:
    session = _session_folder(root, environment)
    return [*(root / socket for socket in _SOCKETS), *([session / "docker.sock"] if session else [])]
