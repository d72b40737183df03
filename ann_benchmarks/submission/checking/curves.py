"""What no single point shows: several machines in a curve, swapped files, what was handed in twice, turns.

Each function yields the file that is wrong, and what is wrong with it.
"""

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import shown
from ann_benchmarks.common.text import from_json
from ann_benchmarks.results.environment import MEMORY_SLACK
from ann_benchmarks.results.measurement import CHAIN, MARK, ROUNDS, TURNS, next_link
from ann_benchmarks.statistics.intervals import FEWEST_RUNS

from ..contents import MACHINE, SETTINGS, SOFTWARE
from .expected import CLOCK
from .points import CheckedPoint
from .relations import file_names, spans

MEMORY = "memory_bytes"  # firmware and kernel take another part of it in each version
SAME_IN_A_CURVE = (
    *(name for name in (*MACHINE, *SOFTWARE) if name != MEMORY),
    *("distance", "truth", "shared_buffers", "tier", "tier_ram", "tier_shared_buffers", "tier_cpus"),
    *("tier_disk", "tier_iops", "tier_bandwidth", "tier_method", "warmup", "query_order", "driver"),
    *("clients", "asked_duration", "asked_queries", "memory_divided_by", "version_names", "result_format"),
)
OF_BUILDS = ("maintenance_work_mem", "max_parallel_maintenance_workers")  # follow from the index
FREE_DISK = "max_wal_size"  # embedded servers choose by it, another one at each start
FEWEST = 64  # latencies; as many in the same order, or of the same values, are of one measurement
NEAR, NEAREST = 1e-3, 1e-6  # relative: in all of a distribution, and in all of a few runs
PIECES = 32  # of a run, whose order by their mean latency identifies it
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
Problems = Iterator[tuple[str, str]]
Points = Sequence[CheckedPoint]


def curves_of(points: Points) -> Iterable[list[CheckedPoint]]:
    """Return the points of each curve."""
    curves = defaultdict(list)
    for point in points:
        curves[point.curve].append(point)
    return curves.values()


def mixed(points: Points) -> Problems:
    """Yield points that differ from the first of their curve in what a curve has one of."""
    for first, *others in curves_of(points):
        for point in others:
            for what in sorted(_differences(first.attrs, point.attrs)):
                yield point.file, f"has {what}, other than {first.file.rpartition('/')[2]} of the same curve"


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[str]:
    """Yield in what the second of two points of a curve differs from the first."""
    versions = [name for name in one.keys() | other.keys() if name.endswith("_version")]
    for name in dict.fromkeys([*SAME_IN_A_CURVE, *versions]):
        if one.get(name) != other.get(name):
            yield f"{name} {shown(other.get(name))}, not {shown(one.get(name))}"
    first, second = one.get(MEMORY), other.get(MEMORY)
    if isinstance(first, int | float) and isinstance(second, int | float):
        if abs(second - first) > MEMORY_SLACK * abs(first):
            yield f"{MEMORY} {second}, not {first}"
    elif first is not None or second is not None:
        yield "no size of its memory, or one alone"
    for name in SETTINGS:
        mine, theirs = (from_json(attrs.get(name), dict[str, Any]()) for attrs in (one, other))
        for key in mine.keys() | theirs.keys():
            # Settings of extensions are those of a point.
            is_of_point = key in (*OF_BUILDS, FREE_DISK) or (name == SETTINGS[0] and "." in key)
            if not is_of_point and mine.get(key) != theirs.get(key):
                yield f"{name} {key} {shown(theirs.get(key))}, not {shown(mine.get(key))}"


def repeated(points: Points) -> Problems:
    """Yield points of one index with the same description, unless searches for two recalls have led there.

    A plug-in need not describe its query arguments: where all points of an index have one description, it
    says nothing.
    """
    indexes = defaultdict(list)
    for point in points:
        index = (*point.curve[:2], point.series.dump_json(), str(point.attrs.get("build_arguments")))
        indexes[index].append((point, (str(point.attrs.get("name")), point.target)))
    for described in indexes.values():
        known: dict[tuple[str, float | None], str] = {}
        if {key for _, key in described} == {(described[0][1][0], None)}:
            continue
        for point, key in described:
            if (other := known.setdefault(key, point.file)) != point.file:
                yield point.file, f"is the same point as {other}"


class Copies:
    """Finds points that are others again, scaled, shuffled or moved in time."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, object], str] = {}
        self._alike: dict[tuple[str, int], list[tuple[np.ndarray, str]]] = defaultdict(list)

    def problems(self, point: CheckedPoint) -> Iterator[str]:
        """Yield in what a point with its arrays is one of those before it."""
        times, counts = point.times, point.counts
        same: list[tuple[object, str]] = [
            (one, "has a run that began at the very time of one of") for one in point.numbers("run_started")
        ]
        alike = list[tuple[np.ndarray, float, str]]()
        if len(times) >= FEWEST and len(np.unique(times)) >= FEWEST:
            # No factor changes the order of the pieces of a run by their means, nor the shape of all.
            pieces = [np.mean(piece) for piece in np.array_split(times, PIECES)]
            same.append((_digest(np.argsort(pieces)), "has latencies in the order of those of"))
            shape = np.quantile(times, np.linspace(0, 1, FEWEST)) / times.mean()
            alike.append((shape, NEAR, "has latencies distributed as those of"))
        if np.count_nonzero(counts) >= PIECES:
            same.append((_digest(counts), "has the histogram of"))
        for name in ("run_seconds", "run_p50"):
            values = np.array(point.numbers(name))
            if len(values) >= FEWEST_RUNS and len(np.unique(values)) == len(values):
                alike.append(
                    (values / values.mean(), NEAREST, f"has runs that compare (by {name}) as those of")
                )
        for mark, what in same:
            if (other := self._same.setdefault((what, mark), point.file)) != point.file:
                yield f"{what} {other}"
        for values, tolerance, what in alike:
            before = self._alike[what, len(values)]
            known = np.array([one for one, _ in before]).reshape(-1, len(values))
            for place in np.flatnonzero((np.abs(known - values) <= tolerance * values).all(axis=1))[:1]:
                yield f"{what} {before[place][1]}"
            before.append((values, point.file))


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def swapped(points: Points) -> Problems:
    """Yield files of one index whose query arguments are in the description of another file, not their own.

    A plug-in need not write its arguments into its description: only what contradicts itself is refused. The
    name of a point that was searched for has the target, and its description what was found.
    """
    groups = defaultdict(list)
    for point in points:
        if "target_parameter" not in point.attrs:
            groups[point.curve, json.dumps(point.build_arguments)].append(point)
    for group in groups.values():
        said = {point.file: set(_NUMBER.findall(str(point.attrs.get("name")))) for point in group}
        own = {point.file: _query_numbers(point) for point in group}
        every: list[set[str]] = [*own.values()]
        varied = set[str]().union(*every) - every[0].intersection(*every)
        for point in group:
            numbers = own[point.file] & varied
            others = [other.file for other in group if numbers and numbers <= said[other.file]]
            if others and not numbers <= said[point.file]:
                yield (
                    point.file,
                    f"its arguments are those that {others[0]} describes, and it describes others",
                )


def _query_numbers(point: CheckedPoint) -> set[str]:
    """Return the numbers in the name of a file after its build arguments."""
    names = file_names(point.build_arguments or [])
    build = next((name for name in names if point.name.startswith(name)), "")
    return set(_NUMBER.findall(point.name.removeprefix(build)))


def overlapping(points: Points) -> Problems:
    """Yield points that were measured on one machine at the same time as another."""
    end, holder = -math.inf, ""
    for start, stop, file in sorted((*span, point.file) for point in points for span in spans(point)):
        if start < end - CLOCK and file != holder:
            yield file, f"was measured while {holder} was"
        if stop > end:
            end, holder = stop, file


def out_of_turn(points: Points) -> Problems:
    """Yield points with rounds left out, and with a run before another point's run of an earlier round."""
    races = defaultdict(list)
    for point in points:
        rounds, started = point.numbers(ROUNDS), point.numbers("run_started")
        if not rounds and MARK not in point.attrs:
            continue
        if rounds != [*range(1, len(point.run_seconds) + 1)]:
            listed = ", ".join(f"{one:g}" for one in rounds[:20]) or "of no number"
            yield point.file, f"has runs of the rounds {listed}, and {len(point.run_seconds)} runs in all"
        elif len(started) == len(rounds):
            races[str(point.attrs.get(MARK))].append((point, started))
    marks: dict[str, str] = {}
    for mark, race in races.items():
        for point, _ in race:
            if CHAIN in point.attrs and marks.setdefault(str(point.attrs[CHAIN]), mark) != mark:
                yield point.file, f"has the chain of another race ({CHAIN})"
        latest, holder = -math.inf, ""
        for place in range(max(len(started) for _, started in race)):
            turns = [(started[place], point.file) for point, started in race if place < len(started)]
            for start, file in turns:
                if start < latest - CLOCK:
                    yield file, f"has a run of round {place + 1} that began before round {place} of {holder}"
            latest, holder = max((latest, holder), *turns)
        yield from _broken_chain(mark, [point for point, _ in race])
        first, longest = race[0][0], max(len(started) for _, started in race)
        requested = re.match(r"(\d+) rounds", str(first.attrs.get("rounds_requested")))
        is_whole = first.attrs.get("rounds_ended") == "rounds" and longest > 1
        if requested and (longest > int(requested[1]) or (is_whole and longest < int(requested[1]))):
            yield first.file, f"is of a race of {requested[0]}, which has {longest}"


def _broken_chain(mark: str, race: Points) -> Problems:
    """Yield where the contenders of a race have not the rounds that its chain has a link for.

    A contender leaves a race that it has lost, or that it has failed in. A round is recomputed if all who had
    a turn are in the bundle.
    """
    first = race[0]
    chain, turns = str(first.attrs.get(CHAIN) or "").split(), first.numbers(TURNS)
    has = f"({CHAIN}, {TURNS})"
    for point in race:
        rounds = len(point.run_seconds)
        if (point.attrs.get(CHAIN), point.numbers(TURNS)) != (first.attrs.get(CHAIN), turns):
            yield point.file, f"has another chain of rounds {has} than {first.file} of its race"
        elif not chain:
            continue  # of an earlier version
        elif rounds > len(chain) or len(turns) != len(chain):
            yield point.file, f"has {rounds} rounds, and its race {len(chain)} {has}"
        elif rounds < len(chain) and turns[rounds] >= turns[rounds - 1]:
            yield point.file, f"has {rounds} of {len(chain)} rounds, and no contender left after them"
    for number, (link, took_part) in enumerate(zip(chain, turns, strict=False)):
        seconds = [point.run_seconds[number] for point in race if number < len(point.run_seconds)]
        before = chain[number - 1] if number else mark
        if len(seconds) > took_part or (len(seconds) == took_part and next_link(before, seconds) != link):
            yield first.file, f"has a link of round {number + 1} ({CHAIN}) that is not of its runs"


# What all points keep together: the rule, and what yields the files that break it.
TOGETHER = (
    ("timings", overlapping),
    ("timings", out_of_turn),
    ("mixed", mixed),
    ("duplicate", repeated),
    ("series", swapped),
)
