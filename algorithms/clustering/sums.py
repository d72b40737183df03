"""The sums of the rows of each list, made part by part on the CPU."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .passes import Pass

CHUNK = 8192  # rows of a part


class Part(NamedTuple):
    """What some rows add to the lists that they belong to."""

    rows: int
    lists: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    squares: float


def summed(rows: np.ndarray, labels: np.ndarray, k: int) -> Part:
    """Add up the rows, (some, dimension) float32, that have the same label, of k."""
    order = order_of(labels, k)
    lists = labels[order]
    firsts = np.flatnonzero(np.diff(lists, prepend=-1))
    sums = np.add.reduceat(rows.take(order, axis=0), firsts, axis=0)
    flat = rows.reshape(-1)
    return Part(len(rows), lists[firsts], sums, np.diff(firsts, append=len(rows)), float(np.dot(flat, flat)))


def order_of(labels: np.ndarray, k: int) -> np.ndarray:
    """Return the numbers of rows in the order of their labels, of k."""
    # NumPy sorts two bytes several times as fast as four.
    return np.argsort(labels.astype(np.uint16) if k <= 2**16 else labels, kind="stable")


def added(parts: Iterable[Part], shape: tuple[int, ...], advance: Callable[[int], object]) -> Pass:
    """Add up the parts in their order."""
    sums = np.zeros(shape)
    counts = np.zeros(len(sums), np.int64)
    squares = 0.0
    for part in parts:
        sums[part.lists] += part.sums
        counts[part.lists] += part.counts
        squares += part.squares
        advance(part.rows)
    return Pass(sums, counts, squares)
