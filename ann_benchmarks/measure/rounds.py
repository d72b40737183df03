"""Contenders in turn: several points of several indexes, each measured for one run in every round.

The process that carries them out holds all of their indexes at the same time, and lets one work at a time.
run/rounds.py decides whose turn it is.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.events import Event, PointFailed, TurnDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import SENT_ONCE, Caches
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.monitoring.monitor import Recording
from ann_benchmarks.plugin import Plugin

from .answers import filled
from .job import build, open_monitor, opened
from .points import Points
from .storing import now
from .turns_taken import TurnsTaken, forget

MOST_REPEATS = 100  # of a job's turns that others have disturbed


@dataclass(frozen=True)
class Enter:
    """The request to build a job's index, and to hold it ready for its turns."""

    request: JobRequest


@dataclass(frozen=True)
class Turn:
    """The request to measure one point of a job that has entered, for one run."""

    job: str  # its label
    point: int  # the place of its query arguments
    round: int


@dataclass(frozen=True)
class Keep:
    """The request to store what the points of a job have measured, with attributes; the job leaves."""

    job: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Save:
    """The request to keep what the points of a job have measured, for a race that is interrupted.

    `race` are the mark of the rounds, how long they are to go on, and how many are over.
    """

    job: str
    race: tuple[str, str, int]


@dataclass(frozen=True)
class Resume:
    """The request to go on with what the points of a job have measured in rounds that were interrupted."""

    job: str


RoundsRequest = Enter | Turn | Keep | Save | Resume


class SwitchedMonitor:
    """Phases for whoever has the turn: the monitor changes, and those who enter phases need not know."""

    def __init__(self, current: Phases) -> None:
        """Take the monitor of the build."""
        self.current = current
        self.before = Recording()  # of earlier turns, for the next cut

    def cut(self) -> Recording:
        """Return what was recorded since the last cut, and in earlier turns."""
        recording, self.before = self.current.cut().prepend(self.before), Recording()
        return recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


class EnteredJob:
    """A job whose index is built, with its points."""

    def __init__(
        self,
        request: JobRequest,
        plugin: Plugin,
        dataset: Dataset,
        monitor: Phases,
        report: Callable[[Event], None],
        known_answers: dict[str, np.ndarray],
        unused: set[str],
    ) -> None:
        """Build the index and let it rest; `known_answers` are what it has answered under any load.

        `unused` are the indexes that no query has used since their caches were filled.
        """
        self.request, self.job, self._plugin, self._report = request, request.job, plugin, report
        self._began = time.perf_counter()
        self._monitor = SwitchedMonitor(monitor)
        facts = build(request, plugin, dataset, monitor, report)
        self.points = Points(request, plugin, dataset, facts, report, self._monitor)
        self.points.share(MOST_REPEATS, known_answers)
        self.contenders: dict[int, TurnsTaken] = {}
        self._index, self._unused = str(self.job.definition), unused
        unused.add(self._index)
        monitor.close()
        self._monitor.current = NoMonitor()
        plugin.rest()

    def take_turn(self, turn: Turn, found_before: Sequence[Mapping[str, Any]]) -> None:
        """Measure a point for one run; where that fails, a plug-in that can recover loses the point alone."""
        arguments = self.job.points[turn.point]
        try:
            with self._active() as monitor:
                contender, run = self._measure(turn, arguments, found_before)
                self._unused.discard(self._index)
                contender.runs.append(smaller(run))
                contender.rounds.append(turn.round)
                contender.sent_once.append(run.facts.pop(SENT_ONCE, 0.0))
                contender.plugin_facts = self._plugin.get_additional()
                contender.recording = monitor.cut().prepend(contender.recording)
        except Exception as error:
            self.contenders.pop(turn.point, None)
            forget(self._path(turn.point))
            if not self._plugin.can_recover:
                raise
            details = "" if isinstance(error, UserError) else traceback.format_exc()
            reason = describe(error) + self.points.kills.reason()
            self._report(PointFailed(self.job.label(arguments), reason, details))
            self._plugin.recover()
            self._plugin.rest()
            return
        is_short = "target_missed" in contender.found_facts
        self._report(TurnDone(turn.job, turn.point, turn.round, run.seconds_per_query, is_short))

    def resume(self) -> None:
        """Take what every point has measured in rounds that were interrupted."""
        places = range(len(self.job.points))
        self.contenders = {place: TurnsTaken.read(self._path(place)) for place in places}

    def save(self, race: tuple[str, str, int]) -> None:
        """Write what every point has measured so far in this race."""
        for place, contender in self.contenders.items():
            contender.race = race
            contender.save(self._path(place))

    def keep(self, facts: Mapping[str, Any]) -> None:
        """Store every point that has had a turn; `facts` are attributes of each."""
        for place, contender in sorted(self.contenders.items()):  # in the definition's order of points
            own = {
                "started_at": contender.started_at,
                "run_rounds": contender.rounds,
                "run_sent_once": contender.sent_once,
            }
            arguments = self.job.points[place]
            self.points.set_arguments(arguments, contender.found_facts)
            before = {**contender.plugin_facts, **own, **facts}
            self._monitor.before = contender.recording
            path = self._path(place)
            self.points.keep(arguments, filled(contender.runs), before, contender.found_facts)
            forget(path)

    def found(self) -> list[Mapping[str, Any]]:
        """Return what the search for its points' arguments has found."""
        every = [contender.found_facts for contender in self.contenders.values()]
        return [self.points.store.index_facts | facts for facts in every if facts]

    def _path(self, place: int) -> Path:
        """Return where a point's result is stored, in the folder of the environment as far as it is known."""
        return self.points.store.job.path(self.job.points[place])

    @contextmanager
    def _active(self) -> Iterator[Phases]:
        """Have the plug-in work, while all others rest."""
        if self._plugin.resume():
            self._unused.add(self._index)
        self._monitor.current = monitor = open_monitor(self.request, self._plugin, self._began)
        try:
            yield monitor
        finally:
            self._monitor.current = NoMonitor()
            monitor.close()
            self._plugin.rest()

    def _measure(
        self, turn: Turn, arguments: list[Any], found_before: Sequence[Mapping[str, Any]]
    ) -> tuple[TurnsTaken, Measured]:
        numbers, contender = [turn.round], self.contenders.get(turn.point)
        caches = Caches.UNUSED if self._index in self._unused else Caches.WARM
        if contender is not None:
            self.points.set_arguments(arguments, contender.found_facts)
            return contender, self.points.measure_runs(numbers, caches, completes=False)[0]
        contender = TurnsTaken(now())
        before = self.points.searches

        def measure_first() -> list[Measured]:
            has_searched = self.points.searches > before  # so that every query was sent
            runs = self.points.measure_runs(numbers, Caches.WARM if has_searched else caches)
            if has_searched and caches is Caches.UNUSED:
                runs[0].facts[SENT_ONCE] = 1.0
            return runs

        runs, contender.found_facts = self.points.measured(arguments, measure_first, found_before)
        self.contenders[turn.point] = contender
        return contender, runs[0]


class Contenders:
    """The jobs that have entered, in the order in which they did."""

    def __init__(self) -> None:
        """Begin without a job."""
        self._jobs: dict[str, EnteredJob] = {}
        self._stacks: dict[str, ExitStack] = {}
        self._answers: dict[str, dict[str, np.ndarray]] = {}  # by `answered_alike`
        self._unused: set[str] = set()  # indexes, by their definitions

    def carry_out(self, request: RoundsRequest, report: Callable[[Any], None]) -> None:
        """Do what a request says, and report what happens."""
        if isinstance(request, Enter):
            self._enter(request.request, report)
        elif isinstance(request, Turn):
            taking = self._jobs[request.job]
            searched = taking.job.series.searched
            alike = [entered for entered in self._jobs.values() if entered.job.series.searched == searched]
            known = [facts for entered in alike for facts in entered.found()]
            taking.take_turn(request, known)
        elif isinstance(request, Resume):
            self._jobs[request.job].resume()
        elif isinstance(request, Save):
            self._jobs[request.job].save(request.race)
        else:
            self._jobs[request.job].keep(request.facts)
            self._leave(request.job)

    def close(self) -> None:
        """Let all of them go."""
        for name in list(self._jobs):
            self._leave(name)

    def _enter(self, request: JobRequest, report: Callable[[Any], None]) -> None:
        name = request.job.label()
        with ExitStack() as stack:
            plugin, dataset, monitor = stack.enter_context(opened(request))
            known = self._answers.setdefault(answered_alike(request.job), {})
            self._jobs[name] = EnteredJob(request, plugin, dataset, monitor, report, known, self._unused)
            self._stacks[name] = stack.pop_all()

    def _leave(self, name: str) -> None:
        del self._jobs[name]
        self._stacks.pop(name).close()


def answered_alike(job: Job) -> str:
    """Return a key that jobs share if the same query arguments give the same answers, whatever the load."""
    return str((job.dataset, job.count, job.definition, replace(job.procedure, load=None)))


def smaller(run: Measured) -> Measured:
    """Return a run that takes less memory: many are kept."""
    fits = run.neighbors.max(initial=0) <= np.iinfo(np.int32).max
    return replace(run, neighbors=run.neighbors.astype(np.int32)) if fits else run
