"""Images by their names: NAME, or NAME:TAG for a version."""

from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError

from .engine import reason

GPU_LABEL = "ann-benchmarks.gpu"
ROOT_LABEL = "ann-benchmarks.root"
ENVIRONMENT_LABEL = "ann-benchmarks.environment"


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
