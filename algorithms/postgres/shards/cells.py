"""Which shard has which row, where each shard has a cell: found out once, and kept with the tables.

It is on the server of the first shard, in the schema `ann_benchmarks`. There an interrupted load finds it
again, and every later run, so that the rows lie where it says.
"""

import hashlib
import io
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import psycopg

from ...clustering.cells import FORM, Cells, find_cells, spread
from ...clustering.settings import ClusteringError
from .. import catalog
from ..catalog import SCHEMA
from ..errors import PostgresError
from ..servers import Server

_KEPT = f"""
    CREATE TABLE IF NOT EXISTS {SCHEMA}.shard_cells (
        name text,
        part int4,
        content bytea NOT NULL,
        PRIMARY KEY (name, part)
    )"""
_PART_BYTES = 64 << 20  # of what is kept, in a row of its table


@dataclass(frozen=True)
class CellsOfRows:
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


def cells_of_rows(
    server: Server, rows: Any, mark: str, count: int, metric: str, enter: Callable[[], object]
) -> CellsOfRows:
    """Return the cells of rows as an earlier run has kept them; else find and keep them.

    `mark` identifies the rows. `enter` is called before cells are found. PostgresError says why there are
    none.
    """
    name = f"{FORM} {mark} {count} {metric}"
    with server.explaining("looking for the cells of the rows"), server.connect() as connection:
        catalog.prepare(connection)
        connection.execute(_KEPT)
        if found := _kept(connection, name, rows.shape, count):
            return found
    enter()
    began = time.perf_counter()
    try:
        cells = find_cells(rows, count, metric)
        made = CellsOfRows(cells, spread(rows, cells), time.perf_counter() - began)
    except ClusteringError as error:
        raise PostgresError(
            f"the rows cannot be spread by cells over {count} shards: {error} (use fewer shards, or"
            " --shard-engine client)"
        ) from None
    if 0 in made.sizes:
        raise PostgresError(
            f"shard {made.sizes.index(0) + 1} of {count} would have no rows: use fewer shards"
        )
    least, most = min(made.sizes), max(made.sizes)
    print(f"cells of {count} shards in {made.seconds:.1f} s: {least:,} to {most:,} rows each", flush=True)
    with server.explaining("keeping the cells of the rows"), server.connect() as connection:
        _keep(connection, name, made)
        # Of two runs that have found them at the same time, one has kept its own.
        return _kept(connection, name, rows.shape, count) or made


def _keep(connection: psycopg.Connection[Any], name: str, made: CellsOfRows) -> None:
    file = io.BytesIO()
    np.savez(
        file,
        centroids=made.cells.centroids,
        spherical=made.cells.spherical,
        places=made.places,
        seconds=made.seconds,
    )
    content = file.getbuffer()
    with connection.transaction():
        for part, start in enumerate(range(0, len(content), _PART_BYTES)):
            connection.execute(
                f"INSERT INTO {SCHEMA}.shard_cells VALUES (%s, %s, %b) ON CONFLICT DO NOTHING",
                [name, part, bytes(content[start : start + _PART_BYTES])],
            )


def _kept(
    connection: psycopg.Connection[Any], name: str, shape: tuple[int, int], count: int
) -> CellsOfRows | None:
    """Return what was kept; None where nothing was."""
    cursor = connection.cursor(binary=True)
    parts = cursor.execute(
        f"SELECT content FROM {SCHEMA}.shard_cells WHERE name = %s ORDER BY part", [name]
    ).fetchall()
    if not parts:
        return None
    try:
        with np.load(io.BytesIO(b"".join(part for (part,) in parts))) as kept:
            cells = Cells(kept["centroids"], bool(kept["spherical"]))
            found = CellsOfRows(cells, kept["places"], float(kept["seconds"]))
        is_whole = cells.centroids.shape == (count, shape[1]) and found.places.shape == shape[:1]
        if is_whole and len(found.sizes) == count:
            return found
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        pass
    raise PostgresError(f"{SCHEMA}.shard_cells of shard 1 is damaged: drop that table there")
