"""VectorChord's IVF-RaBitQ index, access method vchordrq."""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ..clustering.settings import DEVICES
from ..postgres.arguments import named, one_of, whole_number
from ..postgres.catalog import side_table
from ..postgres.errors import PostgresError
from ..postgres.module import Index, PostgresANN, SearchRange
from ..postgres.settings import size_text
from .arguments import BUILD_OPTIONS, INDEX_OPTIONS, VchordArguments, index_bytes, vchord_form
from .centroids import (
    SOURCES,
    TABLE,
    CentroidSource,
    ComputedCentroids,
    InternalCentroids,
    let_owner_read,
)

COARSER = 3  # the search for a recall looks into this many times fewer lists on each coarser level
READS = ("read_buffer", "prefetch_buffer", "read_stream")  # the last since PostgreSQL 17
EPSILONS = [tenth / 10 for tenth in range(41)]  # VectorChord takes 0 to 4


class VectorChord(PostgresANN):
    """IVF-RaBitQ: a query looks into `probes` lists of each level and re-ranks what passes `epsilon`."""

    extension = "vchord"
    library = "vchord"
    version_names: ClassVar[Mapping[str, str]] = {"vchord": "VectorChord"}

    def __init__(self, metric: str, method_param: dict[str, Any] | None = None) -> None:
        """Take the metric and the build arguments by VectorChord's names, all of them optional."""
        super().__init__(metric)
        self.arguments = VchordArguments(method_param, metric)
        self.use_attribute_index(self.arguments["attribute_index"])
        self.source = self.source_of_centroids()
        self.lists: list[int] | None = None  # on each level, known in fit
        self._given, self._query = self.arguments.given, "probes=None"

    def source_of_centroids(self) -> CentroidSource:
        """Return the source that the argument `centroids` names."""
        name = self.arguments.source
        if name == "internal":
            return InternalCentroids(self.arguments)
        if name in DEVICES:
            return ComputedCentroids(self.arguments)
        raise PostgresError(f"centroids: {name} is unknown: use one of {', '.join(SOURCES)}")

    def index(self, rows: int, dimension: int) -> Index:
        """Return the index; its lists are given, or VectorChord's advice."""
        form = vchord_form(self.arguments["form"], self.metric, dimension, self.versions["vchord"])
        self.source.prepare(self.server, self.connection, self.lists_for(rows), (rows, dimension))
        self.lists = self.source.lists
        leaves = self.lists[-1] if self.lists else 1
        if leaves > rows:
            raise PostgresError(f"{leaves:,} lists for {rows:,} rows: give fewer, or lists: auto")
        in_table = bool(self.arguments["rerank_in_table"])
        options = self._options()
        kind = f"for lists {self.lists}" if self.lists else "without lists"
        disk = index_bytes(rows, dimension, leaves, sum(self.lists) + 1, form.value_bytes - 8, in_table)
        return Index(
            method="vchordrq",
            form=form,
            options={"options": f"$${options}$$"},
            disk_bytes=disk,
            is_whole=TABLE not in options,
            estimate=f"estimate {kind}: {size_text(disk)} on disk",
        )

    def lists_for(self, rows: int) -> list[int]:
        """Return the number of lists of each level."""
        return self.arguments.lists(rows)

    def learns_from_rows(self, rows: int) -> bool:
        """Whether there are lists, whose centroids are computed."""
        return bool(self.lists_for(rows))

    def create_index(self, statement: str, name: str, table: str) -> dict[str, Any]:
        """Create the index, after the table of its centroids if VectorChord does not compute them."""
        into = side_table(name)
        facts = self.source.make_table(self.connection, into, table, self.training_set)
        if facts is None:
            return super().create_index(statement, name, table)
        let_owner_read(self.connection, into, table)
        return facts | super().create_index(statement.replace(TABLE, into), name, table)

    def note_of_build(self, notice: str, seconds: float) -> dict[str, Any]:
        """Keep the time from the clustering's first message, before rows are sampled, to its last one."""
        if not notice.startswith("clustering:"):
            return {}
        if "estimated memory" in notice:
            self._clustering_began = seconds
            return {"clustering_memory": notice.rpartition(" is ")[2]}
        return {"clustering_time": seconds - self._clustering_began} if "finished" in notice else {}

    def prewarm(self, index: str) -> str:
        """Read the index into shared_buffers, by VectorChord's own function."""
        self.connection.execute("SELECT vchordrq_prewarm(%s::regclass)", [index])
        return "vchordrq_prewarm"

    def search_range(self, count: int) -> SearchRange:
        """Search the probes of the last level, with a third of them on the next coarser one.

        Without lists, a query looks at every code, and epsilon alone decides how many vectors are compared
        whole.
        """
        lists = self.lists or []
        if not lists:
            return SearchRange("epsilon", EPSILONS, lambda epsilon: ["", epsilon])

        def arguments(probes: int) -> list[Any]:
            on_each = [-(-probes // COARSER**above) for above in reversed(range(len(lists)))]
            return [",".join(str(min(most, number)) for most, number in zip(lists, on_each, strict=True))]

        return SearchRange("probes", range(1, lists[-1] + 1), arguments)

    def scanned_share(self) -> float | None:
        """Without lists, every code; else the share of the last level's lists."""
        probes = self.query_settings.get("vchordrq.probes")
        if probes is None or self.lists is None:
            return None
        return int(probes.rpartition(",")[2]) / self.lists[-1] if self.lists else 1.0

    def set_query_arguments(
        self,
        probes: Any,
        epsilon: float = 1.9,
        rerank: int | None = None,
        prefilter: str | None = None,
        max_scan_tuples: int | None = None,
        io_search: str | None = None,
        io_rerank: str | None = None,
    ) -> None:
        """Set how many lists are looked into, one number a level ("40,250"), and the bound `epsilon`.

        The larger `epsilon`, the more vectors are compared whole that their codes had ruled out. `rerank`
        sorts this many of the index's answers by the exact distances in the table. With `prefilter` on, a
        filter is evaluated before a vector is compared whole; a scan ends after `max_scan_tuples` rows. Codes
        are read by `io_search`, whole vectors by `io_rerank`, each one of READS. None: as VectorChord does by
        itself.
        """
        optional: dict[str, Any] = {}
        if prefilter is not None:
            optional["prefilter"] = one_of("prefilter", prefilter, ("on", "off"))
        if max_scan_tuples is not None:
            optional["max_scan_tuples"] = whole_number("max_scan_tuples", max_scan_tuples)
        for name, value in {"io_search": io_search, "io_rerank": io_rerank}.items():
            if value is not None:
                optional[name] = one_of(name, value, READS)
        numbers = [text.strip() for text in str(probes).strip("[]").split(",") if text.strip()]
        if not all(re.fullmatch("[1-9][0-9]*", number) for number in numbers):
            raise PostgresError(
                f"probes is '{probes}': give a number from 1 on for each level, as \"40,250\""
            )
        if self.lists == [] and self.arguments["lists"] == "auto":
            numbers = []  # VectorChord advises no lists for so few rows
        if self.lists is not None and len(numbers) != len(self.lists):
            raise PostgresError(
                f"probes '{probes}' has {len(numbers)} numbers, the index has {len(self.lists)} levels of "
                f"lists {self.lists}: give one for each, the coarsest first"
            )
        if rerank is not None:
            whole_number("rerank", rerank)
        text = ",".join(numbers)
        self._query = named({"probes": text, "epsilon": epsilon, "rerank": rerank, **optional})
        settings = {"probes": text, "epsilon": epsilon, **optional}
        self.set_query_settings({f"vchordrq.{name}": value for name, value in settings.items()}, rerank)

    def __str__(self) -> str:
        arguments = "".join(f"{name}={value}, " for name, value in self._given.items())
        return f"{type(self).__name__}({arguments}{self._query})"

    def _options(self) -> str:
        """Write the options as TOML, in a fixed order: the same index is found again by its text."""
        options = {name: self.arguments[name] for name in INDEX_OPTIONS}
        options |= {f"build.{name}": self.arguments[name] for name in BUILD_OPTIONS}
        options |= self.source.index_options(self.server.is_ours)
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items() if value is not None]
        if self.source.mark:
            lines.append(f"# {self.source.mark}")
        return "\n".join(lines)
