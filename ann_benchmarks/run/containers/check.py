"""Whether an image can do its work: run once, asked, and removed."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER, Definition
from ann_benchmarks.jobs.events import Failure

from .guard import remove_all
from .images import find_image
from .limits import cpus_of_each, memory_of_each
from .sandbox import Account, Sandbox, project_files
from .wire import Checked, CheckRequest
from .worker import ask

_SECONDS = 120


def check_image(
    client: Any, image: str, definition: Definition, definitions: Path = DEFINITIONS_FOLDER
) -> Checked:
    """Import the plug-in in a container of an image, without network and GPUs, and ask for its versions."""
    found = find_image(client, image)
    if found is None:
        return Checked(problem=f"there is no image {image}")
    owner = uuid.uuid4().hex
    engine = client.info()
    [cpus] = cpus_of_each(None, 1, engine.get("NCPU"))
    sandbox = Sandbox(
        replace(found, needs_gpus=False),  # which a machine that builds may not have
        Account.for_image(found, client),
        owner,
        memory_of_each(None, 1, engine.get("MemTotal")),
        cpus,
        project_files(definitions),
    )
    try:
        answer = ask(client, sandbox, CheckRequest(definition), _SECONDS)
    finally:
        remove_all(client, owner)
    return Checked(problem=answer.text) if isinstance(answer, Failure) else answer
