"""The progress bar of a load."""

from typing import Any

from tqdm import tqdm


class LoadingBar(tqdm):
    """Rows that were sent, rows/s, MB/s and the time left; on a terminal only, and gone when it is done."""

    def __init__(self, rows: int, there: int, row_bytes: int) -> None:
        """Start at the rows that are there already."""
        self._row_bytes = row_bytes
        super().__init__(
            total=rows, initial=there, desc="loading", unit=" rows", unit_scale=True,
            disable=None, delay=1, leave=False,
        )  # fmt: skip

    @property
    def format_dict(self) -> dict[str, Any]:
        """What a display is made of: tqdm's own, and MB/s."""
        shown = dict(super().format_dict)
        rate = shown["rate"] or (shown["n"] - shown["initial"]) / max(shown["elapsed"], 1e-9)
        return shown | {"postfix": f"{rate * self._row_bytes / 1e6:.0f} MB/s"}
