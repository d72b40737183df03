"""Hands changes to writers, ahead of them and no faster than they take them."""

import select
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from .records import encoded, end_marks

_BUFFER_BYTES = 1 << 20  # what we ask of the socket to hold; the system may allow less
_LOOK_UP_SECONDS = 0.1
_PIECE = 1 << 16


class Feed:
    """One end of the stream that all writers read, and a thread that fills it, a run at a time."""

    def __init__(
        self, ours: socket.socket, theirs: socket.socket, layout: np.dtype[Any], writers: int
    ) -> None:
        """Take both ends: what is left after a run is read here."""
        self._ours, self._theirs, self._layout, self._writers = ours, theirs, layout, writers
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
                if not self._send(encoded(block, number, self._layout)):
                    return
                number += len(block.ids)
        except BaseException as error:
            self._error = error
        self._send(end_marks(self._writers, self._layout))

    def _send(self, content: memoryview) -> bool:
        """Send it as fast as it is read; whether that came to an end."""
        while content and not self._is_ending:
            if select.select([], [self._ours], [], _LOOK_UP_SECONDS)[1]:
                with suppress(BlockingIOError):
                    content = content[self._ours.send(content, socket.MSG_DONTWAIT) :]
        return not content
