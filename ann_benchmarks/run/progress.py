"""What the user sees of a race: the round, who is left in it, and how long it still takes."""

import sys
import time
from types import TracebackType

from tqdm import tqdm

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import say
from ann_benchmarks.jobs.rounds import Rounds
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS

LINE_SECONDS = 10.0  # between two lines, where there is no terminal


class RoundsProgress:
    """On a terminal a bar; else a line after a round, but not more often than every 10 s."""

    def __init__(self, rounds: Rounds, ends: float | None, is_shown: bool) -> None:
        """Take when the budget ends, on the monotonic clock, None without one."""
        self._rounds, self._ends, self._is_shown = rounds, ends, is_shown
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
        self._left = time_left(self._rounds, number, now - self._began, self._ends and self._ends - now)
        if self._is_shown and not self._is_terminal and now >= self._said + LINE_SECONDS:
            say(self._text(number, running))
            self._said = now

    def _text(self, number: int, running: int) -> str:
        return f"round {number}, {counted(running, 'contender')}{self._left}"


def time_left(rounds: Rounds, done: int, seconds: float, of_budget: float | None) -> str:
    """Say how long a race still takes after some rounds; "" where nothing but --until ends it.

    `of_budget` is what is left of the budget, in s; the least number of rounds may take longer. With --until,
    both are the most.
    """
    a_round = seconds / done
    left = [max(of_budget, (FEWEST_ROUNDS - done) * a_round, 0.0)] if of_budget is not None else []
    if rounds.number:
        left.append((rounds.number - done) * a_round)
    if not left:
        return ""
    whole = round(min(left))
    text = f"{whole // 60}:{whole % 60:02} min" if whole >= 100 else f"{whole} s"
    return f", {'at most ' if rounds.until else ''}{text} left"
