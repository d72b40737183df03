"""The log of a definition: what its container prints, on the terminal and in a file."""

import codecs
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ann_benchmarks.common.errors import UserError

_LONGEST = 1 << 16  # bytes of a line that are waited for


class Log:
    """Takes what a container prints; of a progress bar, the file keeps the last state alone."""

    def __init__(self, path: Path | None, is_shown: bool) -> None:
        """Write to a file, begun anew (None: to none), and, if `is_shown`, to standard error."""
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("wb", buffering=0)
            except OSError as error:
                raise UserError(f"the log {path} cannot be written: {error.strerror}") from None
        self._is_shown = is_shown
        self._line = b""
        self.last_line = ""  # that says something
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Take some of it."""
        with self._lock:
            if self._is_shown:
                with suppress(OSError):  # nobody reads it any more: the file has it
                    sys.stderr.write(self._decoder.decode(data))
                    sys.stderr.flush()
            *lines, self._line = (self._line + data).split(b"\n")
            self._keep(b"".join(_last_state(line) + b"\n" for line in lines))
            self._line = self._line[self._line.rfind(b"\r", 0, len(self._line) - 1) + 1 :]
            if len(self._line) > _LONGEST:
                self._keep(self._line)
                self._line = b""

    def clear_bar(self) -> None:
        """Make room for a line of our own, where a progress bar may stand."""
        if self._is_shown and terminal_size():
            with self._lock, suppress(OSError):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def close(self) -> None:
        """Write what is left of a line, and close the file."""
        with self._lock:
            if self._file is not None:
                if line := _last_state(self._line):
                    self._keep(line + b"\n")
                self._file.close()
                self._file = None

    def _keep(self, data: bytes) -> None:
        if data.strip():
            self.last_line = data.strip().rpartition(b"\n")[2].decode(errors="replace")
        if self._file is not None and data:
            self._file.write(data)


def _last_state(line: bytes) -> bytes:
    return next((state for state in reversed(line.rstrip(b"\r").split(b"\r")) if state.strip()), b"")


def terminal_size() -> tuple[int, int] | None:
    """(rows, columns) of the terminal that standard error goes to, None if it goes elsewhere."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return None
    return (rows, columns) if rows and columns else None
