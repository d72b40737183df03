"""A race: one that was interrupted, as it lies on the disk; what the user sees meanwhile; what it showed."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted, duration_text, three_digits
from ann_benchmarks.common.text import say
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import Contender, Rounds
from ann_benchmarks.measure.turns_taken import TurnsTaken
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.measurement import speed_of
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS, Ratio, contest
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.speeds import Speed

LINE_SECONDS = 10.0  # between two lines, without a terminal


@dataclass(frozen=True)
class Interrupted:
    """The turns of every contender in the rounds of a mark."""

    mark: str
    taken: Mapping[Contender, TurnsTaken]

    @property
    def logs(self) -> dict[Contender, dict[int, float]]:
        """The seconds per query in each round."""
        return {
            contender: {
                number: run.seconds_per_query for number, run in zip(one.rounds, one.runs, strict=True)
            }
            for contender, one in self.taken.items()
        }

    @property
    def seconds(self) -> float:
        """How long they took."""
        started = [run.started for one in self.taken.values() for run in one.runs]
        return max(started) - min(started)


def find_interrupted(jobs: Sequence[Job], contenders: Sequence[Contender]) -> Interrupted | None:
    """Return the interrupted rounds that all contenders were in, requested as now; None without any."""
    by_label = {job.label(): job for job in jobs}
    paths = {one: by_label[one.job].path(by_label[one.job].points[one.point]) for one in contenders}
    try:
        taken = {one: TurnsTaken.read(path) for one, path in paths.items()}
    except UserError:
        return None
    races = {tuple(each.race) for each in taken.values()}
    mark, requested, _ = races.pop()
    # Several races: the last one ended while it was saved.
    is_same = not races and requested == str(jobs[0].procedure.rounds)
    return Interrupted(mark, taken) if is_same else None


class RoundsProgress:
    """On a terminal a bar; else a line after a round, but not more often than every 10 s."""

    def __init__(self, rounds: Rounds, ends: float | None, is_shown: bool, before: int = 0) -> None:
        """Take when the budget ends, on the monotonic clock, None without one; `before` rounds are over."""
        self._rounds, self._ends, self._is_shown, self._before = rounds, ends, is_shown, before
        self._is_terminal = sys.stderr.isatty()
        self._bar = tqdm(
            desc="rounds", unit="turn", leave=False, disable=not (is_shown and self._is_terminal)
        )
        self._began, self._said = time.monotonic(), -LINE_SECONDS
        self._left = ""

    def __enter__(self) -> "RoundsProgress":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()

    def turn(self, number: int, running: int) -> None:
        """Show that one of those who are running has had its turn in a round."""
        self._bar.set_postfix_str(self._text(number, running), refresh=False)
        self._bar.update()

    def end_round(self, number: int, running: int) -> None:
        """Show how many are still running after a round."""
        now = time.monotonic()
        of_budget = self._ends and self._ends - now
        seconds = (now - self._began) * number / (number - self._before)
        self._left = time_left(self._rounds, number, seconds, of_budget)
        if self._is_shown and not self._is_terminal and now >= self._said + LINE_SECONDS:
            say(self._text(number, running))
            self._said = now

    def _text(self, number: int, running: int) -> str:
        return f"round {number}, {counted(running, 'contender')}{self._left}"


def time_left(rounds: Rounds, done: int, seconds: float, of_budget: float | None) -> str:
    """Say how long a race still takes after some rounds, as far as their number or the budget tells.

    `of_budget` is what is left of the budget, in s; the least number of rounds may take longer.
    """
    a_round = seconds / done
    left = [max(of_budget, (FEWEST_ROUNDS - done) * a_round, 0.0)] if of_budget is not None else []
    if rounds.number:
        left.append((rounds.number - done) * a_round)
    return f", {duration_text(min(left))} left at most" if left else ""


def conclusions(jobs: Sequence[Job], done: Sequence[PointDone]) -> Iterator[str]:
    """Say which contender is the fastest at the target recall, under each load; as reports say it.

    Contenders are algorithms or, where there is one, its definitions.
    """
    recalls = {event.path: event.recall for event in done}
    fields: dict[str, list[tuple[Definition, Speed]]] = {}
    for job in jobs:
        load = job.procedure.load
        if job.procedure.target_recall is None or (load is not None and load.is_open):
            continue  # what is at a rate has the throughput that was given
        for path in recalls:
            if job.is_result(path):
                attrs = read_attributes(path)
                rate = 1 / attrs["best_search_time"]
                speed = speed_of(attrs, recalls[path], rate, str(job.definition))
                fields.setdefault(str(job.procedure), []).append((job.definition, speed))
    target = jobs[0].procedure.target_recall
    for field, measured in fields.items():
        is_one = len({definition.family for definition, _ in measured}) == 1
        speeds: dict[str, list[Speed]] = {}
        for definition, speed in measured:
            speeds.setdefault(str(definition) if is_one else definition.family, []).append(speed)
        found = contest(speeds, target or 0.0)
        name = field.strip(" ,")
        where = f"{name}: " if name else ""
        for other, ratio in found.ratios(ERROR_RATE / len(fields)).items():
            yield f"{where}{comparison(next(iter(found.standings)), other, ratio)}"


def comparison(name: str, other: str, ratio: Ratio) -> str:
    """Write how many times as fast one is as another, and how sure that is."""
    if not ratio.is_fair:
        return f"{name} and {other} cannot be told apart, because {other} has only higher recalls"
    text = f"{name} is {three_digits(ratio.value)} times as fast as {other}{ratio.note}"
    if not ratio.rounds:
        return f"{text} (from too few rounds to say how sure that is)"
    interval = " to ".join(map(three_digits, ratio.interval))
    if ratio.is_noise:  # the first is the first by noise, by which its factor is too large
        alike = f"{name} and {other} show no difference beyond noise{ratio.note}"
        return f"{alike} (95% interval of the factor {interval})"
    through = f", through {ratio.through}" if ratio.through else ""
    return f"{text} (95% interval {interval}{through})"
