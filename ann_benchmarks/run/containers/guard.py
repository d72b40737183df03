"""The process that outlives a run.py which is killed, and removes its containers.

It holds copies of run.py's locks, so that nobody uses the folders of a container that is still there.
Run as a module: guard OWNER; its standard input ends when run.py does.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .sandbox import OWNER_LABEL, PROJECT

# Few imports: it is there all the time.
_ENDING_SECONDS = 20  # for containers to end by themselves
_LAST_SECONDS = 2  # in which a container may still appear that the engine is still making
_ENGINE_SECONDS = 120  # for an engine to be there again that was restarted


def start_guard(owner: str, locks: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Start one for this process; it ends when its standard input is closed and all is removed.

    `locks` are descriptors that it keeps open.
    """
    return subprocess.Popen(
        [sys.executable, "-m", __name__, owner],
        cwd=PROJECT,  # where Python finds this module
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=locks,
        start_new_session=True,  # Ctrl-C, and a kill of the whole group, are not for it
    )


def containers_of(client: Any, owner: str) -> list[Any]:
    """Every container of an owner, running or not."""
    found: list[Any] = client.containers.list(
        all=True, filters={"label": f"{OWNER_LABEL}={owner}"}, ignore_removed=True
    )
    return found


def remove_all(client: Any, owner: str) -> None:
    """Remove every container of an owner."""
    from docker.errors import DockerException

    for container in containers_of(client, owner):
        with suppress(DockerException, OSError):
            container.remove(force=True, v=True)


def main(owner: str) -> None:
    """Wait for the end of run.py, then let its containers end by themselves, then remove what is left."""
    from docker.errors import DockerException

    while os.read(0, 1024):
        pass
    give_up = time.monotonic() + _ENGINE_SECONDS
    while time.monotonic() < give_up:
        with suppress(DockerException, OSError):
            return _remove_ended(owner)
        time.sleep(1)


def _remove_ended(owner: str) -> None:
    import docker

    client = docker.from_env()
    deadline = time.monotonic() + _ENDING_SECONDS
    while any(each.status == "running" for each in containers_of(client, owner)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    last = time.monotonic() + _LAST_SECONDS
    while time.monotonic() < last:
        remove_all(client, owner)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1])
