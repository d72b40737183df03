"""pgvector without an index of the vectors: every query computes the distances of all rows that pass."""

from typing import Any

from ..postgres.arguments import take_arguments
from ..postgres.module import PostgresANN


class PGVectorExact(PostgresANN):
    """The baseline: recall 1, no build of vectors, and the time that an index has to beat.

    With `attribute_index`, the rows that pass a filter are found by an index of the attribute.
    """

    metrics = (*PostgresANN.metrics, "manhattan", "hamming", "jaccard")

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric and {"attribute_index": "none", "auto", "btree" or "gin"}."""
        super().__init__(metric)
        arguments = take_arguments("pgvector_exact", method_param or {}, (), {"attribute_index": "none"})
        self._attribute_index = arguments["attribute_index"]
        self.use_attribute_index(self._attribute_index)
        self._workers: int | None = None

    def index(self, rows: int, dimension: int) -> None:
        """Build nothing: every query scans all rows."""

    def set_query_arguments(self, workers: int) -> None:
        """Set how many processes may help the one that answers a query."""
        self._workers = workers
        self.set_query_settings({"enable_seqscan": "on", "max_parallel_workers_per_gather": workers})

    def __str__(self) -> str:
        index = "" if self._attribute_index == "none" else f"attribute_index={self._attribute_index}, "
        return f"PGVectorExact({index}workers={self._workers})"
