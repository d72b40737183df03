"""The containers of one run: images, shares of the machine, folders, results, and their end.

Each is for one job, or for contenders that take turns in it.
"""

import fcntl
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, locked_file
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, PointDone, WorkloadDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.rounds import Enter, Keep, RoundsRequest
from ann_benchmarks.measure.turns_taken import is_of_others

from ..request import Request
from ..worker import NoWorker, Simulation, Terms, log_path
from . import sandbox
from .engine import Image, find_image, remove_all, start_guard
from .wire import RunRequest
from .worker import ContainerWorker, Log, terminal_size

_PREFIX = "ANN_BENCHMARKS_"
_OTHER_STORAGE = "name another folder with --storage"


class Results:
    """Stores the results of jobs as they come, and no others, whatever a container says."""

    def __init__(self, jobs: Iterable[Job], takes_turns: bool = False) -> None:
        """Take the jobs. Of contenders that take turns, nothing is stored unless `keep` requests it."""
        self.jobs, self.takes_turns = list(jobs), takes_turns
        self.keep: Keep | None = None  # the request that is carried out, if it is one to store

    def accept(self, message: Any, attachment: bytes) -> Any:
        """Take a message and what is attached to it; return it.

        In the middle of a race, nothing takes the place of what an earlier one has measured.
        """
        if isinstance(message, PointDone | WorkloadDone):
            is_expected = self.keep is not None or not self.takes_turns
            if not is_expected or not any(job.is_result(message.path) for job in self.jobs):
                raise ValueError(f"{message.path} is not a result of this container's jobs")
            if self.keep is None or self.keep.is_last or not is_of_others(message.path, self.keep.facts):
                with atomic_path(message.path) as temporary:
                    temporary.write_bytes(attachment)
        return message


class Slot(ContainerWorker):
    """A container that has a part of the machine for itself; `give_back` is called once, at its end."""

    takes_turns = False

    def __init__(
        self,
        give_back: Callable[[], None],
        request: RunRequest,
        client: Any,
        place: sandbox.Sandbox,
        log: Log,
        terms: Terms | None = None,
    ) -> None:
        assert isinstance(request.request, JobRequest)
        self._job, self._facts = request.request.job, request.request.facts
        self._give_back, self._request = give_back, request
        self._end_keeping: Callable[[], None] = lambda: None
        self._results = Results([self._job], self.takes_turns)
        super().__init__(client, place, log, self._results.accept)
        if terms is not None and self.container is not None:
            self._end_keeping = terms.keep(self.container)

    def send(self, request: Any) -> None:
        """Hand over the job, with what else the container needs to know."""
        request = replace(request, facts=self._facts)
        super().send(replace(self._request, request=request))

    def stop(self) -> None:
        """End it, and let the next one have its place."""
        end_keeping, self._end_keeping = self._end_keeping, lambda: None
        end_keeping()
        super().stop()
        give_back, self._give_back = self._give_back, lambda: None
        give_back()


class TurnsSlot(Slot):
    """A container that holds the indexes of contenders, and takes one request after the other.

    It idles while those of other images are measured.
    """

    takes_turns = True
    _has_begun = False

    def send(self, request: RoundsRequest) -> None:
        """Hand over a request; with the first, what else the container needs to know."""
        if isinstance(request, Enter):
            self._results.jobs.append(request.request.job)
            request = Enter(replace(request.request, facts=self._facts))
        self._results.keep = request if isinstance(request, Keep) else None
        first = replace(self._request, request=request)
        ContainerWorker.send(self, request if self._has_begun else first)
        self._has_begun = True

    def next_message(self) -> Any:
        """Return what it says next; EOFError when it, or the process that holds the indexes, has ended."""
        message = super().next_message()
        if isinstance(message, Failure) and message.ends_worker:
            self._failure = message
            raise EOFError
        return message

    def end(self) -> None:
        """Have it put away what it holds, and end."""
        with suppress(OSError):
            ContainerWorker.send(self, None)
        super().end()


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
        self._argument_files: dict[str, list[Path]] = {}  # by the image of the definitions that name them
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
        for job in jobs:
            files = self._argument_files.setdefault(job.definition.docker_tag, [])
            files += sandbox.argument_files(job.definition.arguments)
        self._is_in_turn = any(job.procedure.rounds for job in jobs)
        if self._is_in_turn:
            images = len(self._argument_files)
            self._memory = sandbox.memory_of_each(self._request.memory, images, self._engine_memory)
        for name in self._argument_files:
            account = self._accounts[name] = sandbox.ContainerAccount.choose(self._images[name], self._client)
            folder = sandbox.storage_folder(self._storage, name, account)
            self._locks.append(locked_file(folder.with_name(f".{folder.name}.lock"), _OTHER_STORAGE))
        self._begin_guard()
        taken = {name for image in self._images.values() if image for name in image.environment}
        for name in sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in taken):
            warn(f"{name} means nothing to these images; it is for --local")

    def _begin_guard(self) -> None:
        self._guard = start_guard(self._owner, [lock.fileno() for lock in self._locks])

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
        storage = sandbox.storage_folder(self._storage, name, account, number)
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
        place = sandbox.Sandbox(
            image,
            account,
            self._owner,
            (terms and terms.memory) or self._memory,
            cpus[: terms.cpus] if terms else cpus,
            self._project | sandbox.dataset_files(files, account),
            storage,
            environment | dict(terms.environment if terms else {}),
            options,
        )
        facts = {
            **sandbox.placement_facts(image, self._request.memory),
            "container_memory_bytes": self._memory,
        }
        log = Log(log_path(job), job.execution.show_progress)
        terminal = terminal_size() if self._request.parallelism == 1 else None
        request = RunRequest(JobRequest(job, facts), place.memory, terminal)

        kind = TurnsSlot if self._is_in_turn else Slot
        give_back = partial(self._free_cpus.update, {number: cpus})
        return kind(give_back, request, self._client, place, log, terms)
