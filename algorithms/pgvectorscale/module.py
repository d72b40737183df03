"""pgvectorscale's StreamingDiskANN index, access method diskann."""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ..postgres.arguments import one_of, take_arguments, whole_number
from ..postgres.errors import PostgresError
from ..postgres.forms import vector_form
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import MIB, aligned, size_text

MOST_CANDIDATES, MOST_RESCORED = 10_000, 1_000  # of a query
ROOM = 8160  # of a page of 8 KiB, for nodes and their line pointers
LAYOUTS = ("memory_optimized", "plain")
# None: left to pgvectorscale.
OPTIONS = dict.fromkeys(
    ("num_neighbors", "search_list_size", "max_alpha", "storage_layout", "num_bits_per_dimension")
)


class PGVectorScale(PostgresANN):
    """DiskANN: a graph on the vectors' codes (memory_optimized) or on the vectors themselves (plain)."""

    extension = "vectorscale"
    version_names: ClassVar[Mapping[str, str]] = {"vectorscale": "pgvectorscale"}

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric and the build arguments by pgvectorscale's names, all of them optional.

        With `labels`, the index has the labels that filters compare, and filters by them itself.
        """
        super().__init__(metric)
        given = take_arguments("pgvectorscale", method_param or {}, (), {**OPTIONS, "labels": False})
        self._has_labels = one_of("labels", given.pop("labels"), ("off", "on")) == "on"
        self._given = {name: value for name, value in given.items() if value is not None}
        layout = self._given.get("storage_layout", LAYOUTS[0])
        if layout not in LAYOUTS:
            raise PostgresError(f"storage_layout is '{layout}': use {' or '.join(LAYOUTS)}")
        self._is_plain = layout == "plain"
        if self._has_labels:
            if self._is_plain:
                raise PostgresError("storage_layout: plain has no labels: leave labels, or the layout, out")
            self.use_small_labels()
        for name, value in self._given.items():
            if name != "storage_layout" and type(value) not in (int, float):
                raise PostgresError(f"{name} is {value!r}: give a number")
        self._neighbors = whole_number("num_neighbors", self._given.get("num_neighbors", 50), 10, 1000)
        self._query = "query_search_list_size=None"

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index, with the memory in which its graph is built at once."""
        self._orphans = 0
        node, cached = self._node_bytes(dimension)
        if node + 4 > ROOM:
            raise PostgresError(
                f"a node of {dimension:,} dimensions and {self._neighbors} neighbours takes {node:,} bytes,"
                f" a page has {ROOM - 4:,}: give fewer num_neighbors, or storage_layout: memory_optimized"
            )
        memory, disk = rows * cached, (math.ceil(rows / (ROOM // (node + 4))) + 4) * 8192
        return Index(
            method="diskann",
            form=vector_form(self.metric, dimension),
            options=self._given,
            beside=(self.labels_of_filters(),) if self._has_labels else (),
            leader_builds=self._is_plain or self._has_labels,  # by itself: such indexes have no workers
            build_memory=memory + 64 * MIB,
            disk_bytes=disk,
            estimate=f"estimate of the graph: {size_text(memory)} of maintenance_work_mem to build it in, "
            f"{size_text(disk)} on disk",
        )

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Create the index; pgvectorscale takes workers only where statistics say how many rows there are.

        ANALYZE also has every index clean up, which takes VectorChord's graph minutes.
        """
        known = "SELECT reltuples > 0 FROM pg_class WHERE oid = %s::regclass"
        if self.connection.execute(known, [table]).fetchone() != (True,):
            self.connection.execute(f"ANALYZE {table} (id)")
        return super().create_index(statement, name, table)

    def learns_from_rows(self, rows: int) -> bool:
        """Codes are made by the means of the rows that are there."""
        return not self._is_plain

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Keep how many workers build, how many rows no edge leads to, and where memory was full."""
        if workers := re.fullmatch(r"Parallel build with (\d+) workers", notice):
            return {"build_workers": int(workers[1])}
        if notice.endswith("became an orphan"):
            self._orphans += 1
            return {"orphaned_rows": self._orphans}
        full = re.match(r"Builder neighbor cache is full after processing (\d+) vectors", notice)
        return {"graph_overflow_rows": int(full[1])} if full else {}

    def set_query_arguments(self, query_search_list_size: int, query_rescore: int | None = None) -> None:
        """Set how many candidates the search keeps, and how many are sorted by their exact distances.

        None: as many as pgvectorscale does by itself. An index of whole vectors rescores none.
        """
        settings = {
            "query_search_list_size": whole_number(
                "query_search_list_size", query_search_list_size, 1, MOST_CANDIDATES
            )
        }
        if query_rescore is not None:
            if self._is_plain:
                raise PostgresError("storage_layout: plain has exact distances: leave query_rescore out")
            settings["query_rescore"] = whole_number("query_rescore", query_rescore, 0, MOST_RESCORED)
        self._query = ", ".join(f"{name}={value}" for name, value in settings.items())
        self.set_query_settings({f"diskann.{name}": value for name, value in settings.items()})

    def search_range(self, count: int) -> SearchRange:
        """Search query_rescore: a search goes on until it has found that many, however few it keeps.

        Without codes, search query_search_list_size.
        """
        if self._is_plain:
            return SearchRange(
                "query_search_list_size", range(min(count, MOST_CANDIDATES), MOST_CANDIDATES + 1)
            )
        least = min(count, MOST_RESCORED)
        return SearchRange(
            "query_rescore", range(least, MOST_RESCORED + 1), lambda rescored: [least, rescored]
        )

    def __str__(self) -> str:
        arguments = "".join(f"{name}={value}, " for name, value in self._given.items())
        labels = "labels=on, " if self._has_labels else ""
        return f"PGVectorScale({labels}{arguments}{self._query})"

    def _node_bytes(self, dimension: int) -> tuple[int, int]:
        """Bytes of a node on disk and, as maintenance_work_mem, while the graph is built.

        On disk: the code or the vector, 8 for each neighbour, 32 more. While it is built, 80% of the memory
        is for neighbours, 72 bytes each and 48 for a node, and 20% for codes, with 32 bytes more each.
        """
        bits = self._given.get("num_bits_per_dimension") or (2 if dimension < 900 else 1)
        code = 8 * math.ceil(dimension * bits / 64)
        graph = (48 + 72 * self._neighbors) / 0.8
        if self._is_plain:
            return aligned(4 * dimension) + 8 * self._neighbors + 32, math.ceil(graph)
        return code + 8 * self._neighbors + 32, math.ceil(max(graph, (32 + code) / 0.2))
