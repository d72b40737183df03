"""The metrics of a dataset's results that were read before, kept in one file next to them."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.foreign import DAMAGE

from . import metrics, series

CACHE_NAME = ".metrics-cache.json"  # in results/DATASET/
FORMAT = 2  # to be raised when what an entry holds changes
SETTLED_NS = 2_000_000_000  # the coarsest time stamps of file systems in use (FAT) are 2 s apart

Stamp = list[str | int]


def file_stamp(path: Path) -> Stamp:
    """Return what changes whenever a file's content does: real path, size, times of change, inode."""
    status = path.stat()
    return [os.path.realpath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def is_settled(*stamps: Stamp) -> bool:
    """Whether a later write is sure to change the stamps: a file this young may change within one tick."""
    return all(time.time_ns() - int(stamp[2]) > SETTLED_NS for stamp in stamps)


class MetricsCache:
    """Entries by result file of one dataset, valid while it, the true distances and the code stay.

    A cache that cannot be read is empty, and one that cannot be written is not: neither is an error.
    """

    def __init__(self, folder: Path) -> None:
        """Read what results/DATASET/ holds."""
        self.path = folder / CACHE_NAME
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in (metrics, series))
        self.version = f"{FORMAT}-{hashlib.sha256(code).hexdigest()}"
        self.entries: dict[str, dict[str, Any]] = self._load()
        self.changed = False

    def _load(self) -> dict[str, dict[str, Any]]:
        with suppress(*DAMAGE):
            content = json.loads(self.path.read_bytes())
            if content["version"] == self.version and isinstance(content["entries"], dict):
                return content["entries"]
        return {}

    def get(self, path: Path, file: Stamp, truth: Stamp) -> Any:
        """Return what was stored for a result file with these stamps, or None."""
        entry = self.entries.get(str(path))
        if isinstance(entry, dict) and entry.get("file") == file and entry.get("truth") == truth:
            return entry.get("value")
        return None

    def put(self, path: Path, file: Stamp, truth: Stamp, value: Mapping[str, Any]) -> None:
        """Store the value for a result file; both files must have been settled before they were read."""
        self.entries[str(path)] = {"file": file, "truth": truth, "value": value}
        self.changed = True

    def save(self) -> None:
        """Write the entries of files that still exist, if anything changed and the folder can be written."""
        kept = {path: entry for path, entry in self.entries.items() if os.path.exists(path)}  # noqa: PTH110
        if not self.changed and len(kept) == len(self.entries):
            return
        with suppress(OSError), atomic_path(self.path) as temporary:
            temporary.write_text(json.dumps({"version": self.version, "entries": kept}))
