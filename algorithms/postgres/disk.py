"""Room on the server's disk, and what a relation takes of it."""

from typing import Any

import psycopg

from . import machine
from .environment import OTHER_FOLDER
from .errors import PostgresError
from .servers import Server
from .settings import megabytes


def relation_bytes(connection: psycopg.Connection[Any], name: str) -> int:
    """Size of a table or index by its name with the schema; 0 where it is not there."""
    row = connection.execute("SELECT coalesce(pg_relation_size(to_regclass(%s)), 0)", [name]).fetchone()
    assert row is not None
    return int(row[0])


def check_disk(server: Server, needed: int, what: str) -> None:
    """Refuse to begin what does not fit the disk of a server of ours; `needed` is in bytes."""
    if server.data_folder is None:
        return
    free = machine.free_disk_bytes(server.data_folder)
    if needed > free:
        raise PostgresError(
            f"{what} need {megabytes(needed)}, the disk of {server.data_folder} has {megabytes(free)} left: "
            f"free some, or name {OTHER_FOLDER}, on a larger disk"
        )
