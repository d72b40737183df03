"""VectorChord's build arguments: what each is for, its default, what is wrong with a value; its forms."""

import math
from collections.abc import Collection
from typing import Any

from ..clustering.settings import ALGORITHMS, DEVICES
from ..postgres.arguments import take_arguments
from ..postgres.errors import PostgresError
from ..postgres.forms import Form, cast_form, halfvec_form, vector_form
from ..postgres.settings import aligned

FORMS = ("vector", "halfvec", "rabitq8", "rabitq4")
_SINCE_1_1 = ("rabitq8", "rabitq4")


def check_form(name: str) -> str:
    """Return a form's name; PostgresError for an unknown one."""
    if name not in FORMS:
        raise PostgresError(f"form '{name}' is not known: use one of {', '.join(FORMS)}")
    return name


def vchord_form(name: str, metric: str, dimension: int, version: str) -> Form:
    """Return the form of that name; PostgresError where this version of VectorChord does not have it."""
    if name not in _SINCE_1_1:
        return (vector_form if name == "vector" else halfvec_form)(metric, dimension)
    if tuple(map(int, version.split(".")[:2])) < (1, 1):
        raise PostgresError(
            f"form '{name}' came with VectorChord 1.1, the server has {version}: use form: halfvec, "
            "or install a newer version"
        )
    code_bytes = dimension if name == "rabitq8" else -(-dimension // 2)
    return cast_form(metric, dimension, name, 24 + code_bytes, f"quantize_to_{name}({{}})")


_PAGE = 8192
_ROOM = 8160  # for tuples and their line pointers, besides the page's header and its link to the next
_PARALLEL_PAGES = 32  # filled at the same time
FEWEST_LISTS = 4  # of a small table, where lists are scaled


def automatic_lists(rows: int, is_scaled: bool = False) -> list[int]:
    """VectorChord's own advice for a number of rows.

    None below 100,000 rows (every query looks at every code), a 500th of the rows below 2 million, 4 times
    their square root below 50 million, 8 times beyond, with a coarse level of its square root on top.
    Where it is scaled, any table has a list for each 500 rows, and at least 4.
    """
    if is_scaled:
        return [max(FEWEST_LISTS, rows // 500)]
    if rows < 100_000:
        return []
    if rows < 2_000_000:
        return [rows // 500]
    if rows < 50_000_000:
        return [round(4 * math.sqrt(rows))]
    lists = round(8 * math.sqrt(rows))
    return [round(math.sqrt(lists)), lists]


def index_bytes(
    rows: int, dimension: int, lists: int, centroids: int, value_bytes: int, in_table: bool
) -> int:
    """Size of the index on disk in bytes, by the layout of its pages.

    The vectors, `value_bytes` each, lie one after the other (not with rerank_in_table). While rows are
    inserted, each of the last level's `lists` gathers their codes, one bit a dimension, in pages of its own;
    these are packed, 32 together, in the end, and the room is kept. A list has four pages at least: codes to
    come, packed codes, and two that lead to them. `centroids` counts those of all levels. A process packs
    its first list into new pages, and its other lists into pages that have become free. This counts one
    process: how many take part in a build is chance.
    """
    pieces = _pieces(value_bytes)
    links = 0 if in_table else len(pieces)
    vectors = 0 if in_table else rows * sum(_pages(24 + piece) for piece in pieces)
    codes = rows * _pages(40 + aligned(4 * links) + 8 * math.ceil(dimension / 64))
    packed = rows / 32 * _pages(976 + 128 * links + 4 * dimension)
    level = centroids * sum(_pages(16 + piece) for piece in pieces)
    pages = vectors + codes + lists / 2 + packed / lists + level + 3 * lists + _PARALLEL_PAGES
    return math.ceil(pages) * _PAGE


def _pieces(size: int) -> list[int]:
    """The bytes of the pieces that a vector is cut into: one up to 3,840, two to 5,120, then 7,680 each."""
    if size <= 3840:
        return [size]
    if size <= 5120:
        return [size - size // 2, size // 2]
    return [min(7680, size - start) for start in range(0, size, 7680)]


def _pages(size: int) -> float:
    """Pages that a tuple takes on average: several share one, none begins on one and ends on another."""
    size = aligned(size) + 4
    return 1 / (_ROOM // size) if size <= _ROOM else size / _ROOM


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
        if given in ("auto", "scaled"):
            return automatic_lists(rows, is_scaled=given == "scaled")
        lists = given if isinstance(given, list) else [given]
        if not all(type(number) is int and number > 0 for number in lists) or lists != sorted(lists):
            raise PostgresError(
                f"lists is {given}: give auto, scaled, a number, or one for each level, ascending, as"
                " [50, 8000]"
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
