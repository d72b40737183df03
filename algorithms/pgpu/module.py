"""VectorChord's index with centroids that the extension pgpu computes on the server's GPU."""

from collections.abc import Mapping
from typing import Any

from ..postgres.errors import PostgresError
from ..postgres.servers import Server
from ..vchord.arguments import ARGUMENTS, BUILD_OPTIONS, INDEX_OPTIONS, VchordArguments, automatic_lists
from ..vchord.centroids import CentroidSource, Connection, Shape
from ..vchord.computed import PgpuCentroids
from ..vchord.module import VectorChord
from ..vchord.on_gpu import FEWEST_LISTS

ROWS_A_LIST = 500  # for fewer rows than VectorChord advises lists for


class PgpuIndex(PgpuCentroids):
    """Centroids of pgpu, which builds the index in the same call where it can."""

    def __init__(self, arguments: VchordArguments, own: dict[str, Any]) -> None:
        """Take the arguments, and those that only pgpu's function has."""
        self._skips_index_build = own.pop("skip_index_build", False)
        if not isinstance(self._skips_index_build, bool):
            raise PostgresError(f"skip_index_build is {self._skips_index_build!r}: give true or false")
        super().__init__(arguments, own)

    @property
    def is_one_call(self) -> bool:
        """Whether pgpu builds the index, too; known once it is prepared."""
        options = [name for name in (*INDEX_OPTIONS, *BUILD_OPTIONS) if name in self.arguments.given]
        if "residual_quantization" not in self.clustering.takes:  # version 1.0, whose index always has it
            if not self.arguments["residual_quantization"]:
                return False
            options.remove("residual_quantization")
        return (
            not self._skips_index_build
            and self.arguments.metric != "angular"
            and self.arguments["form"] == "vector"
            and all(name in self.clustering.takes for name in options)
        )

    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Add to the mark who builds the index."""
        super().prepare(server, connection, lists, shape)
        if self.is_one_call:
            self.mark += ", index by pgpu"


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
        self._own: dict[str, Any] = {}
        if isinstance(given, Mapping):  # otherwise the base class refuses it
            self._own = {name: value for name, value in given.items() if name not in ARGUMENTS}
            given = {"centroids": "pgpu"} | {name: given[name] for name in given if name in ARGUMENTS}
        super().__init__(metric, given)
        self._given = {} if method_param is None else method_param

    def source_of_centroids(self) -> CentroidSource:
        """Return pgpu, unless another source is named."""
        if self.arguments.source == "pgpu":
            return PgpuIndex(self.arguments, self._own)
        if self._own:
            raise PostgresError(
                f"{', '.join(self._own)} cannot be given with centroids: {self.arguments.source}"
            )
        return super().source_of_centroids()

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Have the extension build it, where it can."""
        if isinstance(self.source, PgpuIndex) and self.source.is_one_call:
            residual = bool(self.arguments["residual_quantization"])
            clustering = self.source.clustering
            return clustering.look_at_sample(self.training_set) | clustering.index(table, name, residual)
        return super().create_index(statement, name, table)

    def lists_for(self, rows: int) -> list[int]:
        """Return lists for few rows, too: pgpu makes no index without them."""
        if self.arguments.source == "pgpu" and self.arguments["lists"] == "auto":
            return automatic_lists(rows) or [max(rows // ROWS_A_LIST, FEWEST_LISTS)]
        return super().lists_for(rows)
