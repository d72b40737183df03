"""The queries of a run as binary parameters, encoded once and shared by all processes."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def write_parameters(file: int, queries: Any, encode: Callable[[Any], tuple[Any, ...]]) -> None:
    """Write the parameters of all queries, which `encode` returns, into a file.

    It has how many parameters a query has, how many there are in all, where the bytes of each end, all of
    them int64, and the bytes.
    """
    parameters = [bytes(value) for query in queries for value in encode(query)]
    ends = np.cumsum([len(parameter) for parameter in parameters], dtype=np.int64)
    of_each = len(parameters) // max(len(queries), 1)
    write_all(file, np.concatenate([[of_each, len(ends)], ends]).tobytes())
    write_all(file, b"".join(parameters))


def read_parameters(file: int) -> Sequence[tuple[memoryview, ...]]:
    """Return what was written, each as the parameters of a statement; the memory is that of the file."""
    content = np.memmap(f"/dev/fd/{file}", np.uint8, "r")
    of_each, count = content[:16].view(np.int64).tolist()
    ends = content[16 : 16 + 8 * count].view(np.int64).tolist()
    whole = content.data[16 + 8 * count :]
    every = iter([whole[start:end] for start, end in zip([0, *ends], ends, strict=False)])
    return [*zip(*[every] * of_each, strict=True)]


def write_all(file: int, content: bytes) -> None:
    """Write the whole of it, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
