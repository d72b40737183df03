"""Progress bars, quiet when nobody watches."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from tqdm import tqdm

from . import Server

_POLL_SECONDS = 0.5
_PERCENT = re.compile(r" \((\d+) %\)$")  # how VectorChord reports the progress of its clustering
_INDEX = (
    "SELECT phase, tuples_done, tuples_total, blocks_done, blocks_total"
    " FROM pg_stat_progress_create_index WHERE pid = %s"
)


def progress_bar(total: int, doing: str, done: int = 0) -> "tqdm[Any]":
    """Make a bar with rate and time left; it shows on a terminal only, and goes when it is done."""
    return tqdm(
        total=total, initial=done, desc=doing, unit=" rows", unit_scale=True, disable=None, leave=False
    )


@contextmanager
def index_progress(server: Server, backend: int, rows: int) -> Iterator[None]:
    """Show how far the CREATE INDEX of another connection's backend has come, phase by phase."""
    bar = progress_bar(rows, "building index")
    if bar.disable:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(server, backend, bar, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        bar.close()


def _watch(server: Server, backend: int, bar: "tqdm[Any]", done: threading.Event) -> None:
    phase, rows = "", int(bar.total or 0)
    try:
        with server.connect() as connection:
            while not done.wait(_POLL_SECONDS):
                row = connection.execute(_INDEX, [backend]).fetchone()
                if row is None:
                    continue
                name, *counts = row
                percent = _PERCENT.search(name)
                name = _PERCENT.sub("", name)
                share = int(percent[1]) / 100 if percent else _share(rows, *counts)
                if name != phase:
                    phase = name
                    bar.reset()
                    bar.set_description(phase)
                bar.n = int(share * rows)
                bar.refresh()
    except (psycopg.Error, RuntimeError):
        return  # the statement itself reports what is wrong with the server


def _share(rows: int, tuples: int, tuples_total: int, blocks: int, blocks_total: int) -> float:
    """Part of the phase that is done, by tuples if the access method counts them, else by blocks."""
    if tuples:
        return min(tuples / (tuples_total or rows), 1.0)
    return min(blocks / blocks_total, 1.0) if blocks_total else 0.0
