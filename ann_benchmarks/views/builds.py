"""Built indexes: their names, and what building them took, as a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, UNKNOWN, figure_text, size_text
from ann_benchmarks.results.at_recall import build_arguments
from ann_benchmarks.results.runs import Run, number

from .parts import Table, known_table

LONGEST_LABEL = 40
PARTS = {"load": "loading the table", "clustering": "clustering", "index": "building the index"}


class IndexNames:
    """The names of the indexes that some results were measured on.

    A name is the algorithm with the build arguments in which its indexes differ.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        """Compare the build arguments of each algorithm."""
        self._arguments: dict[str, list[dict[str, str]]] = {}
        for run in runs:
            known = self._arguments.setdefault(run.series.family, [])
            arguments = build_arguments(run)
            if arguments not in known:
                known.append(arguments)

    def find(self, run: Run) -> str:
        """Return the name of the index of one of the results."""
        own = self.own_arguments(run)
        return f"{run.series.family} ({own})" if own else run.series.family

    def own_arguments(self, run: Run) -> str:
        """Return the build arguments of one of the results in which not all of its algorithm are alike."""
        arguments, others = build_arguments(run), self._arguments[run.series.family]
        own = [text for name, text in arguments.items() if any(other.get(name) != text for other in others)]
        return ", ".join(own)

    def label(self, run: Run) -> str:
        """Return the same as far as it fits beside a point."""
        return f"{self.own_arguments(run):.{LONGEST_LABEL}}"


@dataclass(frozen=True)
class BuildCosts:
    """What one built index took."""

    run: Run  # of its results the one that states the most
    short_name: str  # with the arguments in which others of the algorithm differ
    arguments: str
    points: int

    @property
    def total(self) -> float:
        """Seconds of loading and building."""
        return self.run.metrics["build"]

    def seconds(self, part: str) -> float | None:
        """Return the seconds of a part, None where unknown: load, clustering, or index without clustering."""
        stored = {"load": "load_time", "clustering": "clustering_time", "index": "index_build_time"}
        found = number(self.run, stored[part])
        if part != "index" or found is None:
            return found
        return max(found - (self.seconds("clustering") or 0), 0.0)


def build_costs(runs: Iterable[Run]) -> list[BuildCosts]:
    """Return the builds that results describe, each once, the fastest first."""
    runs = list(runs)
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        if run.metrics["build"] > 0 or run.metrics["indexsize"] > 0:
            arguments = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
            took = number(run, "index_build_time") or run.metrics["build"]
            groups.setdefault((run.dataset, run.series.family, arguments, took), []).append(run)
    names = IndexNames(runs)
    builds = []
    for (_, _, arguments, _), group in groups.items():
        run = max(group, key=lambda run: len(run.attrs))
        builds.append(BuildCosts(run, names.find(run), arguments, len(group)))
    return sorted(builds, key=lambda build: (build.run.dataset, build.total))


def build_table(runs: Iterable[Run], title: str = "") -> Table:
    """Return the table of all builds; UserError without any."""
    rows = []
    for build in build_costs(runs):
        run, overflow = build.run, number(build.run, "graph_overflow_rows")
        index_size = run.metrics["indexsize"] or None
        rows.append({
            "Index": run.series.family + (f" ({build.arguments})" if build.arguments else ""),
            "Dataset": run.dataset,
            "Load (s)": figure_text(build.seconds("load")),
            "Clustering (s)": figure_text(build.seconds("clustering")),
            "Rest of the index (s)": figure_text(build.seconds("index")),
            "All (s)": figure_text(build.total),
            "Size": size_text(index_size, KIB),
            "Estimate": estimate_text(number(run, "estimated_index_size"), index_size),
            "Table": size_text(number(run, "table_size"), KIB),
            "maintenance_work_mem": str(run.attrs.get("maintenance_work_mem", UNKNOWN)),
            "Workers": str(run.attrs.get("max_parallel_maintenance_workers", UNKNOWN)),
            "wal_level": str(run.attrs.get("build_wal_level", UNKNOWN)),
            "Outgrew memory after": f"{overflow:,.0f} rows" if overflow else UNKNOWN,
            "Points": str(build.points),
        })  # fmt: skip
    if not rows:
        raise UserError("no result states what its build took")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return known_table(columns, title or "Builds", ("Index", "Dataset"), ("Dataset", "wal_level"))


def estimate_text(estimated: float | None, built: float | None) -> str:
    """Write the estimated size in KiB, and by how much it misses the size of the built index."""
    return f"{size_text(estimated, KIB)} ({estimated / built - 1:+.1%})" if estimated and built else UNKNOWN
