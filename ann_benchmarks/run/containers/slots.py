"""A container with its part of the machine: for one job, or for contenders that take turns in it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.jobs.events import Failure, PointDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.rounds import Enter, Keep, RoundsRequest, is_of_others

from ..simulation import Terms
from .log import Log
from .sandbox import Sandbox
from .wire import Died, RunRequest
from .worker import ContainerWorker, keep_results


class Slot(ContainerWorker):
    """A container that has a part of the machine for itself; `give_back` is called once, at its end."""

    def __init__(
        self,
        give_back: Callable[[], None],
        request: RunRequest,
        client: Any,
        sandbox: Sandbox,
        log: Log,
        terms: Terms | None = None,
    ) -> None:
        assert isinstance(request.request, JobRequest)
        self._job, self._facts = request.request.job, request.request.facts
        self._give_back, self._request = give_back, request
        self._end_keeping: Callable[[], None] = lambda: None
        super().__init__(client, sandbox, log, self._acceptance())
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

    def _acceptance(self) -> Callable[[Any, bytes], Any]:
        """Return what is given each message, before it is handed on."""
        return keep_results(self._job)


class TurnsSlot(Slot):
    """A container that holds the indexes of contenders, and takes one request after the other.

    It idles while those of other images are measured.
    """

    _results: "TurnResults"
    _has_begun: bool

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
        if isinstance(message, Died):
            self._failure = Failure(message.text, message.details)
            raise EOFError
        return message

    def end(self) -> None:
        """Have it put away what it holds, and end."""
        with suppress(OSError):
            ContainerWorker.send(self, None)
        super().end()

    def _acceptance(self) -> Callable[[Any, bytes], Any]:
        self._results, self._has_begun = TurnResults(), False
        return self._results.accept


class TurnResults:
    """Stores the results of the jobs that have entered a container, and no others."""

    def __init__(self) -> None:
        """None has entered, and nothing is to be stored."""
        self.jobs: list[Job] = []
        self.keep: Keep | None = None  # the request that is carried out, if it is one to store

    def accept(self, message: Any, attachment: bytes) -> Any:
        """Take a message and what is attached to it; return it.

        In the middle of a race, nothing takes the place of what an earlier one has measured.
        """
        if isinstance(message, PointDone):
            if self.keep is None or not any(job.is_result(message.path) for job in self.jobs):
                raise ValueError(f"{message.path} is no result of these jobs")
            if self.keep.is_last or not is_of_others(message.path, self.keep.facts):
                with atomic_path(message.path) as temporary:
                    temporary.write_bytes(attachment)
        return message
