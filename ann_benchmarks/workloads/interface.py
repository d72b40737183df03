"""What the framework asks of a table that can be written to, and of those who write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Changes:
    """Changes to make, in their order; arrays of one length.

    `due` is in s from the start, ascending, or None for as soon as somebody is free. `kinds` are numbers of
    request.KINDS, `ids` those of the rows, `vectors` (n, dimension) what they get; nobody looks at that of a
    row to delete.
    """

    due: np.ndarray | None
    kinds: np.ndarray
    ids: np.ndarray
    vectors: np.ndarray


class Written(Protocol):
    """What one writer did: as Answers of clients that ask, and whether each change found its row.

    `numbers` are the places of the changes among all that were handed over.
    """

    numbers: np.ndarray
    due: np.ndarray | None
    sent: np.ndarray
    answered: np.ndarray
    done: np.ndarray
    ids: Mapping[int, Any]
    cpu_seconds: float


class Writers(Protocol):
    """So many writers, connected and ready. After an error they have ended and are of no more use."""

    def prepare_changes(self, changes: Iterable[Changes], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, `most` of them at most, until `seconds` s after the start."""

    def run(self, start: float | None = None) -> None:
        """Start all at that moment of perf_counter, and wait until all have come to an end."""

    def count(self) -> int:
        """How many changes are made so far in this run."""

    def written(self) -> Sequence[Written]:
        """Return what each writer did in the last run; to be called once after each."""

    def abort(self) -> None:
        """End them now, from whichever thread."""

    def close(self) -> None:
        """End all of them."""


class Table(Protocol):
    """A table with its index, which is dropped when it is closed."""

    def open_writers(self, writers: int, beside_queries: bool = False) -> Writers:
        """Start so many."""

    def checkpoint(self) -> None:
        """Have the server write all pages, where it is ours."""

    def vacuum(self) -> float:
        """Vacuum table and index; return the seconds."""

    def reindex(self) -> float | None:
        """Build the index anew; return the seconds, None where there is none."""

    def sizes(self) -> dict[str, float]:
        """Return index_size and table_size in KiB."""

    def statistics(self) -> dict[str, Any]:
        """Return what the server counts, such as dead_rows."""

    def close(self) -> None:
        """Drop it."""
