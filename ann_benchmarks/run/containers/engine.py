"""The Docker engine, and the images that it has by their names: NAME, or NAME:TAG for a version."""

from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError

GPU_LABEL = "ann-benchmarks.gpu"
ROOT_LABEL = "ann-benchmarks.root"
ENVIRONMENT_LABEL = "ann-benchmarks.environment"
OTHER_WAY = "or add --local to run on this machine itself"


def connect(other_way: str = "") -> Any:
    """Return a client (docker.DockerClient) of the engine that the environment names, else the local one's.

    UserError says why there is none, with `other_way` as what the user may do instead.
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
    def facts(self) -> dict[str, str]:
        """What is stored with each result."""
        return {"docker_image": self.name, "docker_image_id": self.id}


def find_image(client: Any, name: str) -> Image | None:
    """Look for an image; None where the engine has none of that name."""
    from docker.errors import DockerException, ImageNotFound

    try:
        found = client.images.get(name)
    except ImageNotFound:
        return None
    except (DockerException, OSError) as error:
        raise UserError(f"the image {name} cannot be looked for: {reason(error)}") from None
    labels = found.labels
    return Image(
        name,
        found.id,
        labels.get(GPU_LABEL, "") not in ("", "none"),
        labels.get(ROOT_LABEL, "") == "true",
        tuple(labels.get(ENVIRONMENT_LABEL, "").split()),
        _variables(found).get("PYTHONPATH", ""),
        _variables(found).get("PYTHONPYCACHEPREFIX", ""),
    )


def _variables(found: Any) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in found.attrs["Config"].get("Env") or [])
    return {name: value for name, _, value in pairs}
