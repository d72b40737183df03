"""Whether a figure is at least, or at most, a bound: yes, no, or not sure. Every kind of statement asks here.

A figure is known from one session: one start of the server, at one hour. A statement is about all of them.
Where several are made together, all are to hold.
"""

import math
from dataclasses import dataclass, replace
from enum import IntEnum

from .differences import ERROR_RATE, SESSIONS, Noise
from .distributions import student_quantile
from .intervals import NORMAL, Interval


class Judgement(IntEnum):
    """Whether something holds: beyond noise or not, or noise hides it."""

    NO = 0
    UNSURE = 1
    YES = 2

    def __str__(self) -> str:
        return ("no", "not sure", "yes")[self]


def judge(bounds: Interval | None, least: float) -> Judgement:
    """Whether what lies within bounds is at least so much; not sure where they are not known."""
    if bounds is None or not bounds.low <= bounds.high:
        return Judgement.UNSURE
    if bounds.low >= least:
        return Judgement.YES
    return Judgement.NO if bounds.high < least else Judgement.UNSURE


@dataclass(frozen=True)
class Doubts:
    """How sessions differ, as a variance of logarithms, and the chance that any statement is wrong."""

    sessions: Noise = SESSIONS
    error_rate: float = ERROR_RATE

    def shared(self, statements: int) -> "Doubts":
        """Return the doubts of each of several statements that are made together (Bonferroni)."""
        return replace(self, error_rate=self.error_rate / max(statements, 1))

    @property
    def alike_sessions(self) -> "Doubts":
        """The same for what does not depend on the session, such as a recall."""
        return replace(self, sessions=Noise(0.0, math.inf))

    def interval(self, value: float, known: Interval | None) -> Interval:
        """Return the interval of a figure over sessions, by its 95% interval in the one that was measured."""
        share = 1 - self.error_rate / 2
        wider = student_quantile(share, SESSIONS.freedom) / NORMAL
        apart = math.sqrt(self.sessions.variance)
        apart *= student_quantile(share, self.sessions.freedom) if apart else 0.0
        low, high = known or (value, value)
        if not 0 < value < math.inf:
            return Interval(low, high)
        below = wider * max(math.log(value / low), 0.0) if low > 0 else math.inf
        above = wider * max(math.log(high / value), 0.0) if high < math.inf else math.inf
        return Interval(
            value * math.exp(-math.hypot(below, apart)), value * math.exp(math.hypot(above, apart))
        )

    def judge_least(self, value: float, known: Interval | None, bound: float) -> Judgement:
        """Whether a figure is at least a bound; never surely where its interval is not known."""
        found = judge(self.interval(value, known), bound)
        return found if known is not None else min(found, Judgement.UNSURE)

    def judge_most(self, value: float, known: Interval | None, bound: float) -> Judgement:
        """Whether a figure is at most a bound; never surely where its interval is not known."""
        if not math.isfinite(value):
            return Judgement.NO
        low, high = self.interval(value, known)
        found = judge(Interval(-high, -low), -bound)
        return found if known is not None else min(found, Judgement.UNSURE)
