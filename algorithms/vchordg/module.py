"""VectorChord's graph index, access method vchordg, which VectorChord calls a preview."""

import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ..postgres.arguments import named, take_arguments, whole_number
from ..postgres.errors import PostgresError
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import aligned, size_text
from ..vchord.arguments import check_form, vchord_form

MOST_CANDIDATES = 65_535  # of a query
ROOM = 8160  # of a page of 8 KiB, for tuples and their line pointers
LARGEST_PIECE = 8000  # bytes of a vector, with the neighbours behind its last piece
# None: left to VectorChord.
OPTIONS = dict.fromkeys(("bits", "m", "alpha", "ef_construction", "beam_construction"))


class VectorChordGraph(PostgresANN):
    """A graph on codes of `bits` per value; the best `ef_search` candidates are compared as whole vectors."""

    extension = "vchord"
    library = "vchord"
    version_names: ClassVar[Mapping[str, str]] = {"vchord": "VectorChord"}

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric and the build arguments by VectorChord's names, all of them optional."""
        super().__init__(metric)
        optional = OPTIONS | {"form": "vector", "attribute_index": "none"}
        self._given = take_arguments("vchordg", method_param or {}, (), optional)
        self.use_attribute_index(self._given["attribute_index"])
        self._form_name = check_form(self._given["form"])
        self._options = {name: self._given[name] for name in OPTIONS if self._given[name] is not None}
        self._m = whole_number("m", self._options.get("m", 32), 1, 512)
        self._bits = whole_number("bits", self._options.get("bits", 2), 1, 2)
        for name in ("ef_construction", "beam_construction"):
            whole_number(name, self._options.get(name, 1), 1, MOST_CANDIDATES)
        alpha = self._options.get("alpha", [1.0])
        if not isinstance(alpha, list) or any(type(value) not in (int, float) for value in alpha):
            raise PostgresError(f"alpha is {alpha!r}: give numbers that ascend from 1.0, as [[1.0, 1.2]]")
        self._query = "ef_search=None"

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index; its options are written as TOML."""
        form = vchord_form(self._form_name, self.metric, dimension, self.versions["vchord"])
        disk = index_bytes(rows, dimension, form.value_bytes - 8, self._m, self._bits)
        options = "\n".join(f"{name} = {json.dumps(value)}" for name, value in self._options.items())
        return Index(
            method="vchordg",
            form=form,
            options={"options": f"$${options}$$"},
            disk_bytes=disk,
            estimate=f"estimate: {size_text(disk)} on disk (VectorChord calls vchordg a preview)",
        )

    def prewarm(self, index: str) -> str:
        """Read the whole index; VectorChord's own function reads the codes alone, into shared_buffers."""
        how = super().prewarm(index)
        self.connection.execute("SELECT vchordg_prewarm(%s::regclass)", [index])
        return " and ".join(filter(None, (how, "vchordg_prewarm")))

    def search_range(self, count: int) -> SearchRange:
        """Search ef_search, from as many candidates as neighbours on."""
        return SearchRange("ef_search", range(count, MOST_CANDIDATES + 1))

    def set_query_arguments(
        self,
        ef_search: int,
        beam_search: int = 1,
        rerank: int | None = None,
        max_scan_tuples: int | None = None,
    ) -> None:
        """Set how many candidates a query keeps, and how many it reads ahead.

        `rerank` sorts this many of the index's answers by the exact distances in the table. A scan ends after
        `max_scan_tuples` rows, however few of them pass a filter; None: as VectorChord does by itself.
        """
        whole_number("ef_search", ef_search, 1, MOST_CANDIDATES)
        whole_number("beam_search", beam_search, 1, MOST_CANDIDATES)
        if rerank is not None:
            whole_number("rerank", rerank)
        settings = {"ef_search": ef_search, "beam_search": beam_search}
        if max_scan_tuples is not None:
            settings["max_scan_tuples"] = whole_number("max_scan_tuples", max_scan_tuples)
        self._query = named({**settings, "rerank": rerank})
        self.set_query_settings({f"vchordg.{name}": value for name, value in settings.items()}, rerank)

    def __str__(self) -> str:
        form = "" if self._form_name == "vector" else f"form={self._form_name}, "
        if self._given["attribute_index"] != "none":
            form += f"attribute_index={self._given['attribute_index']}, "
        arguments = "".join(f"{name}={value}, " for name, value in self._options.items())
        return f"VectorChordGraph({form}{arguments}{self._query})"


def index_bytes(rows: int, dimension: int, value_bytes: int, m: int, bits: int) -> int:
    """Size of the index on disk in bytes, by the layout of its pages.

    A page of codes has 32 bytes, the code and 8 for each piece of the vector, and leads to pages of its own
    with the vectors: 32 bytes, `value_bytes`, 12 for each neighbour.
    """
    neighbours = aligned(12 * m)
    last = min(value_bytes, LARGEST_PIECE - neighbours)
    pieces = [min(LARGEST_PIECE, value_bytes - start) for start in range(last, value_bytes, LARGEST_PIECE)]
    code = 32 + 8 * bits * math.ceil(dimension / 64) + 8 * (len(pieces) + 1)
    full, rest = divmod(rows, on_a_page := ROOM // (code + 4))
    a_row = sum(1 / (ROOM // (36 + aligned(piece))) for piece in [last + neighbours, *pieces])
    pages = full * (1 + math.ceil(on_a_page * a_row)) + (1 + math.ceil(rest * a_row) if rest else 0)
    return (pages + 1) * 8192
