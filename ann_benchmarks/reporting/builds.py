"""Built indexes: their names, and what building them took."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import UNKNOWN, plain, size
from ann_benchmarks.results.built import build_arguments
from ann_benchmarks.results.comparable import family
from ann_benchmarks.results.runs import Run, number

from .content import Shown, known_table
from .document import Block


class IndexNames:
    """The names of the indexes that some results were measured on.

    A name is the algorithm with the build arguments in which its indexes differ.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        """Compare the build arguments of each algorithm."""
        self._arguments: dict[str, list[dict[str, str]]] = {}
        for run in runs:
            known = self._arguments.setdefault(family(run), [])
            arguments = build_arguments(run)
            if arguments not in known:
                known.append(arguments)

    def of(self, run: Run) -> str:
        """Return the name of the index of one of the results."""
        arguments, others = build_arguments(run), self._arguments[family(run)]
        own = [text for name, text in arguments.items() if any(other.get(name) != text for other in others)]
        return f"{family(run)} ({', '.join(own)})" if own else family(run)


@dataclass(frozen=True)
class BuildCosts:
    """What one built index took; times in s, sizes in KiB, None where they are not known."""

    run: Run  # of its results the one that states the most
    short_name: str  # with the arguments in which others of the algorithm differ
    arguments: str
    points: int

    @property
    def name(self) -> str:
        """The algorithm with its build arguments."""
        return f"{family(self.run)} ({self.arguments})" if self.arguments else family(self.run)

    @property
    def total(self) -> float:
        """Loading and building."""
        return self.run.metrics["build"]

    @property
    def load(self) -> float | None:
        """Loading the table."""
        return number(self.run, "load_time")

    @property
    def clustering(self) -> float | None:
        """Clustering the vectors."""
        return number(self.run, "clustering_time")

    @property
    def index(self) -> float | None:
        """Building the index, without the clustering."""
        seconds = number(self.run, "index_build_time")
        return None if seconds is None else max(seconds - (self.clustering or 0), 0.0)

    @property
    def size(self) -> float | None:
        """Size of the index."""
        return self.run.metrics["indexsize"] or None


def builds_of(runs: Iterable[Run]) -> list[BuildCosts]:
    """Return the builds that results describe, each once, the fastest first."""
    runs = list(runs)
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        if run.metrics["build"] > 0 or run.metrics["indexsize"] > 0:
            arguments = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
            key = run.dataset, family(run), arguments, number(run, "index_build_time") or run.metrics["build"]
            groups.setdefault(key, []).append(run)
    names = IndexNames(runs)
    builds = []
    for (_, _, arguments, _), group in groups.items():
        run = max(group, key=lambda run: len(run.attrs))
        builds.append(BuildCosts(run, names.of(run), arguments, len(group)))
    return sorted(builds, key=lambda build: (build.run.dataset, build.total))


def build_table(shown: Shown) -> list[Block]:
    """Return the table of all builds."""
    rows = []
    for build in builds_of(shown.runs):
        run, overflow = build.run, number(build.run, "graph_overflow_rows")
        rows.append({
            "Index": build.name,
            "Dataset": run.dataset,
            "Load (s)": plain(build.load),
            "Clustering (s)": plain(build.clustering),
            "Rest of the index (s)": plain(build.index),
            "All (s)": plain(build.total),
            "Size": size(build.size),
            "Estimate": estimate_text(number(run, "estimated_index_size"), build.size),
            "Table": size(number(run, "table_size")),
            "maintenance_work_mem": str(run.attrs.get("maintenance_work_mem", UNKNOWN)),
            "Workers": str(run.attrs.get("max_parallel_maintenance_workers", UNKNOWN)),
            "Outgrew memory after": f"{overflow:,.0f} rows" if overflow else UNKNOWN,
            "Points": str(build.points),
        })  # fmt: skip
    if not rows:
        raise UserError("no result states what its build took")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if len(set(columns["Dataset"])) == 1:
        del columns["Dataset"]
    return [known_table(columns, shown.title or "Builds", frozenset({"Index", "Dataset"}))]


def estimate_text(estimated: float | None, built: float | None) -> str:
    """Write the estimated size in KiB, and by how much it misses the size of the built index."""
    return f"{size(estimated)} ({estimated / built - 1:+.1%})" if estimated and built else UNKNOWN
