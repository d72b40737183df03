"""pgvector without an index: every query scans all rows."""

from ..postgres.module import PostgresANN


class PGVectorExact(PostgresANN):
    """The baseline: recall 1, no build, and the time that an index has to beat."""

    metrics = (*PostgresANN.metrics, "manhattan", "hamming", "jaccard")
    takes_sparse = True

    def index(self, rows: int, dimension: int) -> None:
        """There is none."""

    def set_query_arguments(self, workers: int) -> None:
        """Set how many processes may help the one that answers a query."""
        self._workers = workers
        self.set_query_settings({"enable_seqscan": "on", "max_parallel_workers_per_gather": workers})

    def __str__(self) -> str:
        return f"PGVectorExact(workers={self._workers})"
