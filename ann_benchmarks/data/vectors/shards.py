"""The ids that Parquet files give their rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from .reading import reading

BATCH = 2**16  # ids at once


def shard_ids(paths: Sequence[Path]) -> Iterator[np.ndarray] | None:
    """Give the columns `id` of Parquet files end to end, in blocks of int64; None if there are none."""
    having = [_has_ids(path) for path in paths]
    if not any(having):
        return None
    if not all(having):
        raise UserError(
            f"{paths[having.index(False)]} has no column 'id' of integers, but {paths[having.index(True)]} "
            "has; all shards need one, or none"
        )
    return _ids(paths)


def _has_ids(path: Path) -> bool:
    import pyarrow as pa

    from .parquet import open_file

    with reading(path), open_file(path) as file:
        index = file.schema_arrow.get_field_index("id")
        return index >= 0 and pa.types.is_integer(file.schema_arrow.field(index).type)


def _ids(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    from .parquet import nulls, open_file

    for path in paths:
        start = 0
        with reading(path):
            batches = open_file(path).iter_batches(BATCH, columns=["id"], use_threads=False)
        # Only the reading is guarded: an error of whoever consumes the ids is not this file's.
        while True:
            with reading(path):
                batch = next(batches, None)
            if batch is None:
                break
            column = batch.column(0)
            if column.null_count:
                row = start + int(np.argmax(nulls(column)))
                raise UserError(f"{path}:id row {row} (from 0) is null; every row needs its id")
            yield column.to_numpy(zero_copy_only=False).astype(np.int64)
            start += len(column)
