"""A run observed: by the plug-in, by the conditions it is measured under, for the CPU that others take."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from ann_benchmarks.jobs.job import Conditions
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.monitoring.machine import is_disturbed, read_cpu, share_of_others
from ann_benchmarks.plugin import NoWatch, Watch, server_processes

MOST_IN_VAIN = 2  # repeats in a row that are disturbed, too
OTHERS = "others_cpu"  # the fact of a run: the share of the CPUs that others took in it
SPENT = ("server_cpu_seconds", "index_blocks_hit")  # of a query, by the server: stored of each run


class RunWatch:
    """What all observe of a run, as one."""

    def __init__(self, own: Watch, conditions: Conditions | None) -> None:
        """Take the plug-in's own watch, and the conditions if there are any."""
        self._own, self._conditions = own, conditions
        self._theirs: Watch = NoWatch() if conditions is None else conditions.watch()
        self._others: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go around the timed part."""
        with ExitStack() as stack:
            stack.enter_context(self._theirs.running())
            stack.enter_context(self._own.running())
            servers = server_processes(self._own)
            before = read_cpu(servers)
            yield
            self._others = share_of_others(before, read_cpu(servers))

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what was observed; UserError where it shows that the conditions did not hold."""
        facts = self._theirs.facts(queries) | self._own.facts(queries)
        if self._others is not None:
            facts[OTHERS] = self._others
        if self._conditions is not None:
            self._conditions.check(facts)
        return facts

    def close(self) -> None:
        """End them."""
        self._theirs.close()
        self._own.close()


class Kills:
    """Tells what failed because the memory of its conditions was used up from what failed otherwise."""

    def __init__(self, conditions: Conditions | None) -> None:
        """Count from now on."""
        self._conditions = conditions
        self._known = 0 if conditions is None else conditions.kills()

    def reason(self) -> str:
        """Say, for the end of a message, that the system has ended a process since the last call; or ""."""
        if self._conditions is None or (kills := self._conditions.kills()) == self._known:
            return ""
        self._known = kills
        return f"; {self._conditions.shortage()}"


class UndisturbedRuns:
    """Measures a run again that others have disturbed; all runs of a point together so many times.

    Where others go on, that is in vain: after two disturbed repeats in a row, it gives up.
    """

    def __init__(self, left: int, can_repeat: Callable[[], bool] = lambda: True) -> None:
        """Allow this many repeats, as long as `can_repeat` says that a repeat would measure the same."""
        self._left, self._can_repeat = left, can_repeat
        self._in_vain = 0

    def least_disturbed(self, measure: Callable[[], Measured]) -> Measured:
        """Measure until a run is not disturbed or no repeat is left; return the least disturbed one."""
        measured = [measure()]
        if not is_disturbed(measured[0].facts.get(OTHERS)):
            self._in_vain = 0
        while is_disturbed(measured[-1].facts.get(OTHERS)) and self._is_worthwhile():
            self._left -= 1
            measured.append(measure())
            self._in_vain = self._in_vain + 1 if is_disturbed(measured[-1].facts.get(OTHERS)) else 0
        best = min(measured, key=lambda run: float(run.facts.get(OTHERS, 0)))
        return replace(best, repeats=len(measured) - 1)

    def _is_worthwhile(self) -> bool:
        return self._left > 0 and self._in_vain < MOST_IN_VAIN and self._can_repeat()


def others_facts(runs: Sequence[Measured]) -> dict[str, Any]:
    """Return what is stored of a point: in each run, the share of others and what a query took; repeats.

    What is not known of every run is None, or not there.
    """
    shares = [run.facts.get(OTHERS) for run in runs]
    spent = {f"run_{name}": [run.facts.get(f"{name}_per_query") for run in runs] for name in SPENT}
    return {
        "run_others_cpu": None if None in shares else shares,
        "runs_measured_again": sum(run.repeats for run in runs),
        **{name: values for name, values in spent.items() if None not in values},
    }
