"""What no single point shows: several machines in a curve, what was handed in twice, turns.

Each function yields the file that is wrong, and what is wrong with it.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ann_benchmarks.common.errors import shown
from ann_benchmarks.common.text import from_json
from ann_benchmarks.results.environment import MEMORY, MEMORY_SLACK
from ann_benchmarks.results.measurement import CHAIN, MARK, ROUNDS, TURNS, chain_of
from ann_benchmarks.statistics.intervals import FEWEST_RUNS

from .expected import CLOCK, has_server
from .points import CheckedPoint
from .relations import spans

OF_BUILDS = ("maintenance_work_mem", "max_parallel_maintenance_workers")  # follow from the index
FREE_DISK = "max_wal_size"  # embedded servers choose by it, another one at each start
MACHINE = (
    *("cpu", "cores", "container_memory_bytes", "container_memory_requested", "disk", "file_system"),
    *("kernel", "numa_nodes", "server", "server_address", "docker_image", "docker_image_id"),
    *("framework_version", "python", "postgres_version", "pgbench_version"),
)
SETTINGS = ("settings", "server_settings", "given_settings")  # texts in JSON: {name: value}
FEWEST = 64  # latencies; as many of the same distribution are of one measurement
NEAR, NEAREST = 1e-3, 1e-6  # relative: in all of a distribution, and in all of a few runs
Problems = Iterator[tuple[str, str]]
Points = Sequence[CheckedPoint]


class Shared(NamedTuple):
    """What several points have alike: which they are, by a key, in words, and attributes by their names.

    Numbers may differ by a factor, and by so much more. Where a key is None, a point is of no such group. In
    a name, * stands for anything.
    """

    words: str
    key: Callable[[CheckedPoint], Hashable]
    names: tuple[str, ...]
    factor: float = 1.0
    more: float = 0.0


def _index(point: CheckedPoint) -> Hashable:
    """Return what the points of an index on a machine share, however it was queried."""
    plain = point.series.drop("load", "clients", "caches", "writes", "workload", "batch")
    facts = {name: value for name, value in point.run.facts.items() if name != MEMORY}
    return point.dataset, plain, json.dumps([point.build_arguments, facts], sort_keys=True)


def _build(point: CheckedPoint) -> Hashable:
    """Return what the points of an index that was built once share: no two builds last as long."""
    return _index(point), point.attrs.get("index_build_time", point.attrs.get("build_time"))


def _server_index(point: CheckedPoint) -> Hashable:
    return _index(point) if has_server(point) else None


SHARED = (
    Shared("of the same curve", lambda point: point.curve, (
        *MACHINE,
        *("shared_buffers", "tier_iops", "tier_bandwidth", "warmup", "asked_duration", "asked_queries"),
        *("memory_divided_by", "version_names", "*_version", *(f"{name} *" for name in SETTINGS)),
    )),
    # Firmware and kernel take another part of the memory in each version.
    Shared("of the same curve", lambda point: point.curve, ("memory_bytes",), 1 + MEMORY_SLACK),
    Shared("of the same build", _build, (
        *("build_time", "load_time", "build_sql", "shard_build_times", "shard_rows", "index_size"),
        *("estimated_index_size", "graph_overflow_rows"),
    )),
    Shared("of the same index", _server_index, ("CREATE INDEX",)),
    # An index that was built twice is nearly as large, and takes as long but for what else the machine did.
    Shared("of the same index", _server_index, ("index_size", "table_size"), 1.05, 64.0),
    Shared("of the same index", _server_index, ("index_build_time", "load_time"), 3.0, 5.0),
)  # fmt: skip


def curves_of(points: Points) -> Iterable[list[CheckedPoint]]:
    """Return the points of each curve."""
    curves = defaultdict(list)
    for point in points:
        curves[point.curve].append(point)
    return curves.values()


def mixed(points: Points) -> Problems:
    """Yield points that differ from the first of their curve, index or build in what these have one of."""
    facts = {point.file: _facts(point) for point in points}
    for shared in SHARED:
        first: dict[Hashable, tuple[CheckedPoint, dict[str, Any]]] = {}
        for point in points:
            if (key := shared.key(point)) is None:
                continue
            mine = {name: value for name, value in facts[point.file].items() if _is_named(name, shared.names)}
            other, theirs = first.setdefault(key, (point, mine))
            for name in sorted(mine.keys() | theirs.keys()):
                if not _alike(one := mine.get(name), two := theirs.get(name), shared):
                    what = f"has {name} {shown(one)}, not {shown(two)}"
                    yield point.file, f"{what}, other than {other.file} {shared.words}"


def _facts(point: CheckedPoint) -> dict[str, Any]:
    """Return attributes, each setting of a server, and the statements that build the index."""
    found = dict(point.attrs)
    for name in SETTINGS:
        for key, value in from_json(point.attrs.get(name), dict[str, Any]()).items():
            # Settings of extensions are those of a point.
            if not (key in (*OF_BUILDS, FREE_DISK) or (name == SETTINGS[0] and "." in key)):
                found[f"{name} {key}"] = value
    statements = from_json(point.attrs.get("build_sql"), list[Any]())
    found["CREATE INDEX"] = [one for one in map(str, statements) if not one.startswith(("SET", "--"))]
    return found


@cache
def _is_named(name: str, names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, one) for one in names)


def _alike(one: Any, other: Any, shared: Shared) -> bool:
    if shared.factor == 1 or not all(isinstance(each, int | float) for each in (one, other)):
        return bool(one == other)
    return bool(max(one, other) <= shared.factor * min(one, other) + shared.more)


def overlapping(points: Points) -> Problems:
    """Yield points that were measured on one machine at the same time as another, or as another race."""
    wholes = dict[str, tuple[float, float, str]]()
    for point in points:
        begun, ended = point.moment("started_at"), point.moment("ended_at")
        if begun is not None and ended is not None:
            start, stop, _ = wholes.get(race := str(point.attrs.get(MARK, point.file)), (begun, ended, ""))
            wholes[race] = min(start, begun), max(stop, ended), point.file
    runs = [(*span, point.file) for point in points for span in spans(point)]
    for every in (runs, wholes.values()):
        end, holder = -math.inf, ""
        for start, stop, file in sorted(every):
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
    for mark, race in races.items():
        latest, holder = -math.inf, ""
        for place in range(max(len(started) for _, started in race)):
            turns = [(started[place], point.file) for point, started in race if place < len(started)]
            for start, file in turns:
                if start < latest - CLOCK:
                    yield file, f"has a run of round {place + 1} that began before round {place} of {holder}"
            latest, holder = max((latest, holder), *turns)
        whole = chain_of(mark, [point.run_seconds for point, _ in race])
        for point, _ in race:
            if (point.attrs.get(CHAIN), point.numbers(TURNS)) != (whole[CHAIN], whole[TURNS]):
                had = f"{sum(point.numbers(TURNS)):g} turns ({CHAIN}, {TURNS})"
                yield point.file, f"has the chain of a race with {had}, and there are {sum(whole[TURNS])}"


class Copies:
    """Finds points that are others again, scaled, shuffled or moved in time."""

    def __init__(self) -> None:
        self._alike: dict[tuple[str, int], list[tuple[np.ndarray, str]]] = defaultdict(list)

    def problems(self, point: CheckedPoint) -> Iterator[str]:
        """Yield in what a point with its arrays is one of those before it."""
        times = point.times
        alike = list[tuple[np.ndarray, float, str]]()
        if len(times) >= FEWEST and len(np.unique(times)) >= FEWEST:
            # No factor and no order changes the shape.
            shape = np.quantile(times, np.linspace(0, 1, FEWEST)) / times.mean()
            alike.append((shape, NEAR, "has latencies distributed as those of"))
        for name in ("run_seconds", "run_p50"):
            values = np.array(point.numbers(name))
            if len(values) >= FEWEST_RUNS and len(np.unique(values)) == len(values):
                alike.append(
                    (values / values.mean(), NEAREST, f"has runs that compare (by {name}) as those of")
                )
        for values, tolerance, what in alike:
            before = self._alike[what, len(values)]
            known = np.array([one for one, _ in before]).reshape(-1, len(values))
            for place in np.flatnonzero((np.abs(known - values) <= tolerance * values).all(axis=1))[:1]:
                yield f"{what} {before[place][1]}"
            before.append((values, point.file))


# What all points keep together: the rule, and what yields the files that break it.
TOGETHER = (
    ("timings", overlapping),
    ("timings", out_of_turn),
    ("mixed", mixed),
)
