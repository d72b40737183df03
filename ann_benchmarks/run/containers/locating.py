"""Where jobs in containers would run: reported by their plug-in, in a container of its image."""

import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located

from ..whereabouts import SECONDS, Locate
from ..worker import LocationRequest
from .containers import Wishes, placement_facts
from .engine import Image, find_image
from .guard import remove_all
from .limits import cpus_of_each, memory_of_each
from .sandbox import ContainerAccount, Sandbox, project_files
from .worker import answer_to


def container_locator(client: Any, wishes: Wishes, parallelism: int, definitions: Path) -> Locate:
    """Return what has a plug-in report, in a container like those of its jobs, where it would measure."""

    def locate(definition: Definition) -> Located | Failure:
        image = find_image(client, definition.docker_tag)
        if image is None:
            return Failure(f"there is no image {definition.docker_tag}", is_unavailable=True)
        answer = _report(image, definition)
        if not isinstance(answer, Located):
            return Failure(getattr(answer, "text", "no answer"))
        facts = {**answer.facts, **placement_facts(image, wishes)}
        if len({len(share) for share in shares()}) > 1:
            del facts["cores"]  # it depends on which of them a job gets
        return Located(facts)

    def shares() -> list[list[int]]:
        return cpus_of_each(wishes.cpus, parallelism, client.info().get("NCPU"))

    def _report(image: Image, definition: Definition) -> Any:
        owner = uuid.uuid4().hex
        sandbox = Sandbox(
            replace(image, needs_gpus=False),  # nothing is computed
            ContainerAccount.for_image(image, client),
            owner,
            memory_of_each(wishes.memory, parallelism, client.info().get("MemTotal")),
            shares()[0],
            project_files(definitions),
            environment={name: os.environ[name] for name in image.environment if name in os.environ},
        )
        try:
            return answer_to(client, sandbox, LocationRequest(definition), SECONDS)
        finally:
            remove_all(client, owner)

    return locate
