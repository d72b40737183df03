"""The points of one built index: measured one after the other, and stored."""

import errno
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.jobs.events import Event, Note, PointFailed
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Caches, Warmup
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.plugin import Plugin

from .answers import AnswerCheck, RefutedTruth
from .loaded_point import LoadedPoint
from .observed import Kills
from .storing import PointStore, now
from .target import TargetSearch
from .timed import Subject, measure, measure_each


class Points:
    """The points of one built index."""

    def __init__(
        self,
        request: JobRequest,
        plugin: Plugin,
        dataset: Dataset,
        facts: dict[str, Any],
        report: Callable[[Event], None],
        monitor: Phases | None = None,
    ):
        """Take the built index; `facts` are stored with each point."""
        job = request.job
        self.request, self.job, self.report = request, job, report
        self.procedure, self.conditions = job.procedure, request.conditions
        self.monitor = monitor or NoMonitor()
        # What happened before the first point, stored with each of them if it has made the index.
        built = self.monitor.cut().named
        self.store = PointStore(request, plugin, dataset, facts, report, built)
        queries = self.store.queries
        how = (job.count, len(self.store.train), self.conditions, self.monitor, job.execution.quiet)
        check = None
        if queries.filters is not None:
            # Read again, because plug-ins may change in place what they are given.
            check = AnswerCheck(dataset.attributes([self.procedure.filter]), queries.filters)
        self.one_by_one = Subject(plugin, queries.copied_vectors(), *how, check=check)
        self.at_once = Subject(plugin, queries.copied_batch(), *how, check=check)
        self.plugin = plugin
        self.searches = 0  # times that all queries were answered in a search
        self.kills = Kills(request.conditions)

    def share(self, most_repeats: int, known_answers: dict[str, np.ndarray]) -> None:
        """Have all points share this many repeats of disturbed runs, and the answers that are known.

        `known_answers` are what the index has answered under any load; what it answers here is added.
        """
        repeats = self.one_by_one.new_repeats(most_repeats)
        self.one_by_one = replace(self.one_by_one, all_repeats=repeats, known_answers=known_answers)
        self.at_once = replace(self.at_once, all_repeats=repeats, known_answers=known_answers)

    def measure_all(self) -> None:
        """Measure one point after the other.

        A plug-in that can recover (a database) loses the point that failed; any other one ends.
        """
        for query_arguments in self.job.points:
            if not self.try_point(query_arguments, is_last=False):
                self.try_point(query_arguments, is_last=True)

    def try_point(self, query_arguments: list[Any], is_last: bool) -> bool:
        """Measure a point; return whether that is the end of it: it is tried again where memory ran out.

        Sessions that come at once take memory faster than a small server can be given it for them.
        """
        try:
            self.measure_point(query_arguments)
        except Exception as error:
            is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            if is_full or isinstance(error, MemoryError | RefutedTruth) or not self.plugin.can_recover:
                raise
            name, memory_reason = self.job.label(query_arguments), self.kills.reason()
            reason = describe(error) + memory_reason
            is_end = is_last or not memory_reason
            if is_end:
                details = "" if isinstance(error, UserError) else traceback.format_exc()
                self.report(PointFailed(name, reason, details))
            else:
                self.report(Note(f"{name}: {reason}; it is measured once more"))
            self.plugin.recover()
            return is_end
        return True

    def measure_point(self, query_arguments: list[Any]) -> None:
        """Set the arguments, or search for them, measure, and store."""
        self.monitor.cut()
        started_at = now()
        runs, found_facts = self.measured(query_arguments, self.measure_runs)
        self.keep(query_arguments, runs, {"started_at": started_at}, found_facts)

    def keep(
        self,
        query_arguments: list[Any],
        runs: list[Measured],
        before: dict[str, Any],
        found_facts: dict[str, Any],
    ) -> None:
        """Store a point and report it; `before` are attributes that were known before it was measured."""
        self.store.keep(query_arguments, runs, {**before, **found_facts}, self.monitor.cut())

    def measured(
        self,
        query_arguments: list[Any],
        measure_runs: Callable[[], list[Measured]],
        found_before: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[list[Measured], dict[str, Any]]:
        """Measure with these arguments, or where the target recall is first reached.

        Returns the runs, and what is stored of the search. `found_before` is what other points have found,
        beside what the request knows.
        """
        target = self.procedure.target_recall
        if target is None:
            self.set_arguments(query_arguments, {})
            return measure_runs(), {}
        search = self.target_search(self.job.label(query_arguments), target)
        known = [*self.request.found_before, *found_before]
        return search.measure(measure_runs, self.store.kept_neighbors, known, self.store.index_facts)

    def set_arguments(self, query_arguments: list[Any], found_facts: Mapping[str, Any]) -> None:
        """Set the arguments of a point, or those that the search for them has found."""
        if self.procedure.target_recall is None:
            if query_arguments:
                self.plugin.set_query_arguments(*query_arguments)
        elif found_facts and (search := self.plugin.search_range(self.job.count)):
            self.plugin.set_query_arguments(*search.arguments(found_facts["target_value"]))

    def target_search(self, name: str, target: float) -> TargetSearch:
        """Return the search for the smallest query argument that reaches a recall."""
        return TargetSearch(
            self.one_by_one,
            target,
            self.store.recalls_of,
            self.answers,
            lambda text: self.report(Note.about(name, text)),
        )

    def answers(self) -> np.ndarray:
        """Have all queries answered once with the arguments as set; (queries, at least count)."""
        load = self.procedure.load
        self.searches += 1
        return self.loaded(load).answers() if load is not None else measure(self.one_by_one, False).neighbors

    def measure_runs(
        self, numbers: Sequence[int] = (), caches: Caches = Caches.UNKNOWN, completes: bool = True
    ) -> list[Measured]:
        """Measure the runs of these numbers, by default all of a point, by the procedure.

        `caches` is what its warm-up finds. With `completes`, clients answer afterwards what a run has not
        sent.
        """
        procedure = self.procedure
        numbers = numbers or range(procedure.runs)
        if procedure.load is not None:
            return self.loaded(procedure.load).measure(
                procedure.warmup or Warmup(), numbers, caches, completes
            )
        subject = self.at_once if procedure.batch else self.one_by_one
        return measure_each(subject, procedure, len(numbers), caches)

    def loaded(self, load: Load) -> LoadedPoint:
        """Return the point as clients query it."""
        return LoadedPoint(self.at_once, load)
