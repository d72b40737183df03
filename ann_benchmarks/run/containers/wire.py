"""The messages between run.py and a container, over the container's standard input and output.

Downwards requests, pickled: the container trusts run.py. Upwards messages in JSON,
since run.py does not trust the container, each with the bytes that belong to it, as those of a result file:

    4 bytes, 8 bytes    length of the JSON and of the bytes after it, big-endian
    {"type": "PointDone", "label": ...}
    bytes
"""

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np

from ann_benchmarks.jobs.events import Event, Failure, Finished, Located, PointDone, WorkloadDone
from ann_benchmarks.statistics.intervals import Interval

TERMINAL = "ANN_BENCHMARKS_TERMINAL"  # a variable of containers whose output goes to one
_LENGTHS = struct.Struct(">IQ")
_LONGEST = 2**26  # bytes of JSON
_LARGEST = 2**31  # bytes attached to it


_MESSAGES = {kind.__name__: kind for kind in (*get_args(Event), Finished, Failure, Located)}


def write_request(request: Any) -> bytes:
    """Return a request as bytes."""
    content = pickle.dumps(request)
    return struct.pack(">I", len(content)) + content


def read_request(read: Callable[[int], bytes]) -> Any:
    """Read a request by what returns that many bytes, or fewer at the end; EOFError at the end."""
    (length,) = struct.unpack(">I", _exactly(read, 4))
    return pickle.loads(_exactly(read, length))


def write_message(message: Any, attachment: bytes = b"") -> bytes:
    """Return a message as bytes."""
    values = {part.name: getattr(message, part.name) for part in fields(message)}
    content = json.dumps({"type": type(message).__name__, **values}, default=_plain).encode()
    return _LENGTHS.pack(len(content), len(attachment)) + content + attachment


class MessageReader:
    """Puts messages together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Take some bytes; yield each message that is whole now, and what is attached to it.

        ValueError when they are not messages of this project.
        """
        self._pending += data
        while len(self._pending) >= _LENGTHS.size:
            length, attached = _LENGTHS.unpack_from(self._pending)
            if length > _LONGEST or attached > _LARGEST:
                raise ValueError("a message is too long")
            end = _LENGTHS.size + length
            if len(self._pending) < end + attached:
                return
            message = _message(bytes(self._pending[_LENGTHS.size : end]))
            attachment = bytes(self._pending[end : end + attached])
            del self._pending[: end + attached]
            yield message, attachment


def _message(content: bytes) -> Any:
    try:
        values = json.loads(content)
        kind = _MESSAGES[values.pop("type")]
        if kind in (PointDone, WorkloadDone):
            values["path"] = Path(values["path"])
        if kind is PointDone:
            for name in ("recall_interval", "qps_interval"):
                values[name] = values[name] and Interval(*map(float, values[name]))
        message = kind(**values)
        for part in fields(kind):
            if not _is_kind(getattr(message, part.name), part.type):
                raise ValueError(f"{part.name} must be {part.type}")
        return message
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a message cannot be read: {error}") from None


def _is_kind(value: Any, kind: Any) -> bool:
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    kinds = [get_origin(choice) or choice for choice in choices]
    return isinstance(value, tuple(kinds)) or (float in kinds and type(value) is int)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _exactly(read: Callable[[int], bytes], length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        if not (piece := read(length - len(content))):
            raise EOFError
        content += piece
    return bytes(content)
