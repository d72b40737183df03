"""Conditions that a job is measured under, where they are others than the machine's own."""

from collections.abc import Mapping
from typing import Any, Protocol

from ann_benchmarks.plugin import Watch


class Conditions(Protocol):
    """One set of conditions: comparable, and picklable for the process that measures."""

    @property
    def series(self) -> Mapping[str, Any]:
        """The fields of the series that is measured under them."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of every point that is measured under them."""

    def watch(self) -> Watch:
        """Observe in a run that they hold."""

    def kills(self) -> int:
        """Return how many processes the system has ended so far because the memory was used up."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where what was observed in a run, also by others, shows that they did not hold."""
