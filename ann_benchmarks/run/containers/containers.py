"""The containers of one run: their images, their shares of the machine, their folders, and their end."""

import fcntl
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ann_benchmarks.common.disk import locked_file
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.output import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure
from ann_benchmarks.jobs.job import Job, JobRequest

from ..outcomes import log_path
from ..simulation import Simulation
from ..worker import NoWorker
from .engine import Image, find_image
from .guard import remove_all, start_guard
from .limits import cpus_of_each, memory_of_each, written
from .log import Log, terminal_size
from .sandbox import ContainerAccount, Sandbox, argument_files, dataset_files, project_files, storage_folder
from .slots import Slot, TurnsSlot
from .wire import RunRequest

_PREFIX = "ANN_BENCHMARKS_"
_OTHER_STORAGE = "name another folder with --storage"


@dataclass(frozen=True)
class Wishes:
    """What the user requests for all containers."""

    memory: int | None = None  # bytes of each; None: what is free, in equal shares
    cpus: list[int] | None = None  # None: all
    storage: Path = Path("storage")


class Containers:
    """Starts containers for jobs, at most `parallelism` at a time, and removes them whatever happens.

    Where contenders take turns, those of an image share a container, and all images' are there until the end.
    """

    def __init__(
        self,
        client: Any,
        wishes: Wishes,
        parallelism: int,
        definitions: Path,
        files: Sequence[Path],
        simulation: Simulation | None = None,
    ) -> None:
        """Take the folder of the plug-ins and the files of the dataset; nothing is started yet."""
        self._client, self._wishes, self._files = client, wishes, files
        self._simulation = simulation
        # The package that the conditions of jobs are from, which a container is given pickled.
        packages = [] if simulation is None else [type(simulation).__module__.partition(".")[0]]
        self._project = project_files(definitions, packages)
        engine = client.info()
        self._engine_memory = engine.get("MemTotal")
        self._memory = memory_of_each(wishes.memory, parallelism, self._engine_memory)
        self._free_cpus = dict(enumerate(cpus_of_each(wishes.cpus, parallelism, engine.get("NCPU"))))
        self._is_alone = parallelism == 1
        self._is_in_turn = False
        self._argument_files: dict[str, list[Path]] = {}  # by the image of the definitions that name them
        self._owner = uuid.uuid4().hex
        self._images: dict[str, Image | None] = {}
        self._accounts: dict[str, ContainerAccount] = {}
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
        return f"in containers of {size_text(self._memory)} of memory, CPUs {written(sorted(cpus))}"

    def check(self, definition: Definition) -> Failure | None:
        """Whether there is an image: None if so."""
        if self.image(definition) is not None:
            return None
        folder, _, tag = definition.docker_tag.removeprefix("ann-benchmarks-").partition(":")
        how = f"python install.py --algorithm {folder}{':' * bool(tag)}{tag}"
        return Failure(
            f"there is no image {definition.docker_tag}: build it with '{how}', or add --local",
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
        for job in jobs:
            files = self._argument_files.setdefault(job.definition.docker_tag, [])
            files += argument_files(job.definition.arguments)
        self._is_in_turn = any(job.procedure.rounds for job in jobs)
        if self._is_in_turn:
            images = len(self._argument_files)
            self._memory = memory_of_each(self._wishes.memory, images, self._engine_memory)
        for name in self._argument_files:
            account = self._accounts[name] = ContainerAccount.for_image(self._images[name], self._client)
            folder = storage_folder(self._wishes.storage, name, account)
            self._locks.append(locked_file(folder.with_name(f".{folder.name}.lock"), _OTHER_STORAGE))
        self._begin_guard()
        for name in self._ignored_variables():
            warn(f"{name} means nothing to these images; it is for --local")

    def _begin_guard(self) -> None:
        self._guard = start_guard(self._owner, [lock.fileno() for lock in self._locks])

    def _facts(self, definition: Definition) -> dict[str, Any]:
        """What is stored with each result of where it was measured."""
        image = self.image(definition)
        return {**placement_facts(image, self._wishes), "container_memory_bytes": self._memory}

    def start(self, job: Job) -> "Slot | NoWorker":
        """Start a container for a job, or for all of its image that take turns with it.

        It has CPUs that no other one has, but for those that idle when it does not.
        """
        image = self.image(job.definition)
        assert image is not None
        name = job.definition.docker_tag
        account = self._accounts[name]
        number = min(self._free_cpus)
        # Those that run at the same time cannot have one server's folder; each number has its own.
        storage = storage_folder(self._wishes.storage, name, account, number)
        if self._guard.poll() is not None:
            self._begin_guard()
        terms = None if self._simulation is None else self._simulation.terms(job)
        try:
            options = terms.make_ready(storage) if terms else {}
        except UserError as error:
            return NoWorker(str(error))
        cpus = self._free_cpus[number] if self._is_in_turn else self._free_cpus.pop(number)
        environment = {name: os.environ[name] for name in image.environment if name in os.environ}
        files = [*self._files, *self._argument_files[name]]
        sandbox = Sandbox(
            image,
            account,
            self._owner,
            (terms and terms.memory) or self._memory,
            cpus[: terms.cpus] if terms else cpus,
            self._project | dataset_files(files, account),
            storage,
            environment | dict(terms.environment if terms else {}),
            options,
        )
        log = Log(log_path(job), job.execution.show_progress)
        terminal = terminal_size() if self._is_alone else None
        request = RunRequest(JobRequest(job, self._facts(job.definition)), sandbox.memory, terminal)

        def give_back() -> None:
            self._free_cpus.update({number: cpus})

        kind = TurnsSlot if self._is_in_turn else Slot
        return kind(give_back, request, self._client, sandbox, log, terms)

    def _ignored_variables(self) -> list[str]:
        """Variables of this project's that are set and that none of the images takes."""
        taken = {name for image in self._images.values() if image for name in image.environment}
        return sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in taken)


def placement_facts(image: Image | None, wishes: Wishes) -> dict[str, Any]:
    """Return what is stored of an image and of the wishes; 0 for the memory where none was requested."""
    return {**(image.facts if image else {}), "container_memory_requested": wishes.memory or 0}
