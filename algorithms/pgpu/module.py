"""VectorChord's index with centroids that the extension pgpu computes by k-means on the GPU of the server.

The arguments of its function differ between versions, and are read from the server's catalog.
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.types.numeric import Int4

from ..postgres.arguments import whole_number
from ..postgres.errors import PostgresError, refusal
from ..postgres.servers import Server
from ..postgres.servers.extension import check_available, create_extension
from ..vchord.arguments import ARGUMENTS, VchordArguments
from ..vchord.centroids import CentroidSource, Connection, Facts, Shape, require_levels
from ..vchord.module import VectorChord

EXTENSION = "pgpu"
FUNCTION = "create_vector_index_on_gpu"
OPERATORS = {"euclidean": "l2", "angular": "cos", "ip": "ip"}
# The largest of each: pgpu takes them as 8 bytes, and panics where they do not fit its own variables.
NUMBERS = {"sampling_factor": 2**32 - 1, "batch_size": 2**63 - 1}
NUMBERS |= dict.fromkeys(("kmeans_iterations", "kmeans_nredo"), 2**31 - 1)
FEWEST_LISTS = 3
ROWS_A_LIST = 500  # for fewer rows than VectorChord advises lists for
SAMPLING_FACTOR, BATCH_SIZE = 256, 100_000  # unless they are given
COMPARED_ROWS = 10_000  # of those that are sampled, and of all
UNLIKE = 10  # times the squared distance of the means of two random samples, on average
# From the vectors, and how the function is called.
_FOLLOW = ("table_name", "column_name", "distance_operator", "skip_index_build", "residual_quantization")
_UNITS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIMES = {
    "clustering_batches_time": r"(?:batches|getting data) finished in ",
    "clustering_time": r"clustering all samples finished in ",
}
# What these words in a message mean.
_HINTS = {
    'type is not "vector"': "the schema of the extension vector must be on the user's search_path",
    "tensor transformation failed": "the server needs an NVIDIA GPU, its driver and enough of its memory",
}


class PgpuCentroids(CentroidSource):
    """One call of the extension's function, with the arguments that the installed version takes.

    By default, centroids are spherical for angular and ip.
    """

    clustering_options = ("lists", "spherical_centroids", "sampling_factor", "kmeans_iterations")

    def __init__(self, arguments: VchordArguments, own: Mapping[str, Any]) -> None:
        """Take vchord's arguments, and those that only pgpu's function has."""
        super().__init__(arguments)
        shared = [name for name in self.clustering_options if name != "lists" and name in arguments.given]
        self._given = {**own, **{name: arguments.given[name] for name in shared}}

    def prepare(self, server: Server, connection: Connection, lists: list[int], shape: Shape) -> None:
        """Find the function, check that it takes the arguments, and that it has rows enough to sample."""
        require_levels(lists, self.arguments.source)
        check_available(connection, EXTENSION, EXTENSION, server.is_ours)
        create_extension(server, connection, EXTENSION)
        self.lists = lists
        self._schema, self._version, takes = _function(connection)
        for name, value in self._given.items():
            if name not in takes or name in _FOLLOW:
                taken = ["lists", *(other for other in takes if other not in (*_FOLLOW, "lists"))]
                raise PostgresError(f"pgpu {self._version} does not take {name}: it takes {', '.join(taken)}")
            if name in NUMBERS:
                whole_number(name, value, most=NUMBERS[name])
        if lists[-1] < FEWEST_LISTS:
            raise PostgresError(f"pgpu makes {FEWEST_LISTS} lists or more, not {lists[-1]}")
        self._call_with: Facts = {"spherical_centroids": self.arguments.is_spherical, **self._given}
        self._call_with["lists"] = [Int4(number) for number in lists]
        self._call_with["distance_operator"] = OPERATORS[self.arguments.metric]
        self._samples = int(self._call_with.get("sampling_factor", SAMPLING_FACTOR)) * lists[-1]
        if self._samples > shape[0]:
            raise PostgresError(
                f"pgpu samples {self._samples // lists[-1]:,} rows for each of {lists[-1]:,} lists, "
                f"{self._samples:,} rows, but there are {shape[0]:,}: give fewer lists, or a smaller "
                "sampling_factor"
            )
        self.mark = f"pgpu {self._version} {json.dumps(self._call_with, sort_keys=True)}"

    def make_table(self, connection: Connection, table: str, of: str, rows: Any) -> Facts:
        """Have the centroids computed into a table beside `of`; one of that name is replaced.

        A coarse centroid that is nearest to no list is left out, because VectorChord requires the same height
        everywhere.
        """
        facts = self._look_at_sample(rows)
        started = time.perf_counter()
        stated = self._call(connection, of)
        made = f"{of}_centroids"
        if connection.execute("SELECT to_regclass(%s)", [made]).fetchone() == (None,):
            raise PostgresError(f"pgpu {self._version} has made no centroids: see its warnings")
        if len(self.lists) > 1:
            connection.execute(
                f"DELETE FROM {made} AS coarse WHERE parent = 0"
                f" AND NOT EXISTS (SELECT FROM {made} WHERE parent = coarse.id)"
            )
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"ALTER TABLE {made} RENAME TO {table.rpartition('.')[2]}")
        return facts | {"clustering_time": time.perf_counter() - started} | stated

    def _look_at_sample(self, rows: Any) -> Facts:
        """Return facts of the sample; warn where its rows, the first ones, are unlike the others."""
        if self._call_with.get("random_sampling"):
            return {"clustering_sample": "random rows"}
        shift = first_rows_shift(rows, self._samples)
        if shift > UNLIKE:
            away = f"their mean is {shift**0.5:,.1f} times as far away as expected by chance"
            first = f"warning: the first {self._samples:,} rows, which pgpu samples, are unlike the others"
            print(f"{first} ({away}): shuffle the dataset, or expect a lower recall", flush=True)
        return {"clustering_sample": "first rows", "clustering_sample_shift": shift}

    def _call(self, connection: Connection, table: str) -> Facts:
        facts: Facts = {"clustering_device": f"pgpu {self._version}"}
        if len(self.lists) > 1 or self._samples > self._call_with.get("batch_size", BATCH_SIZE):
            facts["clustering_consolidation"] = "l2"  # whatever the operator is

        def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
            facts.update(stated_times(diagnostic.message_primary or ""))

        place = {"table_name": table, "column_name": "embedding", "skip_index_build": True}
        arguments = {**self._call_with, **place}
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
        )
        call = sql.SQL("SELECT {}({})").format(sql.Identifier(self._schema, FUNCTION), named)
        connection.add_notice_handler(keep)
        try:
            connection.execute(call, arguments)
        except (psycopg.OperationalError, psycopg.errors.QueryCanceled):
            raise
        except psycopg.DatabaseError as error:
            if error.sqlstate is None:
                raise  # the connection is lost
            raise self._refusal(error) from None
        finally:
            connection.remove_notice_handler(keep)
        return facts

    def _refusal(self, error: psycopg.Error) -> PostgresError:
        refused = refusal(f"pgpu {self._version} gives up", error)
        hints = [hint for words, hint in _HINTS.items() if words in str(refused)]
        return PostgresError(f"{refused} ({hints[0]})") if hints else refused


class PGPU(VectorChord):
    """IVF-RaBitQ, clustered on a GPU: the extension computes the centroids, and CREATE INDEX follows."""

    extension = EXTENSION
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


def first_rows_shift(rows: Any, count: int) -> float:
    """Return how far the mean of the first rows is from that of all, squared; 1 is expected by chance."""
    size = min(COMPARED_ROWS, count)
    drawn = np.random.default_rng(0).choice(rows.shape[0], size, replace=False)
    numbers = (np.linspace(0, count - 1, size).astype(int), np.sort(drawn))
    first, every = (np.concatenate([rows[n : n + 1] for n in some.tolist()], dtype=float) for some in numbers)
    distance = ((first.mean(axis=0) - every.mean(axis=0)) ** 2).sum()
    expected = 2 / size * every.var(axis=0).sum()
    return float(distance / expected) if expected > 0 else float(distance > 0)


def stated_times(message: str) -> dict[str, float]:
    """Return the times in s that a message states; Rust writes them as 1.23s, 45.60ms or 123.40µs."""
    return {
        name: float(match[1]) * _UNITS[match[2]]
        for name, words in _TIMES.items()
        if (match := re.search(rf"{words}([\d.]+)\s*({'|'.join(_UNITS)})\b", message))
    }


def _function(connection: psycopg.Connection[Any]) -> tuple[str, str, list[str]]:
    """The function's schema, the extension's version, and the names of the arguments."""
    row = connection.execute(
        "SELECT nspname, extversion, proargnames[:pronargs] FROM pg_extension"
        " LEFT JOIN (pg_depend JOIN pg_proc ON pg_proc.oid = objid AND proname = %s"
        "  JOIN pg_namespace ON pg_namespace.oid = pronamespace)"
        " ON refobjid = pg_extension.oid AND classid = 'pg_proc'::regclass AND deptype = 'e'"
        " WHERE extname = %s ORDER BY pronargs DESC NULLS LAST LIMIT 1",
        [FUNCTION, EXTENSION],
    ).fetchone()
    assert row is not None
    schema, version, names = row
    if not names:
        raise PostgresError(f"pgpu {version} has no function {FUNCTION}: install a version that has it")
    return schema, version, names
