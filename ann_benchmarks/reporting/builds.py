"""What building took: loading, clustering, index, sizes beside their estimates."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.numbers import UNKNOWN, plain, size
from ann_benchmarks.results.built import build_arguments
from ann_benchmarks.results.comparable import family
from ann_benchmarks.results.runs import Run, number

from .document import Block, Table
from .kinds import Shown, without_results
from .naming import IndexNames


@dataclass(frozen=True)
class Build:
    """One built index; times in s, sizes in KiB, None where they are not known."""

    dataset: str
    algorithm: str
    arguments: str
    total: float
    load: float | None
    clustering: float | None
    index: float | None  # without the clustering
    index_size: float | None
    estimated_size: float | None
    table_size: float | None
    memory: str
    workers: str
    overflow: int | None  # rows, after which the graph did not fit into memory
    points: int
    short_name: str  # with the arguments alone in which others of the algorithm differ

    @property
    def name(self) -> str:
        """The algorithm with its build arguments."""
        return f"{self.algorithm} ({self.arguments})" if self.arguments else self.algorithm


def builds_of(runs: Iterable[Run]) -> list[Build]:
    """Return the builds that results tell of, each once, the fastest first."""
    runs = list(runs)
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        if run.metrics["build"] > 0 or run.metrics["indexsize"] > 0:
            arguments = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
            key = run.dataset, family(run), arguments, number(run, "index_build_time") or run.metrics["build"]
            groups.setdefault(key, []).append(run)
    names = IndexNames(runs)
    builds = [build_of(key[0], key[1], key[2], group, names) for key, group in groups.items()]
    return sorted(builds, key=lambda build: (build.dataset, build.total))


def build_of(dataset: str, algorithm: str, arguments: str, runs: list[Run], names: IndexNames) -> Build:
    """Return the build that all these results used."""
    run = max(runs, key=lambda run: len(run.attrs))
    clustering, index = number(run, "clustering_time"), number(run, "index_build_time")
    return Build(
        dataset,
        algorithm,
        arguments,
        run.metrics["build"],
        number(run, "load_time"),
        clustering,
        None if index is None else max(index - (clustering or 0), 0.0),
        run.metrics["indexsize"] or None,
        number(run, "estimated_index_size"),
        number(run, "table_size"),
        str(run.attrs.get("maintenance_work_mem", UNKNOWN)),
        str(run.attrs.get("max_parallel_maintenance_workers", UNKNOWN)),
        int(overflow) if (overflow := number(run, "graph_overflow_rows")) else None,
        len(runs),
        names.of(run),
    )


def build_table(shown: Shown) -> list[Block]:
    """Return the table of all builds; columns that nothing is known of are left out."""
    builds = builds_of(shown.runs)
    if not builds:
        raise without_results("tells what its build took")
    cells: dict[str, list[str]] = {
        "Index": [build.name for build in builds],
        "Dataset": [build.dataset for build in builds],
        "Load (s)": [plain(build.load) for build in builds],
        "Clustering (s)": [plain(build.clustering) for build in builds],
        "Rest of the index (s)": [plain(build.index) for build in builds],
        "All (s)": [plain(build.total) for build in builds],
        "Size": [size(build.index_size) for build in builds],
        "Estimate": [estimate_text(build) for build in builds],
        "Table": [size(build.table_size) for build in builds],
        "maintenance_work_mem": [build.memory for build in builds],
        "Workers": [build.workers for build in builds],
        "Outgrew memory after": [
            f"{build.overflow:,} rows" if build.overflow else UNKNOWN for build in builds
        ],
        "Points": [str(build.points) for build in builds],
    }
    if len({build.dataset for build in builds}) == 1:
        del cells["Dataset"]
    kept = {name: column for name, column in cells.items() if set(column) != {UNKNOWN}}
    rows = list(zip(*kept.values(), strict=True))
    return [Table(tuple(kept), rows, shown.title or "Builds", frozenset({"Index", "Dataset"}))]


def estimate_text(build: Build) -> str:
    """Write the size that was estimated, and how far it is off."""
    if not build.estimated_size or not build.index_size:
        return UNKNOWN
    return f"{size(build.estimated_size)} ({build.estimated_size / build.index_size - 1:+.1%})"
