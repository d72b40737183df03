"""Carrying out jobs in rounds: all indexes are built, then their points are measured in turn."""

import multiprocessing.connection
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, groupby
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.common.output import counted, say
from ann_benchmarks.jobs.events import Failure, Finished, PointDone, TurnDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import Contender, Race, Rounds, shares_of_budget
from ann_benchmarks.measure.rounds import Enter, Keep, Turn
from ann_benchmarks.results.contest import Ratio, contest
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.judging import ERROR_RATE
from ann_benchmarks.results.speeds import Speed, speed_of

from .pool import AT_ONCE, POLL_SECONDS, JobOutcome, Observer, failed, noted, request_of
from .worker import Worker

FEWEST_ROUNDS = 3  # whatever the budget
KEEP_SECONDS = 60.0  # after which what was measured is stored, in case that the rest is never reached


class Conductor:
    """Gives contenders their turns: those of one version in one process, all on the same server."""

    def __init__(
        self, start: Callable[[Job], Worker], timeout: float | None, rounds: Rounds, observer: Observer
    ) -> None:
        """Take what starts a worker for a job, and the seconds that a job may take in all its turns."""
        self._start, self._timeout, self._rounds, self._observer = start, timeout, rounds, observer
        self._workers: dict[str, Worker] = {}
        self._outcomes: dict[str, JobOutcome] = {}  # by the job's label
        self._done: list[PointDone] = []  # under the conditions that are measured now

    def run(self, jobs: Sequence[Job]) -> list[JobOutcome]:
        """Measure all jobs, those under the same conditions in turn; the outcomes are in their order."""
        groups = [list(group) for _, group in groupby(jobs, lambda job: job.procedure.conditions)]
        outcomes = []
        ends: float | None = None  # of the budget, on the monotonic clock
        for group, share in zip(groups, shares_of_budget(len(groups)), strict=True):
            self._done = []
            with self._workplace():
                entered = [job for job in group if self._enter(job)]
                now = time.monotonic()
                if self._rounds.budget is not None:
                    ends = ends or now + self._rounds.budget  # the first to enter have built their indexes
                if entered:
                    self._measure(entered, ends and now + share * (ends - now))
            outcomes += [self._outcomes[job.label()] for job in group]
        return outcomes

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
        version = job.definition.version
        if version not in self._workers:
            self._workers[version] = self._start(job)
        self._outcomes[job.label()] = JobOutcome(job)
        return self._ask(job, Enter(request_of(job))) is not None

    def _measure(self, jobs: Sequence[Job], ends: float | None) -> None:
        race = Race([contender for job in jobs for contender in contenders(job)], self._rounds)
        facts = {"rounds": uuid.uuid4().hex[:16], "rounds_requested": str(self._rounds)}
        by_label = {job.label(): job for job in jobs}
        is_shown = jobs[0].execution.show_progress
        began = kept = time.monotonic()
        reason = "rounds"
        with tqdm(desc="rounds", unit="turn", leave=False, disable=None if is_shown else True) as bar:
            for number in count(1):
                round_began = time.monotonic()
                for contender in random.sample(race.running, len(race.running)):
                    self._take_turn(race, contender, by_label[contender.job], number)
                    bar.update()
                    bar.set_postfix_str(f"round {number}, {counted(len(race.running), 'contender')}")
                if race.end_round():
                    reason = "until"
                    break
                if not race.running or number >= self._rounds.most:
                    break
                now = time.monotonic()
                half_of_next = (now - round_began) / 2
                if ends is not None and number >= FEWEST_ROUNDS and now + half_of_next > ends:
                    reason = "budget"
                    break
                if time.monotonic() > kept + KEEP_SECONDS:
                    self._keep(jobs, facts, is_last=False)
                    kept = time.monotonic()
        self._keep(jobs, {**facts, "rounds_ended": reason}, is_last=True)
        say(f"{counted(race.done, 'round')} in {time.monotonic() - began:.0f} s of measuring")
        for line in conclusions(jobs, self._done):
            say(line)

    def _take_turn(self, race: Race, contender: Contender, job: Job, number: int) -> None:
        turn = self._ask(job, Turn(contender.job, contender.point, number))
        if turn is None or not isinstance(turn, TurnDone):
            race.remove(contender)
        else:
            race.note(contender, number, turn.seconds_per_query)
            if turn.is_short:
                race.exclude(contender)

    def _keep(self, jobs: Sequence[Job], facts: dict[str, Any], is_last: bool) -> None:
        for job in jobs:
            if self._outcomes[job.label()].failure is None:
                self._ask(job, Keep(job.label(), facts, is_last))

    def _ask(self, job: Job, request: Enter | Turn | Keep) -> Any:
        """Have a worker carry out a request.

        Returns the last thing that it has reported, None where the job has failed; its other points are not
        measured then.
        """
        outcome = self._outcomes[job.label()]
        if outcome.failure is not None:
            return None
        worker = self._workers[job.definition.version]
        began, last, answer = time.perf_counter(), None, None
        with suppress(OSError):  # it has just died: seen below
            worker.send(request)
        while answer is None:
            multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
            try:
                for _ in range(AT_ONCE):
                    message = worker.next_message()
                    if message is None:
                        break
                    if isinstance(message, Failure | Finished):
                        answer = message
                        break
                    if not isinstance(request, Keep) or request.is_last:  # else it is not the end of it
                        self._observer.event(job, noted(outcome, message, worker))
                        if isinstance(message, PointDone):
                            self._done.append(message)
                    last = message
            except EOFError:
                answer = worker.death()
                self._lose(worker, job, answer.text)
            if answer is None and self._is_late(outcome.seconds + time.perf_counter() - began):
                answer = Failure(f"not finished after {self._timeout:g} s (--timeout)")
                self._lose(worker, job, answer.text)
        outcome.seconds += time.perf_counter() - began
        if isinstance(answer, Failure):
            failed(outcome, answer, worker, self._observer)
            return None
        return last or answer

    def _is_late(self, seconds: float) -> bool:
        return self._timeout is not None and seconds > self._timeout

    def _lose(self, worker: Worker, culprit: Job, reason: str) -> None:
        """Fail all other jobs of a worker that has ended; the next job to enter has a new one."""
        worker.stop()
        for outcome in self._outcomes.values():
            job = outcome.job
            if (
                job is culprit
                or outcome.failure is not None
                or job.procedure.conditions != culprit.procedure.conditions
            ):
                continue
            if self._workers.get(job.definition.version) is worker:
                failed(
                    outcome,
                    Failure(f"its process has ended with {culprit.label()}: {reason}"),
                    worker,
                    self._observer,
                )
        del self._workers[culprit.definition.version]


def contenders(job: Job) -> Iterator[Contender]:
    """Yield the points of a job; the rivals are the points of other definitions by the same procedure."""
    for place in range(len(job.points)):
        is_at_target = job.procedure.target_recall is not None
        yield Contender(job.label(), place, str(job.procedure), is_at_target)


def conclusions(jobs: Sequence[Job], done: Sequence[PointDone]) -> Iterator[str]:
    """Say which algorithm is the fastest at the target recall, under each load; as reports say it."""
    recalls = {event.path: event.recall for event in done}
    fields: dict[str, dict[str, list[Speed]]] = {}
    for job in jobs:
        load = job.procedure.load
        if job.procedure.target_recall is None or (load is not None and load.is_open):
            continue  # what is at a rate has the throughput that was given
        for path in recalls:
            if job.is_result(path):
                attrs = read_attributes(path)
                rate = 1 / attrs["best_search_time"]
                speed = speed_of(attrs, recalls[path], rate, str(job.definition))
                fields.setdefault(str(job.procedure), {}).setdefault(job.definition.family, []).append(speed)
    target = jobs[0].procedure.target_recall
    for field, speeds in fields.items():
        found = contest(speeds, target or 0.0)
        where = f"{field.strip()}: ".removeprefix(": ")
        for other, ratio in found.ratios(ERROR_RATE / len(fields)).items():
            yield f"{where}{comparison(next(iter(found.standings)), other, ratio)}"


def comparison(name: str, other: str, ratio: Ratio) -> str:
    """Write how many times as fast one is as another, and how sure that is."""
    if not ratio.is_fair:
        return f"{name} and {other} cannot be told apart, because {other} has only higher recalls"
    text = f"{name} is {three_digits(ratio.value)} times as fast as {other}"
    if ratio.interval is None or not ratio.rounds:
        return f"{text} (from too few rounds to say how sure that is)"
    noise = ", no difference beyond noise" if ratio.is_noise else ""
    return f"{text} (95% interval {' to '.join(map(three_digits, ratio.interval))}{noise})"
