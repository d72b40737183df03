"""Progress: rows sampled, and passes with their inertia."""

from typing import Any

from tqdm import tqdm


class Bars:
    """One bar after the other; None shows them on a terminal only."""

    def __init__(self, progress: bool | None) -> None:
        self._disable = None if progress is None else not progress

    def bar(self, total: int, doing: str, unit: str = " rows") -> "tqdm[Any]":
        """Start a bar, which is gone when it is closed."""
        return tqdm(
            total=total, desc=doing, unit=unit, unit_scale=True, disable=self._disable, delay=1, leave=False
        )
