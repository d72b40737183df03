"""How points are measured, under what, and how that is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ann_benchmarks.fields.rows import GROUPS
from ann_benchmarks.fields.series import Series
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.plugin import Watch

from .rounds import Rounds


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

    def shortage(self) -> str:
        """Say which memory that was, and what to do."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where what was observed in a run, also by others, shows that they did not hold."""


@dataclass(frozen=True)
class Procedure:
    """How points are measured."""

    runs: int = 1
    batch: bool = False
    load: Load | None = None  # None: one query after the other, from the algorithm's own process
    workload: Workload | None = None  # it writes, and has one point
    warmup: Warmup | None = None  # None: as the algorithm is used to
    target_recall: float | None = None  # each point is searched for, and its arguments are unknown before
    conditions: Conditions | None = None  # None: the machine as it is
    rounds: Rounds | None = None  # None: one point after the other
    filter: str = ""  # the filter set of its queries, "" for none
    post_filter: float | None = None  # times k rows are requested without it, and filtered afterwards
    payload: str = ""  # what comes back beside the ids: text or vector, "" for nothing
    more: Mapping[str, Any] = field(default_factory=dict)  # other fields of the series, by name

    @property
    def is_cold(self) -> bool:
        """Whether every run begins with cold caches."""
        return self.warmup is not None and self.warmup.is_off

    @property
    def _own(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("batch", "is_cold", "filter", "post_filter", "payload")}
        return {**own, **self.more}

    @property
    def series(self) -> dict[str, Any]:
        """The fields of a series that follow from it."""
        load = self.workload or self.load
        return {
            **self._own,
            **(load.series if load is not None else {}),
            **(self.conditions.series if self.conditions is not None else {}),
        }

    def __str__(self) -> str:
        """Write the end of a line that says who sends the queries; "" for one after the other."""
        text = "" if self.load is None else f" {self.load}"
        if self.workload is not None:
            text = f", {self.workload}"
        text += "".join(f", {words}" for words in Series("", **self._own).words(*GROUPS))
        return text if self.conditions is None else f"{text} on {self.conditions}"


@dataclass(frozen=True)
class Execution:
    """How a job is carried out, whatever it measures."""

    load_threads: int | None = None  # of a database plug-in; None leaves it the choice
    chunk_size: int | None = None  # rows
    rebuild: bool = False  # although an index is there from an earlier run
    build_only: bool = False
    clients: int = 0  # the most that there are at the same time, those that write included
    monitoring: bool = True  # of the machine and the server, all the time
    show_progress: bool = True
    filters: tuple[str, ...] = ()  # of the run, for whose attributes every table has columns
    payload: str = ""  # of the run, for which tables may have a column
    facts: Mapping[str, Any] = field(default_factory=dict)  # stored with each point

    @property
    def quiet(self) -> bool | None:
        """What progress bars take as `disable`; None: shown on a terminal only."""
        return None if self.show_progress else True
