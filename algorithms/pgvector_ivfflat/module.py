"""pgvector's IVFFlat index."""

import math
from typing import Any

from ..postgres.arguments import named, one_of, take_arguments, whole_number
from ..postgres.errors import PostgresError
from ..postgres.forms import pgvector_form
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import MIB, aligned, size_text

FORMS = ("vector", "halfvec", "bit_hamming")  # it has no operator class for Jaccard's distance, nor for L1
MOST_LISTS = 32_768
ITERATIVE_SCANS = ("off", "relaxed_order")
RERANKED = 40  # candidates for each neighbour, where recall is searched for


class PGVectorIVFFlat(PostgresANN):
    """IVFFlat: `lists` to build, `probes` of them to search in a query; `form` of the vectors."""

    metrics = (*PostgresANN.metrics, "hamming")

    def __init__(self, metric: str, method_param: dict[str, Any]) -> None:
        """Take the metric and {"lists": a number or "auto", "form": "vector"}.

        `attribute_index` adds indexes of the attributes, which the planner may choose instead.
        """
        super().__init__(metric)
        optional = {"form": "vector", "attribute_index": "none"}
        arguments = take_arguments("pgvector_ivfflat", method_param, ("lists",), optional)
        self._attribute_index = arguments["attribute_index"]
        self.use_attribute_index(self._attribute_index)
        self._lists, self._form_name = arguments["lists"], arguments["form"]
        self._list_count = 1  # known in fit
        self._query = "probes=None"

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index, with the memory that its k-means requests."""
        form = pgvector_form(self._form_name, self.metric, self.column, FORMS)
        lists = automatic_lists(rows)
        if self._lists != "auto":
            lists = whole_number("lists", self._lists, 1, MOST_LISTS)
        self._list_count = lists
        memory, disk = (
            build_bytes(rows, dimension, form.value_bytes, lists),
            index_bytes(rows, form.value_bytes, lists),
        )
        return Index(
            method="ivfflat",
            form=form,
            options={"lists": lists},
            build_memory=round(memory * 1.1) + 64 * MIB,
            disk_bytes=disk,
            estimate=f"estimate of {lists:,} lists: {size_text(memory)} in memory while they are found, "
            f"{size_text(disk)} on disk",
        )

    def learns_from_rows(self, rows: int) -> bool:
        """Made of an empty table, it would have lists that have nothing to do with the rows."""
        return True

    def set_query_arguments(
        self,
        probes: int,
        rerank: int | None = None,
        iterative_scan: str | None = None,
        max_probes: int | None = None,
    ) -> None:
        """Set how many lists a query searches, and how many rows are sorted by their exact distances.

        With an `iterative_scan`, a query that has found too few rows goes on to further lists, up to
        `max_probes` of them. None: as pgvector does by itself.
        """
        scan: dict[str, Any] = {}
        if iterative_scan is not None:
            scan["iterative_scan"] = one_of("iterative_scan", iterative_scan, ITERATIVE_SCANS)
        if max_probes is not None:
            scan["max_probes"] = whole_number("max_probes", max_probes, 1, MOST_LISTS)
        if rerank is None and self._form_name.startswith("bit"):
            raise PostgresError("an index on bits needs a second query argument: how many rows are re-ranked")
        if rerank is not None:
            whole_number("rerank", rerank)
        self._query = named({"probes": probes, "rerank": rerank, **scan})
        settings = {f"ivfflat.{name}": value for name, value in scan.items()}
        self.set_query_settings({"ivfflat.probes": probes, **settings}, rerank)

    def scanned_share(self) -> float | None:
        """Return the share of the lists."""
        probes = self.query_settings.get("ivfflat.probes")
        return None if probes is None else min(int(probes) / self._list_count, 1.0)

    def search_range(self, count: int) -> SearchRange:
        """Search probes; an index on bits re-ranks 40 candidates for each neighbour."""
        rerank = [RERANKED * count] if self._form_name.startswith("bit") else []
        return SearchRange("probes", range(1, self._list_count + 1), lambda probes: [probes, *rerank])

    def __str__(self) -> str:
        form = "" if self._form_name == "vector" else f"form={self._form_name}, "
        if self._attribute_index != "none":
            form += f"attribute_index={self._attribute_index}, "
        return f"PGVectorIVFFlat({form}lists={self._lists}, {self._query})"


def automatic_lists(rows: int) -> int:
    """pgvector's own advice: a thousandth of the rows up to a million of them, their square root beyond."""
    return min(max(rows // 1000 if rows <= 1_000_000 else round(math.sqrt(rows)), 1), MOST_LISTS)


def build_bytes(rows: int, dimension: int, value_bytes: int, lists: int) -> int:
    """Memory that the k-means requests, in bytes; pgvector refuses to exceed maintenance_work_mem.

    50 rows for each list are sampled, 10,000 at least; Elkan's algorithm keeps a bound for each of them and
    each centre, the distances between all centres, and two sets of centres.
    """
    samples = min(max(50 * lists, 10_000), rows)
    bounds = 4 * samples * lists + 8 * samples + 4 * lists * lists + 8 * lists
    return bounds + samples * value_bytes + lists * (2 * value_bytes + 4 * dimension + 4)


def index_bytes(rows: int, value_bytes: int, lists: int) -> int:
    """Size on disk in bytes: a list begins a page of its own, and its last one is half full on average.

    A page of 8 KiB has 8,160 bytes for tuples of 8 bytes, the value, and a line pointer.
    """
    a_page = 8160 // (aligned(8 + value_bytes) + 4) or 1
    pages = max(math.ceil(rows / a_page + lists / 2), lists) + math.ceil(lists / a_page) + 1
    return pages * 8192
