"""How fast results are at a recall, and which of them show it: pictures and tables have it from here."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ann_benchmarks.common.numbers import counted

from .built import build_arguments, built_index, difference
from .contest import MEASURED_ONCE, Ratio, alone, contest, ratio
from .equal_recall import ABOVE, AT, Standing
from .intervals import NORMAL, Interval
from .judging import ERROR_RATE
from .runs import Run, interval
from .speeds import Speed, speed_of

LOWER_BOUND = "at least "
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class AtRecall:
    """Results of one contender at a recall: `runs` are those that show its throughput, the nearest first."""

    runs: Sequence[Run]
    standing: Standing

    @property
    def run(self) -> Run:
        """The result next to the recall."""
        return self.runs[0]

    @property
    def qps(self) -> float:
        """Queries/s at the recall: those of the only result that shows them, or between two."""
        return self.run.metrics["qps"] * math.exp(self.standing.level - speed_of_run(self.run).level)

    @property
    def is_bound(self) -> bool:
        """Whether all results have a much higher recall, so that there may be more queries/s at this one."""
        return self.standing.reach == ABOVE

    @property
    def is_moved(self) -> bool:
        """Whether the queries/s are not those of any result, so that its latencies belong to others."""
        return len(self.runs) > 1 or self.standing.shift != 0

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the queries/s, None where that of a result is not known.

        It includes what a recall of other queries, and a point nearer to the recall, would change.
        """
        bounds = [interval(run, "qps") for run in self.runs]
        weights = [self.standing.weights[number] for number in self.standing.chosen]
        others = NORMAL * math.hypot(self.standing.recall_error, self.standing.doubt)
        below, above = [others], [others]
        for run, known, weight in zip(self.runs, bounds, weights, strict=True):
            if known is None or not known.high:
                return None
            below.append(weight * math.log(run.metrics["qps"] / known.low) if known.low else math.inf)
            above.append(weight * math.log(known.high / run.metrics["qps"]))
        return Interval(self.qps * math.exp(-math.hypot(*below)), self.qps * math.exp(math.hypot(*above)))


def at_recall(groups: Mapping[Key, Sequence[Run]], target: float) -> dict[Key, AtRecall]:
    """Return how groups of results stand at a recall, the fastest first, without those that do not reach it.

    They are compared in the rounds that they share, where they share some.
    """
    known = {key: [run for run in runs if is_known(run)] for key, runs in groups.items()}
    keys = {str(number): key for number, key in enumerate(known)}
    speeds = {name: [*map(speed_of_run, known[key])] for name, key in keys.items()}
    return {
        keys[name]: AtRecall([known[keys[name]][number] for number in one.chosen], one)
        for name, one in contest(speeds, target).standings.items()
    }


def of_latencies(found: Iterable[AtRecall]) -> list[str]:
    """Say to which recall latencies belong that stand beside queries/s at another one, where some do."""
    if not any(one.is_moved for one in found):
        return []
    return [
        "The QPS are those at the target recall. Recalls and latencies are those of the measured result"
        " next to it."
    ]


def as_it_is(run: Run) -> AtRecall:
    """Return a result as it stands at its own recall."""
    return AtRecall([run], alone(speed_of_run(run)))


def ratio_of_throughputs(first: AtRecall, second: AtRecall, error_rate: float = ERROR_RATE) -> Ratio:
    """Return how many times as fast the first is as the second.

    The same arguments on the same index find the same neighbours: the recall then adds no doubt.
    """
    standings = first.standing, second.standing
    if [*map(_found_by, first.runs)] == [*map(_found_by, second.runs)]:
        standings = _as_found(first.standing), _as_found(second.standing)
    return replace(ratio(*standings, error_rate), how=how_measured(first.run, second.run))


def how_measured(first: Run, second: Run) -> str:
    """Say in words how two results were measured that are not compared in the rounds that they share."""
    one, other = speed_of_run(first), speed_of_run(second)
    if not one.by_round or not other.by_round:
        return MEASURED_ONCE
    if one.mark != other.mark:
        return "measured in rounds of their own, at different times"
    shared = len(one.by_round.keys() & other.by_round.keys())
    return f"measured in {counted(shared, 'round')}, too few to be believed"


def _as_found(one: Standing) -> Standing:
    return replace(one, reach=AT, doubt=0.0, recall_error=0.0, recall_shifts=())


def _found_by(run: Run) -> tuple[Any, ...]:
    searched = run.attrs.get("target_value")
    return run.series.family, build_arguments(run), run.parameters, searched, run.metrics["recall"]


def indexes_at_recall(runs: Iterable[Run], target: float) -> list[tuple[AtRecall, str]]:
    """Return how each built index stands at a recall, and the build arguments in which those differ."""
    indexes: dict[Hashable, list[Run]] = {}
    for run in runs:
        indexes.setdefault((run.dataset, run.count, run.batch, built_index(run)), []).append(run)
    standing = at_recall(indexes, target)
    found = [standing[index] for index in indexes if index in standing]
    arguments: dict[str, list[dict[str, str]]] = {}
    for one in found:
        arguments.setdefault(one.run.algorithm, []).append(build_arguments(one.run))
    return [(one, difference(build_arguments(one.run), arguments[one.run.algorithm])) for one in found]


def is_known(run: Run) -> bool:
    """Whether the recall and the throughput of a result are known."""
    return run.metrics["recall"] >= 0 and 0 < run.metrics["qps"] < math.inf


def may_reach(run: Run, target: float) -> bool:
    """Whether a result reaches a recall, as far as the interval of its own one tells."""
    return is_known(run) and speed_of_run(run).may_reach(target)


def speed_of_run(run: Run) -> Speed:
    """Return the speed of a result, as comparisons need it."""
    return speed_of(run.attrs, run.metrics["recall"], run.metrics["qps"], built_index(run))
