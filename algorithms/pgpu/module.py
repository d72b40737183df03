"""VectorChord's index with centroids that the extension pgpu computes on the server's GPU."""

from collections.abc import Mapping
from typing import Any

from ..postgres.errors import PostgresError
from ..vchord.module import (
    BUILD_OPTIONS,
    CLUSTERING_OPTIONS,
    INDEX_OPTIONS,
    OTHER_ARGUMENTS,
    VectorChord,
)
from ..vchord.on_gpu import FEWEST_LISTS
from ..vchord.size import automatic_lists

OF_VCHORD = (*INDEX_OPTIONS, *BUILD_OPTIONS, *CLUSTERING_OPTIONS, *OTHER_ARGUMENTS)
OF_BOTH = ("sampling_factor", "kmeans_iterations", "spherical_centroids")
ROWS_A_LIST = 500  # of fewer rows than VectorChord makes lists for


class PGPU(VectorChord):
    """IVF-RaBitQ, clustered on a GPU; queries are those of VectorChord.

    The extension builds the index in one call. It cannot do so for angular, whose operator class it does not
    know, nor with some of VectorChord's options: then it computes the centroids, and CREATE INDEX follows.
    """

    extension = "pgpu"
    builds_on = ("vchord",)

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric, vchord's build arguments, and those of the function in the server's version."""
        given = {} if method_param is None else method_param
        own: dict[str, Any] = {}
        if isinstance(given, Mapping):  # if not, vchord says so
            own = {name: value for name, value in given.items() if name not in OF_VCHORD}
            given = {"centroids": "pgpu"} | {name: given[name] for name in given if name in OF_VCHORD}
        super().__init__(metric, given)
        self._given = {} if method_param is None else method_param
        if own and self._source != "pgpu":
            raise PostgresError(f"{', '.join(own)} cannot be had with centroids: {self._source}")
        self._skips_index_build = own.pop("skip_index_build", False)
        if not isinstance(self._skips_index_build, bool):
            raise PostgresError(f"skip_index_build is {self._skips_index_build!r}: give true or false")
        self._given_to_pgpu = own | {name: given[name] for name in OF_BOTH if name in given}

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Have the extension build it, where it can."""
        if self._source != "pgpu" or not self._builds_in_one_call():
            return super().create_index(statement, name, table)
        return self._on_gpu.index(table, name, bool(self._arguments["residual_quantization"]))

    def arguments_of_pgpu(self) -> dict[str, Any]:
        """Return what is handed over to the function, by its names."""
        return self._given_to_pgpu

    def clustering_mark(self, lists: list[int]) -> str:
        """Say what the centroids depend on, and who builds the index."""
        mark = super().clustering_mark(lists)
        is_one_call = self._source == "pgpu" and self._builds_in_one_call()
        return f"{mark}, index by pgpu" if is_one_call else mark

    def __str__(self) -> str:
        return super().__str__().replace("VectorChord", "PGPU", 1)

    def _builds_in_one_call(self) -> bool:
        options = [name for name in (*INDEX_OPTIONS, *BUILD_OPTIONS) if name in self._given]
        if "residual_quantization" not in self._on_gpu.takes:  # as of version 1.0, whose index always has it
            if not self._arguments["residual_quantization"]:
                return False
            options.remove("residual_quantization")
        return (
            not self._skips_index_build
            and self.metric != "angular"
            and self._arguments["form"] == "vector"
            and all(name in self._on_gpu.takes for name in options)
        )

    def _lists_for(self, rows: int) -> list[int]:
        if self._source == "pgpu" and self._arguments["lists"] == "auto":
            return automatic_lists(rows) or [max(rows // ROWS_A_LIST, FEWEST_LISTS)]
        return super()._lists_for(rows)
