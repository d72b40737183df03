"""VectorChord's IVF-RaBitQ index, access method vchordrq."""

import json
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from ..clustering import DEVICES
from ..postgres import machine
from ..postgres.arguments import take_arguments, whole_number
from ..postgres.catalog import side_table
from ..postgres.errors import PostgresError
from ..postgres.forms import Form, cast_form, halfvec_form, vector_form
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import megabytes
from .centroids import SOURCES, CentroidFile, Centroids, CentroidTree, centroids_of_table, let_owner_read
from .computed import ARGUMENTS, ComputedCentroids
from .on_gpu import ClusteringOnGpu
from .size import automatic_lists, index_bytes

# Options of the index itself, of the build, and of the clustering; None: left to VectorChord.
INDEX_OPTIONS = {"residual_quantization": False, "rerank_in_table": False, "degree_of_parallelism": None}
BUILD_OPTIONS = {"pin": None}
CLUSTERING_OPTIONS = {
    "lists": "auto",
    "spherical_centroids": None,  # None: as the metric wants it
    "sampling_factor": None,
    "kmeans_iterations": None,
    "kmeans_algorithm": None,
    "kmeans_dimension": None,
    "build_threads": None,  # None: one for each core
}
OTHER_ARGUMENTS = {"form": "vector", "centroids": "internal", "seed": None}
CENTROIDS_TABLE = "centroids_of_this_index"  # stands for a table's name that follows from the index's
CLUSTERED_WITH = dict.fromkeys(DEVICES, ("lists", "spherical_centroids", *ARGUMENTS)) | {
    "internal": tuple(CLUSTERING_OPTIONS),
    "pgpu": ("lists", "spherical_centroids", "sampling_factor", "kmeans_iterations"),
}
MakeCentroids = Callable[[str, str], dict[str, Any]]  # into which table, of which one: facts
ALGORITHMS = ("lloyd", "hierarchical")
FORMS = ("vector", "halfvec", "rabitq8", "rabitq4")
SINCE_1_1 = ("rabitq8", "rabitq4")
MOST_THREADS = 255
COARSER = 3  # where recall is searched for: on a coarser level, so many times fewer lists are looked into
EPSILONS = [tenth / 10 for tenth in range(41)]  # VectorChord takes 0 to 4


class VectorChord(PostgresANN):
    """IVF-RaBitQ: a query looks into `probes` lists of each level and re-ranks what `epsilon` lets by."""

    extension = "vchord"
    library = "vchord"

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric and the build arguments by VectorChord's names, all of them optional."""
        super().__init__(metric)
        known = INDEX_OPTIONS | BUILD_OPTIONS | CLUSTERING_OPTIONS | OTHER_ARGUMENTS
        self._given = {} if method_param is None else method_param
        self._arguments = take_arguments("vchord", self._given, (), known)
        if self._arguments["kmeans_algorithm"] not in (None, *ALGORITHMS):
            raise PostgresError(
                f"kmeans_algorithm is '{self._arguments['kmeans_algorithm']}': use {' or '.join(ALGORITHMS)}"
            )
        if self._arguments["form"] not in FORMS:
            raise PostgresError(
                f"form '{self._arguments['form']}' is not known: use one of {', '.join(FORMS)}"
            )
        self._source = str(self._arguments["centroids"] or "internal")
        if self._source in SOURCES:
            self._refuse_useless(CLUSTERED_WITH[self._source])
        if self._arguments["seed"] is not None and self._source not in DEVICES:
            raise PostgresError(f"seed cannot be had with centroids: {self._source}: leave it out")
        self._make_centroids: MakeCentroids | None = None
        self._lists: list[int] | None = None  # on each level, known in fit
        self._query = "probes=None"

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index; its lists are as given, VectorChord's advice, or those of given centroids."""
        form = self._form_of(dimension)
        centroids = self._centroids(rows, dimension)
        self._lists = centroids.lists if centroids else self._lists_for(rows)
        if self._source == "pgpu":
            self._on_gpu.check_rows(rows)
        leaves = self._lists[-1] if self._lists else 1
        if leaves > rows:
            raise PostgresError(f"{leaves:,} lists for {rows:,} rows: give fewer, or lists: auto")
        in_table = bool(self._arguments["rerank_in_table"])
        disk = index_bytes(rows, dimension, leaves, sum(self._lists) + 1, form.value_bytes - 8, in_table)
        options = self._options(centroids)
        return Index(
            method="vchordrq",
            form=form,
            options={"options": f"$${options}$$"},
            disk_bytes=disk,
            estimate=f"estimate for lists {self._lists}: {megabytes(disk)} on disk",
        )

    def learns_from_rows(self, rows: int) -> bool:
        """Whether there are lists, whose centroids are not given."""
        return self._source in CLUSTERED_WITH and bool(self._lists_for(rows))

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Create the index, once the table of its centroids is made where VectorChord computes none."""
        if self._make_centroids is None:
            return super().create_index(statement, name, table)
        into = side_table(name)
        facts = self._make_centroids(into, table)
        let_owner_read(self.connection, into, table)
        return facts | super().create_index(statement.replace(CENTROIDS_TABLE, into), name, table)

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Keep the time from the first word of the clustering, before rows are sampled, to its last one."""
        if not notice.startswith("clustering:"):
            return {}
        if "estimated memory" in notice:
            self._clustering_began = seconds
            return {"clustering_memory": notice.rpartition(" is ")[2]}
        return {"clustering_time": seconds - self._clustering_began} if "finished" in notice else {}

    def prewarm(self, index: str) -> str:
        """Read the index into shared_buffers, by VectorChord's own function."""
        self.connection.execute("SELECT vchordrq_prewarm(%s::regclass)", [index])
        return "vchordrq_prewarm"

    def search_range(self, count: int) -> SearchRange:
        """Search the probes of the last level, with a third of them on the next coarser one.

        Without lists, every code is looked at, and epsilon alone says how many vectors are compared whole.
        """
        lists = self._lists or []
        if not lists:
            return SearchRange("epsilon", EPSILONS, lambda epsilon: ["", epsilon])

        def arguments(probes: int) -> list[Any]:
            on_each = [-(-probes // COARSER**above) for above in reversed(range(len(lists)))]
            return [",".join(str(min(most, number)) for most, number in zip(lists, on_each, strict=True))]

        return SearchRange("probes", range(1, lists[-1] + 1), arguments)

    def set_query_arguments(self, probes: Any, epsilon: float = 1.9, rerank: int | None = None) -> None:
        """Set how many lists are looked into, one number a level ("40,250"), and the bound `epsilon`.

        The larger `epsilon`, the more vectors are compared whole that their codes had ruled out. `rerank`
        sorts so many of the index's answers by the exact distances in the table.
        """
        numbers = [text.strip() for text in str(probes).strip("[]").split(",") if text.strip()]
        if not all(re.fullmatch("[1-9][0-9]*", number) for number in numbers):
            raise PostgresError(
                f"probes is '{probes}': give a number from 1 on for each level, as \"40,250\""
            )
        if self._lists == [] and self._arguments["lists"] == "auto":
            numbers = []  # for so few rows, VectorChord's advice is no lists
        if self._lists is not None and len(numbers) != len(self._lists):
            raise PostgresError(
                f"probes '{probes}' has {len(numbers)} numbers, the index has {len(self._lists)} levels of "
                f"lists {self._lists}: give one for each, the coarsest first"
            )
        if rerank is not None:
            whole_number("rerank", rerank)
        text = ",".join(numbers)
        self._query = f"probes={text}, epsilon={epsilon}" + (f", rerank={rerank}" if rerank else "")
        self.set_query_settings({"vchordrq.probes": text, "vchordrq.epsilon": epsilon}, rerank)

    def __str__(self) -> str:
        arguments = "".join(f"{name}={value}, " for name, value in self._given.items())
        return f"VectorChord({arguments}{self._query})"

    def _form_of(self, dimension: int) -> Form:
        name = self._arguments["form"]
        version = self.versions["vchord"]
        if name in SINCE_1_1 and tuple(map(int, version.split(".")[:2])) < (1, 1):
            raise PostgresError(
                f"form '{name}' came with VectorChord 1.1, the server has {version}: use form: halfvec, "
                "or install a newer version"
            )
        if name in SINCE_1_1:
            code_bytes = dimension if name == "rabitq8" else -(-dimension // 2)
            return cast_form(self.metric, dimension, name, 24 + code_bytes, f"quantize_to_{name}({{}})")
        return (vector_form if name == "vector" else halfvec_form)(self.metric, dimension)

    def _lists_for(self, rows: int) -> list[int]:
        given = self._arguments["lists"]
        if given == "auto":
            return automatic_lists(rows)
        lists = given if isinstance(given, list) else [given]
        if not all(type(number) is int and number > 0 for number in lists) or lists != sorted(lists):
            raise PostgresError(
                f"lists is {given}: give auto, a number, or one for each level, ascending, as [50, 8000]"
            )
        return lists

    def _centroids(self, rows: int, dimension: int) -> Centroids | None:
        """Say what identifies the centroids, and how their table is made, if VectorChord computes none."""
        self._make_centroids = None
        if self._source == "internal":
            return None
        if self._source in SOURCES:
            lists = self._lists_for(rows)
            if not 1 <= len(lists) <= 2:
                raise PostgresError(
                    f"centroids: {self._source} has one level of lists or two, not {lists}: "
                    "give lists, as 300 or [50, 8000]"
                )
            return Centroids(CENTROIDS_TABLE, lists, self.clustering_mark(lists))
        self._refuse_useless(("lists",))
        if Path(self._source).suffix == ".npy" or Path(self._source).is_file():
            given = self._given.get("lists", "auto") != "auto"
            file = CentroidFile(Path(self._source), self._lists_for(0) if given else None, dimension)
            self._make_centroids = partial(self._write_centroids, file.tree, file.facts)
            return Centroids(CENTROIDS_TABLE, file.tree.levels, file.mark)
        return centroids_of_table(self.connection, self._source, dimension)

    def clustering_mark(self, lists: list[int]) -> str:
        """Say on one line what centroids that are to be computed depend on, beside the table."""
        if self._source == "pgpu":
            given = self.arguments_of_pgpu()
            self._on_gpu = ClusteringOnGpu(self.server, self.connection, self.metric, lists, given)
            self._make_centroids = self._on_gpu.centroids
            return self._on_gpu.mark
        how = (self.metric, lists, self._is_spherical(), self._arguments)
        clustering = ComputedCentroids(self._source, *how)
        self._make_centroids = partial(self._cluster, clustering)
        return clustering.mark

    def _cluster(self, clustering: ComputedCentroids, into: str, table: str) -> dict[str, Any]:
        tree, facts = clustering.compute(self.training_set)
        return self._write_centroids(tree, facts, into, table)

    def _write_centroids(
        self, tree: CentroidTree, facts: dict[str, Any], into: str, table: str
    ) -> dict[str, Any]:
        tree.write(self.connection, into)
        return facts

    def arguments_of_pgpu(self) -> dict[str, Any]:
        """Return what is handed over to pgpu's function, by its names."""
        return {name: self._given[name] for name in CLUSTERED_WITH["pgpu"][1:] if name in self._given}

    def _is_spherical(self) -> bool:
        given = self._arguments["spherical_centroids"]
        return self.metric in ("angular", "ip") if given is None else bool(given)

    def _refuse_useless(self, taken: Collection[str]) -> None:
        useless = [name for name in CLUSTERING_OPTIONS if name in self._given and name not in taken]
        if useless:
            raise PostgresError(
                f"{', '.join(useless)} cannot be had with centroids: {self._source}: leave it out"
            )

    def _options(self, centroids: Centroids | None) -> str:
        """Write the options as TOML, in a fixed order: the same index is found again by its text."""
        options = {name: self._arguments[name] for name in INDEX_OPTIONS}
        options |= {f"build.{name}": self._arguments[name] for name in BUILD_OPTIONS}
        if centroids:
            options["build.external.table"] = centroids.table
        else:
            clustering = {name: self._arguments[name] for name in CLUSTERING_OPTIONS}
            clustering["lists"] = self._lists
            clustering["spherical_centroids"] = self._is_spherical()
            if clustering["build_threads"] is None:
                clustering["build_threads"] = (
                    min(machine.cores(), MOST_THREADS) if self.server.is_ours else None
                )
            algorithm = clustering.pop("kmeans_algorithm")
            options |= {f"build.internal.{name}": value for name, value in clustering.items()}
            if algorithm:
                options[f"build.internal.kmeans_algorithm.{algorithm}"] = {}
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items() if value is not None]
        if centroids:
            lines.append(f"# {centroids.mark}")
        return "\n".join(lines)
