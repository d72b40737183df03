"""Images by their names: NAME, or NAME:TAG for a version."""

import re
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError

from .engine import reason

GPU_LABEL = "ann-benchmarks.gpu"
ROOT_LABEL = "ann-benchmarks.root"
ENVIRONMENT_LABEL = "ann-benchmarks.environment"


def split_tag(name: str) -> tuple[str, str | None]:
    """Split NAME:TAG; None without a tag. UserError when it could not be one of an image."""
    base, colon, tag = name.partition(":")
    if not colon:
        return base, None
    if not re.fullmatch(r"\w[\w.-]{0,127}", tag, re.ASCII):
        raise UserError(
            f"'{tag}' is no tag of an image: use letters, digits, '.', '_' and '-', as in {base}:0.8.0"
        )
    return base, tag


def tagged(docker_tag: str, tag: str | None) -> str:
    """Give an image's name a tag in place of its own."""
    return docker_tag if tag is None else f"{docker_tag.partition(':')[0]}:{tag}"


@dataclass(frozen=True)
class Image:
    """An image that the engine has, and what it declares of the containers that are made of it."""

    name: str
    id: str
    needs_gpus: bool
    needs_root: bool
    environment: tuple[str, ...]  # variables of the user's that it takes
    python_path: str = ""  # its own

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
    )


def _variables(found: Any) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in found.attrs["Config"].get("Env") or [])
    return {name: value for name, _, value in pairs}
