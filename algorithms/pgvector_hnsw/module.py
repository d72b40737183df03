"""pgvector's HNSW index."""

import math
import re
from typing import Any

from ..postgres.errors import PostgresError
from ..postgres.module import Index, PostgresANN
from ..postgres.settings import MIB, megabytes

OPERATOR_CLASSES = {"euclidean": "vector_l2_ops", "angular": "vector_cosine_ops", "ip": "vector_ip_ops"}
LARGEST_DIMENSION = 2000


class PGVectorHNSW(PostgresANN):
    """HNSW over `vector`: M links a node, efConstruction candidates a build step, ef_search a query."""

    def __init__(self, metric: str, method_param: dict[str, int]) -> None:
        """Take the metric and {"M": ..., "efConstruction": ...}."""
        super().__init__(metric)
        if set(method_param) != {"M", "efConstruction"}:
            raise PostgresError(
                "pgvector_hnsw/config.yml must give M and efConstruction as build arguments, "
                f"not {', '.join(method_param)}"
            )
        self._m = method_param["M"]
        self._ef_construction = method_param["efConstruction"]
        self._ef_search: int | None = None

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index, with as much memory for its graph as the estimate says."""
        if dimension > LARGEST_DIMENSION:
            raise PostgresError(
                f"pgvector's HNSW takes up to {LARGEST_DIMENSION} dimensions, these have {dimension}: "
                "cast the vectors to halfvec (up to 4,000) or bit (up to 64,000), or reduce their dimensions"
            )
        graph, disk = graph_bytes(rows, dimension, self._m), index_bytes(rows, dimension, self._m)
        return Index(
            method="hnsw",
            operator_class=OPERATOR_CLASSES[self.metric],
            options={"m": self._m, "ef_construction": self._ef_construction},
            build_memory=round(graph * 1.1) + 64 * MIB,
            disk_bytes=disk,
            estimate=f"estimate of the graph: {megabytes(graph)} in memory while it is built, "
            f"{megabytes(disk)} on disk",
        )

    def note_of_build(self, notice: str) -> dict[str, Any]:
        """Keep that the graph outgrew maintenance_work_mem: the rest of the build was a slower one."""
        overflow = re.search(r"no longer fits into maintenance_work_mem after (\d+) tuples", notice)
        return {"graph_overflow_rows": int(overflow.group(1))} if overflow else {}

    def set_query_arguments(self, ef_search: int) -> None:
        """Set the number of candidates that a query keeps."""
        self._ef_search = ef_search
        self.set_query_settings({"hnsw.ef_search": ef_search})

    def __str__(self) -> str:
        return (
            f"PGVectorHNSW(m={self._m}, ef_construction={self._ef_construction}, ef_search={self._ef_search})"
        )


def graph_bytes(rows: int, dimension: int, m: int) -> int:
    """Memory of the graph while it is built, in bytes.

    By the sizes of pgvector's structures: an element, its vector, a pointer to the neighbours of each level,
    2 m neighbours of 16 bytes on level 0 and m on each level above. A node reaches level L with probability
    (1/m)^L, which makes 1/(m-1) upper levels on average. efConstruction has no part in it.
    """
    level_zero = 128 + _aligned(8 + 4 * dimension) + 8 + _aligned(8 + 32 * m)
    upper = (8 + _aligned(8 + 16 * m)) / (m - 1)
    return math.ceil(rows * (level_zero + upper))


def index_bytes(rows: int, dimension: int, m: int) -> int:
    """Size of the graph on disk, in bytes, by the layout of pgvector's pages.

    A page of 8 KiB has 8,160 bytes for whole nodes: an element of 72 bytes and its vector, 2 m neighbours of
    6 bytes each, and two line pointers; a node that does not fit takes two pages. Upper levels add m
    neighbours to a node for each, 1/(m-1) levels on average. One more page describes the index.
    """
    node = _aligned(72 + 8 + 4 * dimension) + _aligned(4 + 2 * m * 6) + 8
    whole_nodes = 8160 // node or 0.5
    pages_a_node = max(1 / whole_nodes, (node + 6 * m / (m - 1)) / 8160)
    return (math.ceil(rows * pages_a_node) + 1) * 8192


def _aligned(size: int) -> int:
    return -(-size // 8) * 8
