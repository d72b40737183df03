"""Many results read quickly: by forks of this process, and those that were read before from one file.

The file holds the metrics of a dataset's results, and lies next to them.
"""

import hashlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from ann_benchmarks.common.command import begin_fork, signals_wait
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.text import DAMAGE
from ann_benchmarks.fields import rows, series
from ann_benchmarks.statistics import intervals, percentiles

from . import measurement, metrics
from .file import Stamp

CACHE_NAME = ".metrics-cache.json"  # in results/DATASET/
FORMAT = 2  # to be raised when what an entry holds changes

Item = TypeVar("Item")
Value = TypeVar("Value")


class MetricsCache:
    """Entries by result file of one dataset, valid while it, the true distances and the code stay.

    A cache that cannot be read is empty, and one that cannot be written is not: neither is an error.
    """

    def __init__(self, folder: Path) -> None:
        """Read what results/DATASET/ holds."""
        self.path = folder / CACHE_NAME
        modules = (metrics, measurement, intervals, percentiles, rows, series)
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
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

    def filter_of(self, path: Path, file: Stamp) -> str:
        """Return the filter of a result file with this stamp; "" where none is stored."""
        entry = self.entries.get(str(path))
        with suppress(*DAMAGE):
            if entry is not None and entry["file"] == file:
                return str(entry["value"]["series"]["filter"])
        return ""

    def put(self, path: Path, file: Stamp, truth: Stamp, value: Mapping[str, Any]) -> None:
        """Store the value for a result file; both files must have been settled before they were read."""
        self.entries[str(path)] = {"file": file, "truth": truth, "value": value}
        self.changed = True

    def save(self) -> None:
        """Write the entries of files that still exist, if anything changed and the folder can be written."""
        kept = {path: entry for path, entry in self.entries.items() if os.path.exists(path)}  # noqa: PTH110
        if not self.changed and len(kept) == len(self.entries):
            return
        with suppress(OSError, UserError), atomic_path(self.path) as temporary:
            temporary.write_text(json.dumps({"version": self.version, "entries": kept}))


def each(
    function: Callable[[Item], Value], items: Sequence[Item], processes: int
) -> Generator[Value, None, None]:
    """Yield the function's value of every item, in their order; here, where one process is requested.

    Each of n forks takes every n-th item, and waits when it is 64 KiB of values ahead of what was taken. What
    a fork does not return, because it was killed or the function raised an exception, is computed here.
    """
    pipes: list[Connection | None] = []
    forks: list[int] = []
    try:
        if processes > 1 and sys.platform != "win32":
            for number in range(processes):
                _fork(function, items[number::processes], pipes, forks)
        for number, item in enumerate(items):
            pipe = pipes[number % len(pipes)] if pipes else None
            try:
                value = pipe.recv() if pipe else function(item)
            except (EOFError, OSError):
                if not pipe:
                    raise
                pipe.close()
                pipes[number % len(pipes)] = None
                value = function(item)
            yield value
    finally:
        for pipe in filter(None, pipes):
            pipe.close()
        for fork in forks:
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)


def _fork(
    function: Callable[[Item], object],
    items: Sequence[Item],
    pipes: list[Connection | None],
    forks: list[int],
) -> None:
    ours, theirs = Pipe(duplex=False)
    with warnings.catch_warnings(), signals_wait():
        # Python warns of threads, whose locks nobody releases in a fork: those of the framework hold none,
        # and h5py, whose lock matters here, takes it before a fork and releases it on both sides.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                begin_fork()
                for pipe in [ours, *filter(None, pipes)]:
                    pipe.close()
                for item in items:
                    theirs.send(function(item))
            os._exit(0)
        theirs.close()
        pipes.append(ours)
        forks.append(process)
