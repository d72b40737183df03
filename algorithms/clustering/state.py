"""What an interrupted clustering resumes from."""

import hashlib
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .settings import Settings

SHARE_OF_SAVING = 0.1  # of the time
_GUESSED_SPEED = 200e6  # bytes/s, for the first save
FORM = 1  # changes when the same rows and settings give another result or another state
_IDENTIFYING_ROWS = 64  # by which datasets are distinguished


class ClusteringState:
    """Named arrays in a file of a folder, for one clustering; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        self._file = state_file(folder) if folder else None
        self._identity = identity
        self._started = time.monotonic()
        self._spent, self._last = 0.0, 0.0
        self.values: dict[str, Any] = self._read()
        self._before = float(self.values.get("seconds", 0))

    @property
    def is_kept(self) -> bool:
        """Whether there is a folder to keep it in."""
        return self._file is not None

    @property
    def seconds(self) -> float:
        """Time taken, including that of interrupted runs up to their last save."""
        return self._before + time.monotonic() - self._started

    def save(self, must: bool = False, **values: Any) -> None:
        """Keep these values as well; write all to disk if that does not take too long, or if `must`.

        A list of arrays is saved as one array.
        """
        self.values |= values
        if self._file is None:
            return
        size = sum(_size(value) for value in self.values.values())
        expected = self._last or size / _GUESSED_SPEED
        if not must and self._spent + expected > SHARE_OF_SAVING * (time.monotonic() - self._started):
            return
        began = time.monotonic()
        partial = self._file.with_suffix(".partial")
        with partial.open("wb") as file:
            arrays: dict[str, Any] = {name: _array(value) for name, value in self.values.items()}
            np.savez(file, **{**arrays, "identity": self._identity, "seconds": self.seconds})
        partial.replace(self._file)
        self._last = time.monotonic() - began
        self._spent += self._last

    def remove(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file.with_suffix(".partial").unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        """Return what was saved; nothing if it is damaged, absent or of another clustering."""
        try:
            with np.load(self._file) as saved:  # type: ignore[arg-type]
                if str(saved["identity"]) == self._identity:
                    return {name: saved[name] for name in saved.files if name != "identity"}
        except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile):
            pass
        return {}


def state_file(folder: Path) -> Path:
    """Return where the state is kept."""
    return folder / "clustering.npz"


def _array(value: Any) -> np.ndarray:
    return np.concatenate(value) if isinstance(value, list) else np.asarray(value)


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, list) else np.asarray(value).nbytes


def identity(rows: Any, settings: Settings) -> str:
    """Identify a clustering by the settings, the rows' shape and some of the rows."""
    mark = hashlib.blake2b(digest_size=16)
    numbers = np.linspace(0, rows.shape[0] - 1, _IDENTIFYING_ROWS).astype(np.int64)
    for number in np.unique(numbers).tolist():
        mark.update(np.ascontiguousarray(rows[number : number + 1]).tobytes())
    given = (
        settings.lists, settings.spherical, settings.unit_rows, settings.sampling_factor,
        settings.iterations, settings.algorithm, settings.device, settings.seed,
    )  # fmt: skip
    return f"{FORM} {tuple(rows.shape)} {rows.dtype} {given} {mark.hexdigest()}"
