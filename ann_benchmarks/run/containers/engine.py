"""The Docker engine: reached, and what it says of itself."""

from typing import Any

from ann_benchmarks.common.errors import UserError

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
    """Say on one line what the engine had to say."""
    while error.__context__ is not None and not getattr(error, "explanation", None):
        error = error.__context__
    return " ".join(str(getattr(error, "explanation", None) or error).split())


def maps_users(client: Any) -> bool:
    """Whether the users in its containers are others on this machine (rootless, or userns-remap)."""
    options = client.info().get("SecurityOptions") or []
    return any(option.startswith(("name=rootless", "name=userns")) for option in options)
