"""Where jobs would run, as far as it is known before: reported by plug-ins."""

from collections.abc import Callable, Mapping
from typing import Any

from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.environment import add_settings

SECONDS = 120

Locate = Callable[[Definition], Located | Failure]


class Locator:
    """Returns attributes that all results of a job would have here; each plug-in is imported once for it.

    Where that cannot be found out, nothing is known, and no finished point is contradicted.
    """

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._known: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        self._said: set[str] = set()  # failures; several plug-ins may have the same

    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Return the facts, with those of the job's tier."""
        definition = job.definition
        plugin = (definition.module, definition.constructor, definition.docker_tag, definition.version)
        key = (*plugin, definition.servers)
        if key not in self._known:
            answer = self._locate(definition)
            if isinstance(answer, Failure) and not answer.is_unavailable and answer.text not in self._said:
                self._said.add(answer.text)
                warn(f"nothing is known of the server of {definition.family}: {answer.text}")
            self._known[key] = answer.facts if isinstance(answer, Located) else {}
        facts, conditions = self._known[key], job.procedure.conditions
        facts = add_settings(facts, definition.settings, definition.varied)
        return {**facts, **(conditions.facts if conditions else {}), **job.facts_of_servers} if facts else {}
