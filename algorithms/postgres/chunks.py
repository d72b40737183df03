"""Which rows of a table are loaded in one transaction."""

from collections.abc import Iterable
from dataclasses import dataclass

# A load of this size takes two to five minutes. Cutting it up, which makes the server write every row to its
# log, too, costs more than losing so much to an interruption now and then.
_WHOLE_BYTES = 32 << 30
# Some seconds each: little is lost by an interruption, and little is said by the one commit and one COPY.
_CHUNK_BYTES = 256 << 20


@dataclass(frozen=True)
class LoadPlan:
    """How a table is loaded."""

    threads: int  # connections
    chunk_rows: int  # rows of a transaction

    def is_whole(self, rows: int) -> bool:
        """Whether one transaction loads all rows."""
        return self.threads == 1 and self.chunk_rows >= rows


def load_plan(rows: int, row_bytes: int, threads: int | None, chunk_rows: int | None) -> LoadPlan:
    """Fill in what the user left open; `row_bytes` are those of a row on its way to the server."""
    threads = threads or 1
    if chunk_rows is None:
        is_whole = threads == 1 and rows * row_bytes <= _WHOLE_BYTES
        share = -(-rows // threads)  # so that each connection has something to do
        chunk_rows = rows if is_whole else min(_CHUNK_BYTES // row_bytes, share)
    return LoadPlan(threads, max(chunk_rows, 1))


def missing_chunks(rows: int, loaded: Iterable[range], chunk_rows: int) -> list[range]:
    """Cut what `loaded`, in order, leaves of the rows into chunks of up to `chunk_rows`."""
    chunks, start = [], 0
    for done in [*loaded, range(rows, rows)]:
        chunks += [range(i, min(i + chunk_rows, done.start)) for i in range(start, done.start, chunk_rows)]
        start = done.stop
    return chunks
