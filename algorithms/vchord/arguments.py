"""VectorChord's build arguments: what each is for, its default, and what is wrong with a value."""

from collections.abc import Collection
from typing import Any

from ..clustering.settings import ALGORITHMS, DEVICES
from ..postgres.arguments import take_arguments
from ..postgres.errors import PostgresError
from .forms import automatic_lists, check_form

# None: left to VectorChord.
INDEX_OPTIONS = {"residual_quantization": False, "rerank_in_table": False, "degree_of_parallelism": None}
BUILD_OPTIONS = {"pin": None}
CLUSTERING_OPTIONS = {
    "lists": "auto",
    "spherical_centroids": None,  # None: true for angular and ip
    "sampling_factor": None,
    "kmeans_iterations": None,
    "kmeans_algorithm": None,
    "kmeans_dimension": None,
    "build_threads": None,  # None: one for each core
}
OTHER_ARGUMENTS = {"form": "vector", "centroids": "internal", "seed": None, "attribute_index": "none"}
ARGUMENTS = INDEX_OPTIONS | BUILD_OPTIONS | CLUSTERING_OPTIONS | OTHER_ARGUMENTS


class VchordArguments:
    """The arguments by name, with their defaults; `given` are those of config.yml alone."""

    def __init__(self, given: Any, metric: str) -> None:
        self.given = {} if given is None else given
        self.metric = metric
        self._values = take_arguments("vchord", self.given, (), ARGUMENTS)
        algorithm = self["kmeans_algorithm"]
        if algorithm not in (None, *ALGORITHMS):
            raise PostgresError(f"kmeans_algorithm is '{algorithm}': use {' or '.join(ALGORITHMS)}")
        check_form(self["form"])

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def source(self) -> str:
        """Where the centroids come from, as the argument `centroids` names it."""
        return str(self["centroids"] or "internal")

    @property
    def is_spherical(self) -> bool:
        """Whether centroids are of length 1."""
        given = self["spherical_centroids"]
        return self.metric in ("angular", "ip") if given is None else bool(given)

    def lists(self, rows: int) -> list[int]:
        """Return the number of lists of each level: those given, or VectorChord's advice for the rows."""
        given = self["lists"]
        if given == "auto":
            return automatic_lists(rows)
        lists = given if isinstance(given, list) else [given]
        if not all(type(number) is int and number > 0 for number in lists) or lists != sorted(lists):
            raise PostgresError(
                f"lists is {given}: give auto, a number, or one for each level, ascending, as [50, 8000]"
            )
        return lists

    def require_useful(self, clustering_options: Collection[str]) -> None:
        """Refuse other clustering options than these, and a seed where no device here makes use of it."""
        useless = [
            name for name in CLUSTERING_OPTIONS if name in self.given and name not in clustering_options
        ]
        if self["seed"] is not None and self.source not in DEVICES:
            useless.append("seed")
        if useless:
            raise PostgresError(
                f"{', '.join(useless)} cannot be given with centroids: {self.source}: leave it out"
            )
