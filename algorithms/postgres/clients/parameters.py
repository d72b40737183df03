"""The queries of a run as binary parameters, encoded once and shared by all processes."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..columns import Column


def write_parameters(file: int, queries: Any, column: Column) -> None:
    """Write all queries into a file: their number, where each one's bytes end (int64), and the bytes."""
    encode = column.parameter_encoder()
    parameters = [bytes(encode(query)) for query in queries]
    ends = np.cumsum([len(parameter) for parameter in parameters], dtype=np.int64)
    write_all(file, np.concatenate([[len(ends)], ends]).tobytes())
    write_all(file, b"".join(parameters))


def read_parameters(file: int) -> Sequence[tuple[memoryview]]:
    """Return what was written, each as the parameters of a statement; the memory is that of the file."""
    content = np.memmap(f"/dev/fd/{file}", np.uint8, "r")
    count = int(content[:8].view(np.int64)[0])
    ends = content[8 : 8 + 8 * count].view(np.int64).tolist()
    parameters = content.data[8 + 8 * count :]
    return [(parameters[start:end],) for start, end in zip([0, *ends], ends, strict=False)]


def write_all(file: int, content: bytes) -> None:
    """Write the whole of it, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
