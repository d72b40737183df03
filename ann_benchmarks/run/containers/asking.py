"""One question to a plug-in in a container of its image: which versions it has, or where it would measure."""

import os
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located

from ..request import Request
from ..whereabouts import SECONDS, Locate
from ..worker import LOCATION, VERSIONS, Question
from . import sandbox
from .engine import find_image, remove_all
from .worker import ContainerWorker, Log

_CHECK_SECONDS = 120


def check_image(
    client: Any, image: str, definition: Definition, definitions: Path = DEFINITIONS_FOLDER
) -> Located | Failure:
    """Import the plug-in in a container of an image, without network and GPUs; return its versions."""
    question, request = Question(definition, VERSIONS), Request(definitions=definitions)
    return _ask(client, image, question, request, _CHECK_SECONDS)[0]


def container_locator(client: Any, request: Request) -> Locate:
    """Return what has a plug-in report, in a container like those of its jobs, where it would measure."""

    def locate(definition: Definition) -> Located | Failure:
        question = Question(definition, LOCATION)
        answer, facts = _ask(client, definition.docker_tag, question, request, SECONDS)
        if isinstance(answer, Failure):
            return answer
        facts = {**answer.facts, **facts}
        shares = sandbox.cpus_of_each(request.cpuset, request.parallelism, client.info().get("NCPU"))
        if len({len(share) for share in shares}) > 1:
            del facts["cores"]  # it depends on which of them a job gets
        return Located(facts)

    return locate


def _ask(
    client: Any, name: str, question: Question, request: Request, seconds: float
) -> tuple[Located | Failure, dict[str, Any]]:
    """Return the answer, or a Failure, of a container like those of jobs, and what is known of its place."""
    image = find_image(client, name)
    if image is None:
        return Failure(f"the image {name} does not exist", is_unavailable=True), {}
    owner, engine = uuid.uuid4().hex, client.info()
    place = sandbox.Sandbox(
        replace(image, needs_gpus=False),  # nothing is computed, and a machine that builds may have none
        sandbox.ContainerAccount.choose(image, client),
        owner,
        sandbox.memory_of_each(request.memory, request.parallelism, engine.get("MemTotal")),
        sandbox.cpus_of_each(request.cpuset, request.parallelism, engine.get("NCPU"))[0],
        sandbox.project_files(request.definitions),
        environment={name: os.environ[name] for name in image.environment if name in os.environ},
    )
    try:
        return answer_to(client, place, question, seconds), sandbox.placement_facts(image, request.memory)
    finally:
        remove_all(client, owner)


def answer_to(client: Any, place: sandbox.Sandbox, question: Question, seconds: float) -> Located | Failure:
    """Have a container answer a question; return its answer, or a Failure where it gives none in time."""
    worker = ContainerWorker(client, place, Log(None, False), lambda message, attachment: message)
    deadline = time.monotonic() + seconds
    answer: Any = None
    try:
        with suppress(OSError):
            worker.send(question)
        while answer is None and worker.pipe.poll(max(deadline - time.monotonic(), 0)):
            answer = worker.next_message()
        if isinstance(answer, Located | Failure):
            return answer
        return Failure(f"no answer within {seconds:g} s")
    except EOFError:
        return worker.death()
    finally:
        worker.stop()
