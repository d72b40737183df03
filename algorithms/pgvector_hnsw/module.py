"""pgvector's HNSW index."""

import math
import re
from typing import Any

from ..postgres.arguments import named, number, one_of, take_arguments, whole_number
from ..postgres.errors import PostgresError
from ..postgres.forms import pgvector_form
from ..postgres.index.divisions import DIVISION_ARGUMENTS, chosen_division
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import MIB, aligned, size_text

MOST_CANDIDATES = 1000  # of a query
ITERATIVE_SCANS = ("off", "strict_order", "relaxed_order")
MOST_MULTIPLIER = 1000  # of work_mem


class PGVectorHNSW(PostgresANN):
    """HNSW: M links a node, efConstruction candidates a build step, ef_search a query."""

    metrics = (*PostgresANN.metrics, "manhattan", "hamming", "jaccard")

    def __init__(self, metric: str, method_param: dict[str, Any]) -> None:
        """Take the metric and {"M": ..., "efConstruction": ..., "form": "vector"}.

        `attribute_index` adds indexes of the attributes, which the planner may choose instead; `division` and
        `partial_rows` make several graphs in place of one.
        """
        super().__init__(metric)
        optional = {"form": "vector", "attribute_index": "none", **DIVISION_ARGUMENTS}
        arguments = take_arguments("pgvector_hnsw", method_param, ("M", "efConstruction"), optional)
        self.use_attribute_index(arguments["attribute_index"])
        self.use_division(chosen_division(arguments["division"], arguments["partial_rows"]))
        self._not_default = {name: arguments[name] for name in optional if arguments[name] != optional[name]}
        self._m = whole_number("M", arguments["M"], 2, 100)
        self._ef_construction = whole_number("efConstruction", arguments["efConstruction"], 4, 1000)
        self._form_name = arguments["form"]
        self._query = "ef_search=None"

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index, with the memory that its graph is estimated to need."""
        form = pgvector_form(self._form_name, self.metric, self.column)
        graph = graph_bytes(rows, form.value_bytes, self._m)
        disk = index_bytes(rows, form.value_bytes, self._m)
        return Index(
            method="hnsw",
            form=form,
            options={"m": self._m, "ef_construction": self._ef_construction},
            build_memory=round(graph * 1.1) + 64 * MIB,
            disk_bytes=disk,
            estimate=f"estimate of the graph: {size_text(graph)} in memory while it is built, "
            f"{size_text(disk)} on disk",
        )

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Keep that the graph outgrew maintenance_work_mem: the rest of the build was a slower one."""
        overflow = re.search(r"no longer fits into maintenance_work_mem after (\d+) tuples", notice)
        return {"graph_overflow_rows": int(overflow.group(1))} if overflow else {}

    def set_query_arguments(
        self,
        ef_search: int,
        rerank: int | None = None,
        iterative_scan: str | None = None,
        max_scan_tuples: int | None = None,
        scan_mem_multiplier: float | None = None,
    ) -> None:
        """Set how many candidates a query keeps, and how many of them are sorted by their exact distances.

        An index on bits always re-ranks: all candidates, unless `rerank` is given. With an `iterative_scan`,
        a query that has found too few rows goes on, until it has visited `max_scan_tuples` of them or has
        filled `scan_mem_multiplier` times work_mem. None: as pgvector does by itself.
        """
        scan: dict[str, Any] = {}
        if iterative_scan is not None:
            scan["iterative_scan"] = one_of("iterative_scan", iterative_scan, ITERATIVE_SCANS)
        if max_scan_tuples is not None:
            scan["max_scan_tuples"] = whole_number("max_scan_tuples", max_scan_tuples)
        if scan_mem_multiplier is not None:
            scan["scan_mem_multiplier"] = number(
                "scan_mem_multiplier", scan_mem_multiplier, 1, MOST_MULTIPLIER
            )
        if rerank is None and self._form_name.startswith("bit"):
            rerank = ef_search
        if rerank is not None and whole_number("rerank", rerank) > whole_number("ef_search", ef_search):
            raise PostgresError(
                f"HNSW finds up to ef_search = {ef_search} candidates, which leaves none to make {rerank}: "
                "raise ef_search, or re-rank fewer"
            )
        self._query = named({"ef_search": ef_search, "rerank": rerank, **scan})
        settings = {f"hnsw.{name}": value for name, value in scan.items()}
        self.set_query_settings({"hnsw.ef_search": ef_search, **settings}, rerank)

    def search_range(self, count: int) -> SearchRange:
        """Search ef_search, from as many candidates as neighbours to the most that pgvector takes."""
        return SearchRange("ef_search", range(min(count, MOST_CANDIDATES), MOST_CANDIDATES + 1))

    def __str__(self) -> str:
        optional = "".join(f"{name}={value}, " for name, value in self._not_default.items())
        return f"PGVectorHNSW({optional}m={self._m}, ef_construction={self._ef_construction}, {self._query})"


def graph_bytes(rows: int, value_bytes: int, m: int) -> int:
    """Memory of the graph while it is built, in bytes; a vector takes `value_bytes` in it.

    By the sizes of pgvector's structures: an element, its value, a pointer to the neighbours of each level,
    2 m neighbours of 16 bytes on level 0 and m on each level above. A node reaches level L with probability
    (1/m)^L, which makes 1/(m-1) upper levels on average. efConstruction has no part in it.
    """
    level_zero = 128 + aligned(value_bytes) + 8 + aligned(8 + 32 * m)
    upper = (8 + aligned(8 + 16 * m)) / (m - 1)
    return math.ceil(rows * (level_zero + upper))


def index_bytes(rows: int, value_bytes: int, m: int) -> int:
    """Size of the graph on disk, in bytes, by the layout of pgvector's pages.

    A page of 8 KiB has 8,160 bytes for whole nodes: an element of 72 bytes and its value, 2 m neighbours of
    6 bytes each, and two line pointers; a node that does not fit takes two pages. Upper levels add m
    neighbours to a node for each, 1/(m-1) levels on average. One more page describes the index.
    """
    node = aligned(72 + value_bytes) + aligned(4 + 2 * m * 6) + 8
    whole_nodes = 8160 // node or 0.5
    pages_a_node = max(1 / whole_nodes, (node + 6 * m / (m - 1)) / 8160)
    return (math.ceil(rows * pages_a_node) + 1) * 8192
