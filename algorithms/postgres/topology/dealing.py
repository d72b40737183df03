"""How rows are dealt to shards: by their numbers, or by cells, so that a query can leave shards out.

Cells are found out once, and kept on the server of the first shard, in the schema `ann_benchmarks`. There an
interrupted load finds them again, and every later run, so that the rows lie where they say.
"""

import hashlib
import io
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import psycopg

from ...clustering.clustering import FORM_OF_CELLS, Cells, find_cells, spread
from ...clustering.settings import METRICS, ClusteringError
from .. import catalog
from ..catalog import SCHEMA
from ..errors import PostgresError
from ..servers import Server
from ..table import Column, VectorColumn, row_of_an_array
from ..table.column import RowEncoder
from .engines import Router

_OTHERS = "use --shard-engine client or fdw"
_KEPT = f"{SCHEMA}.shard_cells"
_KEPT_TABLE = f"""
    CREATE TABLE IF NOT EXISTS {_KEPT} (
        name text, part int4, content bytea NOT NULL, PRIMARY KEY (name, part)
    )"""
_KEPT_BYTES = 64 << 20  # of what is kept, in a row of its table
_ID_BYTES = slice(6, 10)  # of a row of a binary COPY: behind the number of columns and the id's length


def checked_probes(metric: str, count: int, probes: int | None) -> int:
    """Return how many of `count` shards a query asks; PostgresError without cells for that."""
    if metric not in METRICS:
        raise PostgresError(f"cells cannot be formed by {metric} distances: {_OTHERS}")
    if probes is not None and not 1 <= probes <= count:
        raise PostgresError(f"a query cannot be sent to {probes} of {count} shards: use 1 to {count}")
    return count if probes is None else probes


def deal_by_cells(
    X: Any,
    mark: str,
    column: Column,
    place: tuple[int, int],
    metric: str,
    server: Server,
    enter: Callable[[], object],
) -> tuple[Sequence["ShardRows"], Router, dict[str, Any]]:
    """Deal rows, which `mark` identifies, by cells; return those of each shard, a router, and facts.

    `place` is how many shards there are, and probes. `enter` is called before cells are found: the server may
    keep them.
    """
    if not isinstance(column, VectorColumn):
        raise PostgresError(f"cells cannot be formed from the type {column.type_name}: {_OTHERS}")
    count, probes = place
    found = _cells_of_rows(server, X, mark, count, metric, enter)
    whole = f"{mark} {found.mark}"
    rows = [CellRows(X, number, found.places, count, whole) for number in range(count)]
    router = Router(found.cells, probes, column, tuple(found.sizes))
    return rows, router, {"shard_probes": probes, "shard_cells_time": found.seconds}


class ShardRows:
    """The rows `place`, `place` + `count`, `place` + 2 `count` ... of a training set, read by range."""

    def __init__(self, rows: Any, place: int, count: int, mark: str) -> None:
        """Take the training set, rows by range of a fixed length, and what identifies it."""
        self._rows, self._place, self._count, self._mark = rows, place, count, mark
        self.shape = (len(range(place, rows.shape[0], count)), rows.shape[1])
        self.dtype = rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice) -> Any:
        start, stop, step = numbers.indices(len(self))
        if start >= stop or step != 1:
            return self._rows[0:0] if step == 1 else self[:][numbers]
        # What lies between them is read, too: files give a whole range faster than parts of it.
        first, last = self.id_of(start), self.id_of(stop - 1)
        return self._rows[first : last + 1][:: self._count]

    def id_of(self, row: Any) -> Any:
        """Return the number in the training set of a row of the shard, or of an array of them."""
        return self._place + row * self._count

    def row_name(self, row: int) -> str:
        """Name a row of the shard for an error, as the training set does."""
        name: Callable[[int], str] = getattr(self._rows, "row_name", row_of_an_array)
        return name(self.id_of(row))

    def fingerprint(self) -> str:
        """Return what tells these rows from those of other shards, and of other numbers of them."""
        return f"{self._mark} shard {self._place} of {self._count}"

    def numbered(self, encoder: RowEncoder) -> RowEncoder:
        """Return the same encoder, for rows that have their ids in the training set."""
        return NumberedEncoder(encoder, self)


class CellRows(ShardRows):
    """The rows of a training set whose place is that of the shard, read by range."""

    def __init__(self, rows: Any, place: int, places: np.ndarray[Any, Any], count: int, mark: str) -> None:
        """Take the training set, the place of each of its rows, (rows,), and what identifies both."""
        super().__init__(rows, place, count, mark)
        self._places = places
        self.shape = (int(np.count_nonzero(places == place)), rows.shape[1])

    @cached_property
    def _ids(self) -> np.ndarray[Any, Any]:
        return np.flatnonzero(self._places == self._place).astype(np.int32)

    def __getitem__(self, numbers: slice) -> Any:
        return self._rows[self._ids[numbers]]

    def id_of(self, row: Any) -> Any:
        return self._ids[row]

    def fingerprint(self) -> str:
        """Return what tells these rows from those of other shards, and of other cells."""
        return f"{super().fingerprint()} by cells"


class NumberedEncoder:
    """Rows of a shard as another encoder makes them, with the ids of the training set in them."""

    def __init__(self, encoder: RowEncoder, rows: ShardRows) -> None:
        """Take an encoder that gives every row the same number of bytes."""
        self._encoder, self._rows = encoder, rows

    def encode(self, first_id: int, block: Any) -> memoryview:
        """Return the bytes of the rows that begin with this number in the shard."""
        content = self._encoder.encode(first_id, block)
        each = np.frombuffer(content, np.uint8).reshape(len(block), -1)
        ids = self._rows.id_of(np.arange(first_id, first_id + len(block))).astype(">i4")
        each[:, _ID_BYTES] = ids.view(np.uint8).reshape(-1, 4)
        return content

    def rows(self, first_id: int, block: Any) -> list[Any]:
        """Return the bytes of each row by itself."""
        content = self.encode(first_id, block)
        size = len(content) // max(len(block), 1)
        return [content[start : start + size] for start in range(0, len(content), size)]


@dataclass(frozen=True)
class _CellsOfRows:
    """The cells of all shards, the place of each row among them, (rows,), and the seconds this has taken."""

    cells: Cells
    places: np.ndarray[Any, Any]
    seconds: float

    @cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each shard."""
        sizes: list[int] = np.bincount(self.places, minlength=len(self.cells)).tolist()
        return sizes

    @cached_property
    def mark(self) -> str:
        """What identifies them, by what they are and not by what they were made from."""
        digest = hashlib.blake2b(self.places.data, digest_size=16)
        digest.update(self.cells.centroids.data)
        return digest.hexdigest()


def _cells_of_rows(
    server: Server, rows: Any, mark: str, count: int, metric: str, enter: Callable[[], object]
) -> _CellsOfRows:
    """Return the cells of rows as an earlier run has kept them; else find and keep them."""
    name = f"{FORM_OF_CELLS} {mark} {count} {metric}"
    with server.explaining("looking for the cells of the rows"), server.connect() as connection:
        catalog.prepare(connection)
        connection.execute(_KEPT_TABLE)
        if found := _kept(connection, name, rows.shape, count):
            return found
    enter()
    began = time.perf_counter()
    try:
        cells = find_cells(rows, count, metric)
        made = _CellsOfRows(cells, spread(rows, cells), time.perf_counter() - began)
    except ClusteringError as error:
        raise PostgresError(
            f"the rows cannot be spread by cells over {count} shards: {error} (use fewer shards, or"
            " --shard-engine client)"
        ) from None
    if 0 in made.sizes:
        number = made.sizes.index(0) + 1
        raise PostgresError(f"shard {number} of {count} would have no rows: use fewer shards")
    least, most = min(made.sizes), max(made.sizes)
    print(f"cells of {count} shards in {made.seconds:.1f} s: {least:,} to {most:,} rows each", flush=True)
    with server.explaining("keeping the cells of the rows"), server.connect() as connection:
        _keep(connection, name, made)
        # Of two runs that have found them at the same time, one has kept its own.
        return _kept(connection, name, rows.shape, count) or made


def _keep(connection: psycopg.Connection[Any], name: str, made: _CellsOfRows) -> None:
    file, cells = io.BytesIO(), made.cells
    np.savez(
        file,
        centroids=cells.centroids,
        spherical=cells.spherical,
        places=made.places,
        seconds=made.seconds,
    )
    content = file.getbuffer()
    with connection.transaction():
        for part, start in enumerate(range(0, len(content), _KEPT_BYTES)):
            connection.execute(
                f"INSERT INTO {_KEPT} VALUES (%s, %s, %b) ON CONFLICT DO NOTHING",
                [name, part, bytes(content[start : start + _KEPT_BYTES])],
            )


def _kept(
    connection: psycopg.Connection[Any], name: str, shape: tuple[int, int], count: int
) -> _CellsOfRows | None:
    """Return what was kept; None where nothing was."""
    parts = (
        connection.cursor(binary=True)
        .execute(f"SELECT content FROM {_KEPT} WHERE name = %s ORDER BY part", [name])
        .fetchall()
    )
    if not parts:
        return None
    try:
        with np.load(io.BytesIO(b"".join(part for (part,) in parts))) as kept:
            cells = Cells(kept["centroids"], bool(kept["spherical"]))
            found = _CellsOfRows(cells, kept["places"], float(kept["seconds"]))
        is_whole = cells.centroids.shape == (count, shape[1]) and found.places.shape == shape[:1]
        if is_whole and len(found.sizes) == count:
            return found
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        pass
    raise PostgresError(f"{_KEPT} of shard 1 is damaged: drop that table there")
