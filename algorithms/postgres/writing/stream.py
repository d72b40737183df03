"""Changes on their way to the processes that make them, which take them from one stream.

They are records of one size. A record has when it is due (s from the start, NaN: at once), its number, its
kind, and then the parameters of the statement in PostgreSQL's binary formats: an int4 and a vector.
"""

import select
import socket
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from ..columns import FixedColumn

INSERT, UPDATE, DELETE, END = 0, 1, 2, -1
HEAD = struct.Struct("<dqq")
ID_BYTES = 4
_BUFFER_BYTES = 1 << 20  # what we request the socket to hold; the system may allow less
_CHECK_SECONDS = 0.1  # how often the end is noticed while no writer reads
_PIECE = 1 << 16


def record_layout(column: FixedColumn) -> np.dtype[Any]:
    """One record as a NumPy type."""
    return np.dtype(
        [("due", "<f8"), ("number", "<i8"), ("kind", "<i8"), ("id", ">i4"), ("value", column.layout)]
    )


def encoded(changes: Any, first: int, column: FixedColumn) -> memoryview:
    """Return changes as records, numbered from `first` on.

    `changes` has arrays of one length: `due` or None, `kinds`, `ids`, and `vectors`, (n, dimension).
    """
    records = np.zeros(len(changes.ids), dtype=record_layout(column))
    records["due"] = np.nan if changes.due is None else changes.due
    records["number"] = np.arange(first, first + len(records))
    records["kind"] = changes.kinds
    records["id"] = changes.ids
    column.begin(records["value"])
    records["value"]["values"] = column.values_of(changes.vectors)
    return records.view(np.uint8).data


def end_marks(writers: int, column: FixedColumn) -> memoryview:
    """Return a record for each writer, on which it stops."""
    records = np.zeros(writers, dtype=record_layout(column))
    records["kind"] = END
    return records.view(np.uint8).data


class Feed:
    """One end of the stream that all writers read, and a thread that fills it, a run at a time."""

    def __init__(self, ours: socket.socket, theirs: socket.socket, column: FixedColumn, writers: int) -> None:
        """Take both ends: what is left after a run is read here."""
        self._ours, self._theirs, self._column, self._writers = ours, theirs, column, writers
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._is_ending = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, changes: Iterable[Any]) -> None:
        """Begin to hand them over."""
        self._is_ending, self._error = False, None
        self._thread = threading.Thread(target=self._fill, args=(changes,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hand nothing over any more, take back what nobody has taken, and raise what went wrong."""
        if self._thread is None:
            return
        self._is_ending = True
        self._thread.join()
        self._thread = None
        with suppress(BlockingIOError):
            while self._theirs.recv(_PIECE, socket.MSG_DONTWAIT):
                pass
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End it."""
        self._is_ending = True
        if self._thread is not None:
            self._thread.join()
        self._ours.close()
        self._theirs.close()

    def _fill(self, changes: Iterable[Any]) -> None:
        number = 0
        try:
            for block in changes:
                if not self._send(encoded(block, number, self._column)):
                    return
                number += len(block.ids)
        except BaseException as error:
            self._error = error
        self._send(end_marks(self._writers, self._column))

    def _send(self, content: memoryview) -> bool:
        """Send it as fast as it is read; whether that came to an end."""
        while content and not self._is_ending:
            if select.select([], [self._ours], [], _CHECK_SECONDS)[1]:
                with suppress(BlockingIOError):
                    content = content[self._ours.send(content, socket.MSG_DONTWAIT) :]
        return not content
