"""VectorChord's index with centroids that the extension pgpu computes on the server's GPU."""

from collections.abc import Mapping
from typing import Any

from ..vchord.arguments import ARGUMENTS
from ..vchord.module import VectorChord
from .centroids import FEWEST_LISTS, PgpuCentroids

ROWS_A_LIST = 500  # for fewer rows than VectorChord advises lists for


class PGPU(VectorChord):
    """IVF-RaBitQ, clustered on a GPU: the extension computes the centroids, and CREATE INDEX follows."""

    extension = "pgpu"
    builds_on = ("vchord",)

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric, vchord's build arguments, and those of the function in the server's version."""
        given = {} if method_param is None else method_param
        self._own: dict[str, Any] = {}
        if isinstance(given, Mapping):  # otherwise the base class refuses it
            shared = ARGUMENTS.keys() - {"centroids"}
            self._own = {name: value for name, value in given.items() if name not in shared}
            given = {"centroids": "pgpu"} | {name: given[name] for name in given if name in shared}
        super().__init__(metric, given)
        self._given = {} if method_param is None else method_param

    def source_of_centroids(self) -> PgpuCentroids:
        """Return pgpu."""
        return PgpuCentroids(self.arguments, self._own)

    def lists_for(self, rows: int) -> list[int]:
        """Return lists for few rows, too: pgpu makes no index without them."""
        return super().lists_for(rows) or [max(rows // ROWS_A_LIST, FEWEST_LISTS)]
