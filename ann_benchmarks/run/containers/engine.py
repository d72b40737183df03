"""The Docker engine, the images that it has by their names (NAME, or NAME:TAG for a version), and a guard.

As a module this is the guard, which outlives a run.py that is killed, and removes its containers: engine
OWNER. Its standard input ends when run.py does. It holds copies of run.py's locks, so that nobody uses the
folders of a container that is still there. It is there all the time, hence few imports.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import PROJECT

GPU_LABEL = "ann-benchmarks.gpu"
ROOT_LABEL = "ann-benchmarks.root"
ENVIRONMENT_LABEL = "ann-benchmarks.environment"
OWNER_LABEL = "ann-benchmarks.owner"
_ENDING_SECONDS = 20  # for containers to end by themselves
_LAST_SECONDS = 2  # a container that the engine is still making may appear until then
_ENGINE_SECONDS = 120  # for an engine to be there again that was restarted
OTHER_WAY = "or add --local to run on this machine itself"


def connect(other_way: str = "") -> Any:
    """Return a client (docker.DockerClient) of the engine that the environment names, else the local one's.

    UserError says why none answers, with `other_way` as what the user may do instead.
    """
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise UserError(
            f"the Docker SDK cannot be imported ({error}): pip install docker {other_way}".strip()
        ) from None
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise UserError(
            f"no Docker engine answers ({reason(error)}): start it, let DOCKER_HOST name it, "
            f"or have yourself added to the group 'docker' {other_way}".strip()
        ) from None
    return client


def reason(error: BaseException) -> str:
    """Say on one line what the engine answered."""
    while error.__context__ is not None and not getattr(error, "explanation", None):
        error = error.__context__
    return " ".join(str(getattr(error, "explanation", None) or error).split())


def close_attached(socket: Any) -> None:
    """Close what attach_socket() has returned, and before it the answer of the engine that it belongs to.

    An answer whose socket is closed cannot be closed any more, and Python 3.13 prints that at its end.
    """
    answer = getattr(socket, "_response", None)
    if answer is not None:
        answer.close()
    socket.close()


def maps_users(client: Any) -> bool:
    """Whether the users in its containers are others on this machine (rootless, or userns-remap)."""
    options = client.info().get("SecurityOptions") or []
    return any(option.startswith(("name=rootless", "name=userns")) for option in options)


@dataclass(frozen=True)
class Image:
    """An image that the engine has, and what it declares of the containers that are made of it."""

    name: str
    id: str
    needs_gpus: bool
    needs_root: bool
    environment: tuple[str, ...]  # variables of the user's that it takes
    python_path: str = ""  # its own
    bytecode: str = ""  # the folder where it has that of Python's modules, "" for beside them

    @property
    def given(self) -> dict[str, str]:
        """The user's variables that it takes."""
        return {name: os.environ[name] for name in self.environment if name in os.environ}

    @property
    def facts(self) -> dict[str, str]:
        """What is stored with each result."""
        return {"docker_image": self.name, "docker_image_id": self.id}


def find_image(client: Any, name: str) -> Image | None:
    """Look for an image; None where the engine does not have it."""
    from docker.errors import DockerException, ImageNotFound

    try:
        found = client.images.get(name)
    except ImageNotFound:
        return None
    except (DockerException, OSError) as error:
        raise UserError(f"the image {name} cannot be looked for: {reason(error)}") from None
    labels = found.labels
    pairs = (entry.partition("=") for entry in found.attrs["Config"].get("Env") or [])
    variables = {key: value for key, _, value in pairs}
    return Image(
        name,
        found.id,
        labels.get(GPU_LABEL, "") not in ("", "none"),
        labels.get(ROOT_LABEL, "") == "true",
        tuple(labels.get(ENVIRONMENT_LABEL, "").split()),
        variables.get("PYTHONPATH", ""),
        variables.get("PYTHONPYCACHEPREFIX", ""),
    )


def start_guard(owner: str, locks: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Start one for this process; it ends when its standard input is closed and all is removed.

    `locks` are descriptors that it keeps open.
    """
    return subprocess.Popen(
        [sys.executable, "-m", __name__, owner],
        cwd=PROJECT,  # Python finds this module from here
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


def guard(owner: str) -> None:
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
    guard(sys.argv[1])
