"""Carrying out jobs in rounds: all indexes are built, then their points are measured in turn."""

import multiprocessing.connection
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, groupby
from typing import Any

from ann_benchmarks.common.command import Ended
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.jobs.events import Failure, TurnDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import Contender, Race, Rounds, shares_of_budget
from ann_benchmarks.measure.rounds import Enter, Keep, Resume, RoundsRequest, Save, Turn
from ann_benchmarks.measure.turns_taken import forget
from ann_benchmarks.results.measurement import chain_of
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS

from .console import Console, JobOutcome
from .race import Interrupted, RoundsProgress, conclusions, find_interrupted
from .worker import POLL_SECONDS, Worker, hear, note_failure

TOLERATED = 1.1  # times the budget: rounds are not cut short
KEEP_SECONDS = 20.0  # after which what was measured is saved, in case that the rest is never reached
KEEP_SHARE = 0.05  # of the time, which saving takes at most


class Conductor:
    """Gives contenders their turns; those of one home are in one process, or container, and on one server."""

    def __init__(
        self,
        start: Callable[[Job], Worker],
        home: Callable[[Job], str],
        timeout: float | None,
        rounds: Rounds,
        observer: Console,
        resumes: bool = True,
    ) -> None:
        """Take what starts a worker for a job's home, and the seconds that a build, or a turn, may take.

        With `resumes`, it goes on with rounds that were interrupted.
        """
        self._start, self._home, self._timeout, self._resumes = start, home, timeout, resumes
        self._rounds, self._observer = rounds, observer
        self._workers: dict[str, Worker] = {}  # by the home
        self._outcomes: dict[str, JobOutcome] = {}  # by the job's label
        self._ends: float | None = None  # of the budget, on the monotonic clock
        self._fewest = 0  # races that went on beyond their budget for the least number of rounds
        # Of one race:
        self._inside: dict[str, Worker] = {}  # by the label of the job whose index it holds
        self._kept = 0  # rounds that the same command would go on with
        self._is_torn = False  # a process has ended, with what it held of others than the culprit

    def run(self, jobs: Sequence[Job]) -> list[JobOutcome]:
        """Measure all jobs, those under the same conditions in turn; the outcomes are in their order."""
        groups = [list(group) for _, group in groupby(jobs, lambda job: job.procedure.conditions)]
        for group, share in zip(groups, shares_of_budget(len(groups)), strict=True):
            left = group
            while not self._race(left, share):
                left = [job for job in left if not self._has_failed(job)]
                warn("a process has ended with all that was measured in it: the others begin anew")
        if text := self._beyond_budget(len(groups)):
            say(text)
        return [self._outcomes[job.label()] for job in jobs]

    def _beyond_budget(self, races: int) -> str:
        """Say that the least number of rounds took longer than requested; "" where it did not."""
        budget = self._rounds.budget
        if not self._fewest or budget is None or self._ends is None:
            return ""
        seconds = time.monotonic() - self._ends + budget
        if seconds <= TOLERATED * budget:
            return ""
        which = f" ({self._fewest} of {races} races had no more)" if races > 1 else ""
        return (
            f"measuring took {seconds:.0f} s instead of the {budget:.0f} s of --budget:"
            f" {FEWEST_ROUNDS} rounds are the least{which}"
        )

    def _race(self, jobs: Sequence[Job], share: float) -> bool:
        """Build all indexes and measure them in turn; return False where that has to begin anew.

        `share` is that of what is left of the budget.
        """
        self._inside, self._kept, self._is_torn = {}, 0, False
        with self._workplace():
            entered = [job for job in jobs if not self._is_torn and self._enter(job)]
            now = time.monotonic()
            if self._rounds.budget is not None:
                self._ends = self._ends or now + self._rounds.budget  # the first to enter have built all
            if entered and not self._is_torn:
                try:
                    self._measure(entered, self._ends and now + share * (self._ends - now))
                except Ended as end:
                    end.outlook = "no round is kept yet, the same command begins anew"
                    if self._kept:
                        kept = f"{counted(self._kept, 'round')} kept"
                        end.outlook = (
                            f"{kept}, with which the same command continues while nothing else changes"
                        )
                    raise
        return not self._is_torn

    @contextmanager
    def _workplace(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for worker in self._workers.values():
                worker.ask_to_end()
            for worker in self._workers.values():
                worker.stop()
            raise
        for worker in self._workers.values():
            worker.end()
        self._workers = {}

    def _enter(self, job: Job) -> bool:
        """Have a job's index built; return whether it is there."""
        self._observer.started(job)
        home = self._home(job)
        outcome = self._outcomes[job.label()] = JobOutcome(job)
        if home not in self._workers:
            try:
                self._workers[home] = self._start(job)
            except UserError as error:
                note_failure(outcome, Failure(str(error)), self._observer)
                return False
        self._inside[job.label()] = self._workers[home]
        return self._ask(job, Enter(job.request())) is not None

    def _has_failed(self, job: Job) -> bool:
        return job.label() in self._outcomes and self._outcomes[job.label()].failure is not None

    def _measure(self, jobs: Sequence[Job], ends: float | None) -> None:
        race = Race([contender for job in jobs for contender in contenders(job)], self._rounds)
        facts: dict[str, Any] = {"rounds": uuid.uuid4().hex[:16], "rounds_requested": str(self._rounds)}
        by_label = {job.label(): job for job in jobs}
        is_shown = jobs[0].execution.show_progress
        began = time.monotonic()
        kept = began + KEEP_SECONDS
        reason = "rounds"
        measured: dict[Contender, list[float]] = {contender: [] for contender in race.running}
        if before := self._resume(race, jobs):
            facts["rounds"] = before.mark
            measured = {contender: [*log.values()] for contender, log in before.logs.items()}
            ends = ends and ends - before.seconds
        with RoundsProgress(self._rounds, ends, is_shown, race.done) as progress:
            for number in count(race.done + 1):
                round_began = time.monotonic()
                for contender in draw_order(race.running, by_label):
                    job = by_label[contender.job]
                    seconds = self._take_turn(race, contender, job, number)
                    # A point that has failed has no result, and the chain is that of the results.
                    measured[contender] = [*measured[contender], *seconds] if seconds else []
                    if self._has_failed(job):
                        for arguments in job.points:
                            forget(job.path(arguments))
                    if self._is_torn:
                        return
                    progress.turn(number, len(race.running))
                stored = [
                    of_one for one, of_one in measured.items() if not self._has_failed(by_label[one.job])
                ]
                facts |= chain_of(facts["rounds"], stored)  # one that has failed has no result
                is_decided = race.end_round()
                progress.end_round(number, len(race.running))
                if is_decided:
                    reason = "until"
                    break
                if not race.running or number >= self._rounds.most:
                    break
                now = time.monotonic()
                half_of_next = (now - round_began) / 2
                if ends is not None and number >= FEWEST_ROUNDS and now + half_of_next > ends:
                    reason = "budget"
                    break
                if self._resumes and now > kept:
                    for job in jobs:
                        race_so_far = facts["rounds"], facts["rounds_requested"], number
                        self._ask(job, Save(job.label(), race_so_far))
                        if self._is_torn:
                            return
                    self._kept = number
                    kept = time.monotonic() + max(KEEP_SECONDS, (time.monotonic() - now) / KEEP_SHARE)
        self._fewest += ends is not None and race.done == FEWEST_ROUNDS and time.monotonic() > ends
        for job in jobs:
            self._ask(job, Keep(job.label(), {**facts, "rounds_ended": reason}))
            if self._is_torn:
                return
        say(f"{counted(race.done, 'round')} in {time.monotonic() - began:.0f} s of measuring")
        for line in conclusions(jobs, [done for job in jobs for done in self._outcomes[job.label()].points]):
            say(line)

    def _resume(self, race: Race, jobs: Sequence[Job]) -> Interrupted | None:
        """Go on with interrupted rounds if all jobs were in them and their indexes are still there."""
        outcomes = [self._outcomes[job.label()] for job in jobs]
        found = find_interrupted(jobs, race.running) if self._resumes else None
        if found is None or not all(outcome.built and outcome.built.is_reused for outcome in outcomes):
            return None
        for job in jobs:
            self._ask(job, Resume(job.label()))
        race.resume(found.logs)
        for contender, taken in found.taken.items():
            if "target_missed" in taken.found_facts:
                race.exclude(contender)
        self._kept = race.done
        say(f"{counted(race.done, 'round')} of the interrupted race are kept")
        return found

    def _take_turn(self, race: Race, contender: Contender, job: Job, number: int) -> list[float]:
        """Have a contender take its turn; return the seconds of a query, none where it has failed."""
        turn = self._ask(job, Turn(contender.job, contender.point, number))
        if turn is None or not isinstance(turn, TurnDone):
            race.remove(contender)
            return []
        race.note(contender, number, turn.seconds_per_query)
        if turn.is_short:
            race.exclude(contender)
        return [turn.seconds_per_query]

    def _ask(self, job: Job, request: RoundsRequest) -> Any:
        """Have a worker carry out a request.

        Returns the last thing that it has reported, None where the job has failed; its other points are not
        measured then.
        """
        outcome = self._outcomes[job.label()]
        if self._has_failed(job):
            return None
        worker = self._inside[job.label()]
        began, last, answer = time.perf_counter(), None, None
        with suppress(OSError):  # it has just died: seen below
            worker.send(request)
        while answer is None:
            multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
            report, answer = hear(worker, outcome, self._observer, began, self._timeout)
            last = report or last
        if isinstance(answer, Failure) and answer.ends_worker:
            self._lose(worker, job)
        outcome.seconds += time.perf_counter() - began
        if isinstance(answer, Failure):
            note_failure(outcome, answer, self._observer, worker)
            return None
        return last or answer

    def _lose(self, worker: Worker, culprit: Job) -> None:
        """Take account of a worker that has ended: what others have measured in it is lost."""
        worker.stop()
        del self._workers[self._home(culprit)]
        self._is_torn = any(
            holder is worker and label != culprit.label() and self._outcomes[label].failure is None
            for label, holder in self._inside.items()
        )


def draw_order(running: Sequence[Contender], jobs: Mapping[str, Job]) -> list[Contender]:
    """Return the order of a round: indexes in random order, and the points of each one after the other.

    So an index is switched on once a round. Its points are in random order, but more clients are first: they
    warm up its caches sooner. In the first round they have every query answered, and the others need not.
    """
    index_of = {contender: str(jobs[contender.job].definition) for contender in running}
    indexes = list(dict.fromkeys(index_of.values()))
    places = {index: place for place, index in enumerate(random.sample(indexes, len(indexes)))}
    drawn = random.sample(running, len(running))
    return sorted(drawn, key=lambda one: (places[index_of[one]], -clients_of(jobs[one.job])))


def clients_of(job: Job) -> int:
    """Return how many send a job's queries at the same time."""
    return 1 if job.procedure.load is None else job.procedure.load.clients


def contenders(job: Job) -> Iterator[Contender]:
    """Yield the points of a job; the rivals are the points of other definitions by the same procedure."""
    for place in range(len(job.points)):
        is_at_target = job.procedure.target_recall is not None
        yield Contender(job.label(), place, str(job.procedure), is_at_target)
