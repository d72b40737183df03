"""How far a base backup has come."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from tqdm import tqdm

from ..errors import PostgresError
from .base import Server

_POLL_SECONDS = 0.5
_SIZE = "SELECT sum(pg_database_size(oid))::int8 FROM pg_database"
_SENT = "SELECT sum(backup_streamed)::int8 FROM pg_stat_progress_basebackup"


def cluster_bytes(server: Server) -> int:
    """Return about how much a copy of a server takes: all of its databases."""
    with server.connect() as connection:
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def backup_bar(server: Server, size: int) -> Iterator[None]:
    """Show how much of about `size` bytes the base backup of a server has copied; on a terminal only."""
    bar = tqdm(total=size, desc="copying", unit="B", unit_scale=True, disable=None, delay=1, leave=False)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(server, bar, done), daemon=True)
    try:
        if not bar.disable:
            watcher.start()
        yield
    finally:
        done.set()
        if watcher.ident is not None:
            watcher.join()
        bar.close()


def _watch(server: Server, bar: "tqdm[Any]", done: threading.Event) -> None:
    try:
        with server.connect() as connection:
            while not done.wait(_POLL_SECONDS):
                row = connection.execute(_SENT).fetchone()
                if row is not None and row[0] is not None:
                    bar.update(row[0] - bar.n)
    except (psycopg.Error, PostgresError):
        return  # pg_basebackup itself reports what is wrong
