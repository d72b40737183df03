"""The k-means of the extension pgpu, on the GPU of the server.

The arguments of its function differ between versions: 1.0 has one level of lists, as `cluster_count`; later
versions have `lists` and more. They are read from the server's catalog.
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

EXTENSION = "pgpu"
FUNCTION = "create_vector_index_on_gpu"
OPERATORS = {"euclidean": "l2", "angular": "cos", "ip": "ip"}
# The largest of each: pgpu takes them as 8 bytes, and panics where they do not fit its own variables.
NUMBERS = {"sampling_factor": 2**32 - 1, "batch_size": 2**63 - 1}
NUMBERS |= dict.fromkeys(("kmeans_iterations", "kmeans_nredo"), 2**31 - 1)
FEWEST_LISTS = 3
SAMPLING_FACTOR, BATCH_SIZE = 256, 100_000  # unless they are given
COMPARED_ROWS = 10_000  # of those that are sampled, and of all
UNLIKE = 10  # times the squared distance of the means of two random samples, on average
_FOLLOW = ("table_name", "column_name", "cluster_count", "distance_operator")  # from the vectors and lists
_UNITS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIMES = {
    "clustering_batches_time": r"(?:batches|getting data) finished in ",
    "clustering_time": r"(?:clustering all samples finished in |Training complete \()",
}
# What these words in a message mean: VectorChord's if a coarse centroid has no list, and pgpu's.
_HINTS = {
    "external build: two heights": "one of the {coarse:,} coarse centroids has no list: give fewer of them,"
    " or skip_index_build: true, which leaves it out",
    'type is not "vector"': "the schema of the extension vector must be on the user's search_path",
    "tensor transformation failed": "the server needs an NVIDIA GPU, its driver and enough of its memory",
}


class ClusteringOnGpu:
    """One call of the extension's function, with the arguments that the installed version takes."""

    def __init__(
        self,
        server: Server,
        connection: psycopg.Connection[Any],
        metric: str,
        lists: list[int],
        given: Mapping[str, Any],
    ) -> None:
        """Find the function, and check that it takes the arguments `given`, by the function's names.

        `lists` has one level or two, the coarsest first. By default, centroids are spherical for angular and
        ip, and samples are random, where the version has the choice. PostgresError says what the server
        lacks, or what its version does not take.
        """
        check_available(connection, EXTENSION, EXTENSION, server.is_ours)
        create_extension(server, connection, EXTENSION)
        self._connection, self._lists = connection, lists
        self._schema, self.version, self.takes = _function(connection)
        for name in given:
            self._check(name, given[name])
        defaults = {"spherical_centroids": metric in ("angular", "ip"), "random_sampling": True}
        self.arguments = {name: value for name, value in defaults.items() if name in self.takes}
        self.arguments |= given
        self.arguments |= self._lists_argument() | {"distance_operator": OPERATORS[metric]}

    @property
    def mark(self) -> str:
        """What the centroids depend on besides the table, on one line."""
        return f"pgpu {self.version} {json.dumps(self.arguments, sort_keys=True)}"

    def check_rows(self, rows: int) -> None:
        """Raise PostgresError if a table of this many rows has fewer than are sampled."""
        if (samples := self._samples) > rows:
            lists = self._lists[-1]
            raise PostgresError(
                f"pgpu samples {samples // lists:,} rows for each of {lists:,} lists, {samples:,} rows, but "
                f"there are {rows:,}: give fewer lists, or a smaller sampling_factor"
            )

    def look_at_sample(self, rows: Any) -> dict[str, Any]:
        """Return facts of the sample; warn where its rows, the first ones, are unlike the others."""
        if self.arguments.get("random_sampling"):
            return {"clustering_sample": "random rows"}
        shift = first_rows_shift(rows, self._samples)
        if shift > UNLIKE:
            away = f"their mean is {shift**0.5:,.1f} times as far away as expected by chance"
            first = f"warning: the first {self._samples:,} rows, which pgpu samples, are unlike the others"
            print(f"{first} ({away}): shuffle the dataset, or expect a lower recall", flush=True)
        return {"clustering_sample": "first rows", "clustering_sample_shift": shift}

    def centroids(self, into: str, table: str) -> dict[str, Any]:
        """Compute the centroids of a table into another, in the same schema; return facts worth keeping.

        An existing table of that name is replaced. A coarse centroid that is nearest to no list is left out,
        because VectorChord requires the same height everywhere.
        """
        started = time.perf_counter()
        facts = self._call(table, {"skip_index_build": True})
        made = f"{table}_centroids"
        self._must_exist(made, "centroids")
        if len(self._lists) > 1:
            self._connection.execute(
                f"DELETE FROM {made} AS coarse WHERE parent = 0"
                f" AND NOT EXISTS (SELECT FROM {made} WHERE parent = coarse.id)"
            )
        if self._exists(into):
            self._connection.execute(f"DROP TABLE {into}")
        self._connection.execute(f"ALTER TABLE {made} RENAME TO {into.rpartition('.')[2]}")
        return {"clustering_time": time.perf_counter() - started} | facts

    def index(self, table: str, name: str, residual_quantization: bool) -> dict[str, Any]:
        """Have the extension build the index on a table, and give it this name; return facts worth keeping.

        Both names have their schema. The centroids stay in the table TABLE_centroids.
        """
        made = f"{table}_pgpu_ext"
        if self._exists(made):
            self._connection.execute(f"DROP INDEX {made}")  # the extension looks for it on search_path
        residual = {"residual_quantization": residual_quantization}
        facts = self._call(table, residual if "residual_quantization" in self.takes else {})
        self._must_exist(made, "index")
        self._connection.execute(f"ALTER INDEX {made} RENAME TO {name.rpartition('.')[2]}")
        return facts

    @property
    def _samples(self) -> int:
        """How many rows it samples."""
        return int(self.arguments.get("sampling_factor", SAMPLING_FACTOR)) * self._lists[-1]

    def _check(self, name: str, value: Any) -> None:
        if name not in self.takes or name in _FOLLOW:
            taken = ["lists", *(other for other in self.takes if other not in (*_FOLLOW, "lists"))]
            raise PostgresError(f"pgpu {self.version} does not take {name}: it takes {', '.join(taken)}")
        if name in NUMBERS:
            whole_number(name, value, most=NUMBERS[name])

    def _lists_argument(self) -> dict[str, Any]:
        if self._lists[-1] < FEWEST_LISTS:
            raise PostgresError(f"pgpu makes {FEWEST_LISTS} lists or more, not {self._lists[-1]}")
        if "lists" in self.takes:
            return {"lists": [Int4(number) for number in self._lists]}
        if len(self._lists) > 1:
            raise PostgresError(
                f"pgpu {self.version} makes one level of lists, not {self._lists}: "
                f"give lists: {self._lists[-1]}, or install a newer version"
            )
        return {"cluster_count": self._lists[0]}

    def _call(self, table: str, more: Mapping[str, Any]) -> dict[str, Any]:
        facts: dict[str, Any] = {"clustering_device": f"pgpu {self.version}"}
        if len(self._lists) > 1 or self._samples > self.arguments.get("batch_size", BATCH_SIZE):
            facts["clustering_consolidation"] = "l2"  # whatever the operator is

        def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
            facts.update(stated_times(diagnostic.message_primary or ""))

        arguments = {**self.arguments, **more, "table_name": table, "column_name": "embedding"}
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
        )
        call = sql.SQL("SELECT {}({})").format(sql.Identifier(self._schema, FUNCTION), named)
        self._connection.add_notice_handler(keep)
        try:
            self._connection.execute(call, arguments)
        except (psycopg.OperationalError, psycopg.errors.QueryCanceled):
            raise
        except psycopg.DatabaseError as error:
            if error.sqlstate is None:
                raise  # the connection is lost
            raise self._refusal(error) from None
        finally:
            self._connection.remove_notice_handler(keep)
        return facts

    def _refusal(self, error: psycopg.Error) -> PostgresError:
        refused = refusal(f"pgpu {self.version} gives up", error)
        hints = [hint for words, hint in _HINTS.items() if words in str(refused)]
        return PostgresError(f"{refused} ({hints[0].format(coarse=self._lists[0])})") if hints else refused

    def _exists(self, relation: str) -> bool:
        return self._connection.execute("SELECT to_regclass(%s)", [relation]).fetchone() != (None,)

    def _must_exist(self, relation: str, what: str) -> None:
        if not self._exists(relation):
            raise PostgresError(f"pgpu {self.version} has made no {what}: see its warnings")


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
