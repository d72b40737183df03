"""Refuse vectors that have no distance: NaN, infinity, and no direction under angular."""

from collections.abc import Callable, Iterator

import numpy as np

from ann_benchmarks.common.errors import UserError

from .rows import Rows, RowsOfOthers

PIECE_BYTES = 2**20  # checked at once: it stays in the processor's cache


def checked(rows: Rows, metric: str = "") -> Rows:
    """Return the same rows; every read of them raises UserError for NaN, infinity or, if angular, zeros."""
    if isinstance(rows, CheckedRows) and rows.metric == metric:
        return rows
    return CheckedRows(rows, metric)


class CheckedRows(RowsOfOthers):
    """Rows that are checked when they are read; the map is not."""

    def __init__(self, rows: Rows, metric: str) -> None:
        super().__init__(rows)
        self.metric = metric

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows that are good."""
        block = self._rows.read(start, stop)
        self._check(block, lambda row: start + row)
        return block

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return rows that are good."""
        block = self._rows.take(numbers)
        self._check(block, lambda row: int(numbers[row]))
        return block

    def _check(self, block: np.ndarray, number: Callable[[int], int]) -> None:
        for start, bad in _bad_rows(block, self.metric == "angular"):
            row = int(np.argmax(bad))
            vector = block[start + row]
            wrong = ~np.isfinite(vector)
            if wrong.any():
                found = f"has {'NaN' if np.isnan(vector).any() else 'infinity'} as number {np.argmax(wrong)}"
                expected = "(from 0) where a finite number is expected"
            else:
                found, expected = "is all zeros", "where angular needs a direction"
            raise UserError(
                f"{self.where(number(start + row))} {found} {expected}; correct or remove the row"
            )


def _bad_rows(block: np.ndarray, angular: bool) -> Iterator[tuple[int, np.ndarray]]:
    """Give (first row, which rows are bad) of each piece that has bad rows."""
    size = max(1, PIECE_BYTES // max(1, block.shape[1] * block.itemsize))
    for start in range(0, len(block), size):
        piece = block[start : start + size]
        if _doubtful(piece, angular):
            bad = ~np.isfinite(piece).all(axis=1)
            if angular:
                bad |= ~piece.any(axis=1)
            if bad.any():
                yield start, bad


def _doubtful(piece: np.ndarray, angular: bool) -> bool:
    """Say in one quick pass whether a row may be bad; squares overflow, or vanish, in good rows too."""
    if piece.dtype.kind != "f":
        return angular
    if piece.dtype.itemsize == 2:  # without arithmetic: processors have little of it for float16
        bits = piece.view(np.uint16)
        return bool((bits & 0x7C00 == 0x7C00).any() or (angular and not (bits & 0x7FFF).any(axis=1).all()))
    with np.errstate(all="ignore"):
        if not angular:
            return not np.isfinite(np.einsum("ij,ij->", piece, piece))
        squares = np.einsum("ij,ij->i", piece, piece)
        return not (np.isfinite(squares) & (squares > 0)).all()
