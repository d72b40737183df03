"""How fast results are at a recall, and which of them show it: pictures and tables have it from here."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import from_json
from ann_benchmarks.statistics.contests import MEASURED_ONCE, Contest, Ratio, contest, ratio
from ann_benchmarks.statistics.differences import ERROR_RATE, SESSIONS, Noise
from ann_benchmarks.statistics.intervals import NORMAL, Interval
from ann_benchmarks.statistics.speeds import ABOVE, AT, Speed, Standing, single_standing

from .measurement import has_mean_throughput, speed_of
from .runs import Run, interval

LOWER_BOUND = "at least "
BEST_AND_MEAN = "measured at different times, a file of ann-benchmarks by its best run alone"
LATENCY_NOTE = (
    "The QPS are those at the target recall. Recalls and latencies are those of the measured result"
    " closest to it."
)
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
        others = NORMAL * math.hypot(self.standing.recall_error, self.standing.doubt)
        below, above = [others], [others]
        for run, number in zip(self.runs, self.standing.chosen, strict=True):
            known, weight = interval(run, "qps"), self.standing.weights[number]
            if known is None or not known.high:
                return None
            below.append(weight * math.log(run.metrics["qps"] / known.low) if known.low else math.inf)
            above.append(weight * math.log(known.high / run.metrics["qps"]))
        return Interval(self.qps * math.exp(-math.hypot(*below)), self.qps * math.exp(math.hypot(*above)))


def is_known(run: Run) -> bool:
    """Whether the recall and the throughput of a result are known."""
    return run.metrics["recall"] >= 0 and 0 < run.metrics["qps"] < math.inf


def may_reach(run: Run, target: float) -> bool:
    """Whether a result reaches a recall, as far as the interval of its own one tells."""
    return is_known(run) and speed_of_run(run).may_reach(target)


def speed_of_run(run: Run) -> Speed:
    """Return the speed of a result, as comparisons need it."""
    return speed_of(run.attrs, run.metrics["recall"], run.metrics["qps"], built_index(run))


def compete(
    groups: Mapping[str, Sequence[Run]], target: float, speed: Callable[[Run], Speed] = speed_of_run
) -> tuple[Contest, dict[str, AtRecall]]:
    """Return the contest of groups of results at a recall, and how each that reaches it stands there."""
    known = {name: [run for run in runs if is_known(run)] for name, runs in groups.items()}
    found = contest({name: [*map(speed, runs)] for name, runs in known.items()}, target)
    return found, {
        name: AtRecall([known[name][number] for number in one.chosen], one)
        for name, one in found.standings.items()
    }


def find_at_recall(groups: Mapping[Key, Sequence[Run]], target: float) -> dict[Key, AtRecall]:
    """Return how groups of results stand at a recall, the fastest first, without those that do not reach it.

    They are compared in the rounds that they share, where they share some.
    """
    keys = [*groups]
    _, found = compete({str(number): groups[key] for number, key in enumerate(keys)}, target)
    return {keys[int(name)]: one for name, one in found.items()}


def indexes_at_recall(runs: Iterable[Run], target: float) -> list[AtRecall]:
    """Return how each built index stands at a recall."""
    indexes: dict[Hashable, list[Run]] = {}
    for run in runs:
        indexes.setdefault((run.dataset, run.count, run.batch, built_index(run)), []).append(run)
    standing = find_at_recall(indexes, target)
    return [standing[index] for index in indexes if index in standing]


def uninterpolated(run: Run) -> AtRecall:
    """Return a result as it stands at its own recall."""
    return AtRecall([run], single_standing(speed_of_run(run)))


def latency_notes(found: Iterable[AtRecall]) -> list[str]:
    """Say to which recall latencies belong that stand next to queries/s at another one, where some do."""
    return [LATENCY_NOTE] if any(one.is_moved for one in found) else []


def ratio_of_throughputs(
    first: AtRecall, second: AtRecall, error_rate: float = ERROR_RATE, sessions: Noise = SESSIONS
) -> Ratio:
    """Return how many times as fast the first is as the second.

    The same arguments on the same index find the same neighbours: the recall then adds no doubt.
    """
    one, other = first.standing, second.standing
    if [*map(_search, first.runs)] == [*map(_search, second.runs)]:
        one, other = (replace(one, reach=AT, doubt=0.0, sampling=0.0, shifts=()) for one in (one, other))
    found = ratio(one, other, error_rate, sessions)
    return replace(found, how=describe_measuring(first.run, second.run))


def describe_measuring(first: Run, second: Run) -> str:
    """Say in words how two results were measured that are not compared in the rounds that they share."""
    if has_mean_throughput(first.attrs) != has_mean_throughput(second.attrs):
        return BEST_AND_MEAN
    one, other = speed_of_run(first), speed_of_run(second)
    if not one.round_levels or not other.round_levels:
        return MEASURED_ONCE
    if one.mark != other.mark:
        return "measured in separate rounds, at different times"
    shared = len(one.round_levels.keys() & other.round_levels.keys())
    return f"measured in {counted(shared, 'round')}, too few to be certain"


def _search(run: Run) -> tuple[Any, ...]:
    """Return what a result found its neighbours by, and how many of them."""
    searched = run.attrs.get("target_value")
    return run.series.family, build_arguments(run), run.parameters, searched, run.metrics["recall"]


def built_index(run: Run) -> tuple[Any, ...]:
    """Return what identifies a built index: its arguments, or what its building took.

    The latter is for files of ann-benchmarks, which do not separate build and query arguments.
    """
    arguments = run.attrs.get("build_arguments")
    if arguments:
        return run.algorithm, str(arguments)
    return run.algorithm, run.metrics["build"], run.metrics["indexsize"]


def build_arguments(run: Run) -> dict[str, str]:
    """Return the build arguments, by name or position; empty where the file has none."""
    values = run.attrs.get("build_arguments", [])
    if isinstance(values, str):
        values = from_json(values, list[Any]())
    named: dict[str, str] = {}
    for position, value in enumerate(values if isinstance(values, list) else [values]):
        if isinstance(value, dict):
            named.update((name, f"{name}={inner}") for name, inner in value.items())
        else:
            named[str(position)] = f"{value}"
    return named
