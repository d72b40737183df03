"""The containers of one run: images, shares of the machine, folders, and their end.

Each is for one job, for contenders that take turns in it, or for one question to a plug-in.
"""

import fcntl
import os
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import locked_file
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.jobs.job import Job

from ..request import Request
from ..worker import (
    LOCATION,
    LOCATION_SECONDS,
    VERSIONS,
    Locate,
    Question,
    Simulation,
    ask,
    log_path,
)
from . import sandbox
from .engine import Image, find_image, remove_all, start_guard
from .wire import TERMINAL
from .worker import ContainerWorker, Log, terminal_size

_PREFIX = "ANN_BENCHMARKS_"
_CHECK_SECONDS = 120
_OTHER_STORAGE = "name another folder with --storage"


class Containers:
    """Starts containers for jobs, at most `parallelism` at a time, and removes them whatever happens.

    Where contenders take turns, those of an image share a container, and all images' are there until the end.
    """

    def __init__(
        self,
        client: Any,
        request: Request,
        files: Sequence[Path],
        simulation: Simulation | None,
    ) -> None:
        self._client, self._request, self._files = client, request, files
        self._storage = request.storage or Path("storage")
        self._simulation = simulation
        # The package that the conditions of jobs are from, which a container is given pickled.
        packages = [] if simulation is None else [type(simulation).__module__.partition(".")[0]]
        self._project = sandbox.project_files(request.definitions, packages)
        engine = client.info()
        self._engine_memory = engine.get("MemTotal")
        self._memory = sandbox.memory_of_each(request.memory, request.parallelism, self._engine_memory)
        shares = sandbox.cpus_of_each(request.cpuset, request.parallelism, engine.get("NCPU"))
        self._free_cpus = dict(enumerate(shares))
        self._is_in_turn = False
        self._owner = uuid.uuid4().hex
        self._images: dict[str, Image | None] = {}
        self._accounts: dict[str, sandbox.ContainerAccount] = {}
        self._locks: list[IO[str]] = []
        self._guard: Any = None

    def __enter__(self) -> "Containers":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        from docker.errors import DockerException

        if self._guard is not None:
            with suppress(DockerException, OSError):  # the engine is gone: the guard waits for it, and locks
                remove_all(self._client, self._owner)
                for lock in self._locks:
                    fcntl.flock(lock, fcntl.LOCK_UN)  # the guard's copy too: the next run need not wait
            self._guard.stdin.close()  # it looks once more, which nobody waits for
        for lock in self._locks:
            lock.close()

    def __str__(self) -> str:
        cpus = [cpu for share in self._free_cpus.values() for cpu in share]
        return (
            f"in containers of {size_text(self._memory)} of memory, CPUs {sandbox.write_cpus(sorted(cpus))}"
        )

    def check(self, definition: Definition) -> Failure | None:
        """Whether there is an image: None if so."""
        if self.image(definition) is not None:
            return None
        folder, _, tag = definition.docker_tag.removeprefix("ann-benchmarks-").partition(":")
        how = f"python install.py --algorithm {folder}{':' * bool(tag)}{tag}"
        return Failure(
            f"the image {definition.docker_tag} does not exist: build it with '{how}', or add --local",
            is_unavailable=True,
        )

    def image(self, definition: Definition) -> Image | None:
        """The image of a definition, None if it is not there."""
        name = definition.docker_tag
        if name not in self._images:
            self._images[name] = find_image(self._client, name)
        return self._images[name]

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Take the folders that the jobs' containers keep things in, and start the guard.

        The memory is shared out among those that are there at the same time. UserError where another run has
        a folder.
        """
        images = dict.fromkeys(job.definition.docker_tag for job in jobs)
        self._is_in_turn = any(job.procedure.rounds for job in jobs)
        if self._is_in_turn:
            self._memory = sandbox.memory_of_each(self._request.memory, len(images), self._engine_memory)
        for name in images:
            account = self._accounts[name] = sandbox.ContainerAccount.choose(self._images[name], self._client)
            folder = sandbox.storage_folder(self._storage, name, account)
            self._locks.append(locked_file(folder.with_name(f".{folder.name}.lock"), _OTHER_STORAGE))
        self._begin_guard()
        taken = {name for image in self._images.values() if image for name in image.environment}
        for name in sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in taken):
            warn(f"{name} means nothing to these images; it is for --local")

    def _begin_guard(self) -> None:
        self._guard = start_guard(self._owner, [lock.fileno() for lock in self._locks])

    def start(self, job: Job) -> ContainerWorker:
        """Start a container for a job, or for all of its image that take turns with it; UserError: it is not.

        It has CPUs that no other one has, but for those that idle when it does not.
        """
        image = self.image(job.definition)
        assert image is not None
        name = job.definition.docker_tag
        account = self._accounts[name]
        number = min(self._free_cpus)
        # Those that run at the same time cannot have one server's folder; each number has its own.
        storage = sandbox.storage_folder(self._storage, name, account, number)
        if self._guard.poll() is not None:
            self._begin_guard()
        terms = None if self._simulation is None else self._simulation.terms(job)
        cpus = self._free_cpus[number]
        environment = image.given
        if self._request.parallelism == 1 and (size := terminal_size()):
            environment |= {TERMINAL: "1", "LINES": str(size[0]), "COLUMNS": str(size[1])}
        place = sandbox.Sandbox(
            image,
            account,
            self._owner,
            (terms and terms.memory) or self._memory,
            cpus[: terms.cpus] if terms else cpus,
            self._project | sandbox.dataset_files(self._files, account),
            storage,
            environment | dict(terms.environment if terms else {}),
            terms.make_ready(storage) if terms else {},
        )
        facts = {
            **sandbox.placement_facts(image, self._request.memory),
            "container_memory_bytes": self._memory,
        }
        log = Log(log_path(job), job.execution.show_progress)
        at_end = ExitStack()
        if not self._is_in_turn:
            at_end.callback(self._free_cpus.update, {number: self._free_cpus.pop(number)})
        worker = ContainerWorker(self._client, place, log, facts, at_end)
        if terms is not None:
            at_end.callback(terms.keep(worker.container))
        return worker


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
        answer, facts = _ask(client, definition.docker_tag, question, request, LOCATION_SECONDS)
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
        environment=image.given,
    )
    try:
        return answer_to(client, place, question, seconds), sandbox.placement_facts(image, request.memory)
    finally:
        remove_all(client, owner)


def answer_to(client: Any, place: sandbox.Sandbox, question: Question, seconds: float) -> Located | Failure:
    """Have a container answer a question; return its answer, or a Failure where it gives none in time."""
    try:
        worker = ContainerWorker(client, place, Log(None, False))
    except UserError as error:
        return Failure(str(error))
    try:
        answer = ask(worker, question, seconds)
        return answer if isinstance(answer, Located | Failure) else Failure("it has answered something else")
    finally:
        worker.stop()
