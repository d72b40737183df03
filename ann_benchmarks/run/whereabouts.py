"""Where jobs would run, as far as it is known before: reported by plug-ins in a process of their own."""

from collections.abc import Callable, Mapping
from typing import Any

from ann_benchmarks.common.output import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.environment import with_settings_given

from .process import ProcessWorker
from .worker import LocationRequest, ask

SECONDS = 120

Locate = Callable[[Definition], Located | Failure]


class Locator:
    """Returns attributes that all results of a job would have here; each plug-in is imported once for it.

    Where that cannot be found out, nothing is known, and no finished point is contradicted.
    """

    def __init__(self, locate: Locate) -> None:
        """Take what has a plug-in report it."""
        self._locate = locate
        self._known: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Return the facts, with those of the job's tier."""
        definition = job.definition
        plugin = (definition.module, definition.constructor, definition.docker_tag, definition.version)
        key = (*plugin, definition.shards.count if definition.shards else 0)
        if key not in self._known:
            answer = self._locate(definition)
            if isinstance(answer, Failure) and not answer.is_unavailable:
                warn(f"what is known of the server of {definition.family} here is nothing: {answer.text}")
            self._known[key] = answer.facts if isinstance(answer, Located) else {}
        facts, conditions = self._known[key], job.procedure.conditions
        facts = with_settings_given(facts, definition.settings, definition.varied)
        return {**facts, **(conditions.facts if facts and conditions else {})}


def locate_here(definition: Definition) -> Located | Failure:
    """Have a process of this machine report it."""
    worker = ProcessWorker(version=definition.version or None)
    try:
        answer = ask(worker, LocationRequest(definition))
        worker.end()
    finally:
        worker.stop()
    return answer if isinstance(answer, Located) else Failure(getattr(answer, "text", "no answer"))
