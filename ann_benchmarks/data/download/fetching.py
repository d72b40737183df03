"""Fetch files, several at a time, and go on after failures."""

import queue
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.files import disk_errors, require_space

from .partial import DownloadRequest, Partial, byte_bar
from .server import (
    IgnoresRanges,
    Refused,
    Remote,
    Session,
    Temporary,
    TooSlow,
    inquire,
    read_all,
    read_part,
    start_aside,
)

ATTEMPTS = 5  # in a row that bring nothing new
LEAST_PROGRESS = 1000  # bytes that count as something new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
GRACE = 2.0  # seconds in which connections close their files when a run ends early
LEAST_EXPLAINED = 4.0  # seconds of a pause that the user should know about


def fetch_files(files: Sequence[DownloadRequest], connections: int, hint: str) -> None:
    """Carry out fetch()."""
    missing = [file for file in {file.path: file for file in files}.values() if not file.path.exists()]
    if not missing:
        return
    for folder in {file.path.parent for file in missing}:
        require_space(folder, 0)  # makes it
    others = f" and {len(missing) - 1:,} other files" if len(missing) > 1 else ""
    print(f"downloading {missing[0].url}{others}", file=sys.stderr)
    tasks = [FileTask(file, hint) for file in missing]
    _work_off([task.inquire for task in tasks], connections)
    needs: Counter[Path] = Counter()
    for task in tasks:
        needs[task.request.path.parent] += max((task.length or 0) - task.partial.kept(), 0)
    for folder in needs:  # several folders may lie on one disk
        device = folder.stat().st_dev
        require_space(folder, sum(needs[other] for other in needs if other.stat().st_dev == device))
    lengths = [task.length for task in tasks]
    total = None if None in lengths else sum(length or 0 for length in lengths)
    name = missing[0].path.name if len(missing) == 1 else f"{len(missing):,} files"
    with byte_bar(total, name) as bar:
        _work_off([partial(task.fetch, bar) for task in tasks], connections)


class Abandoned(Exception):
    """Another file has failed, or the user has interrupted the run."""


Job = Callable[[Session, threading.Event], None]


def _work_off(jobs: Sequence[Job], connections: int) -> None:
    """Run jobs on all connections until all are done; when one fails, the event ends the others."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    outcomes: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        with Session() as session:
            while not stop.is_set():
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                job(session, stop)

    threads = [start_aside(work, outcomes) for _ in range(max(1, min(connections, len(jobs))))]
    try:
        for _ in threads:
            if isinstance(error := outcomes.get(), BaseException):
                raise error
    finally:
        stop.set()
        until = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


class FileTask:
    """A file on its way; `hint` says what else the user can do without it."""

    def __init__(self, request: DownloadRequest, hint: str) -> None:
        self.request, self._hint = request, hint
        self.partial = Partial(request)
        self.remote = Remote(None, "")

    @property
    def length(self) -> int | None:
        """Bytes that will be on disk, if known."""
        return self.remote.total if self.request.first_bytes is None else self.request.first_bytes

    def most(self) -> int:
        """Return the bytes that may arrive in one piece: half of the disk's room where nobody knows."""
        known = self.request.size if self.request.size is not None else self.length
        return known if known is not None else shutil.disk_usage(self.request.path.parent).free // 2

    def inquire(self, session: Session, stop: threading.Event) -> None:
        """Ask the server what it has."""

        def attempt() -> None:
            self.remote = inquire(session, self.request.url)
            if not self.remote.validator and self.partial.kept():
                # A page of some proxy, more likely than not: no reason to lose what has arrived.
                raise Temporary(
                    "the server no longer sends parts of the file"
                    f" (delete {self.request.journal} to start again)"
                )

        self._persist(attempt, stop)
        self._check_size(self.remote.total)

    def fetch(self, bar: "tqdm[None]", session: Session, stop: threading.Event) -> None:
        """Have the file, unless another run has it first."""
        with disk_errors(self.request.partial):
            if not self.partial.acquire():
                bar.update(self.length or 0)
                return
            try:
                self._fetch(bar, session, stop)
            finally:
                self.partial.close()

    def _fetch(self, bar: "tqdm[None]", session: Session, stop: threading.Event) -> None:
        first, url, remote = self.request.first_bytes, self.request.url, self.remote
        self.partial.begin(remote)
        bar.update(self.partial.position)

        def fetch_rest() -> None:
            length = self.length or 0
            while self.partial.position < length:
                chunks = read_part(session, url, remote, self.partial.position, length)
                self._take(chunks, length, stop, bar)

        def fetch_whole() -> None:
            bar.update(-self.partial.position)
            self.partial.restart()
            self._take(read_all(session, url, first), self.most(), stop, bar)

        has_parts = bool(remote.validator)
        if has_parts:
            try:
                self._persist(fetch_rest, stop)
            except IgnoresRanges:
                has_parts = False
        if not has_parts:
            self._persist(fetch_whole, stop)
            if first is None or self.partial.position < first:
                self._check_size(self.partial.position)
        try:
            self.partial.name()
        except UserError as error:
            if self.request.partial.exists():
                raise
            raise self.failure(f"what arrived {error}", "try again") from None

    def _take(self, chunks: Iterator[bytes], most: int, stop: threading.Event, bar: "tqdm[None]") -> None:
        for chunk in chunks:
            if stop.is_set():
                raise Abandoned
            if self.partial.position + len(chunk) > most:
                raise self.failure(f"the server's file has more than {most:,} bytes", "try again")
            self.partial.write(chunk)
            bar.update(len(chunk))

    def _check_size(self, total: int | None) -> None:
        """Raise UserError where the server's file has another number of bytes than was expected."""
        size, first = self.request.size, self.request.first_bytes
        if total is not None and size not in (None, total):
            raise self.failure(f"the server's file has {total:,} bytes instead of {size:,}", "try again")
        if total is not None and first is not None and total < first:
            reason = f"the server's file has {total:,} bytes, fewer than the {first:,} requested"
            raise self.failure(reason, "try again")

    def _persist(self, attempt: Callable[[], None], stop: threading.Event) -> None:
        """Try until it succeeds, or ATTEMPTS in a row got no further than those before."""
        best, failures = self.partial.position, 0
        while True:
            try:
                return attempt()
            except Refused as refused:
                save = f"save the file as {self.request.path} yourself"
                raise self.failure(str(refused), save) from None
            except IgnoresRanges:
                if not self.partial.position:
                    raise
                reason, pause, is_slow = "the server sends the whole file, not the part requested", 0.0, False
            except Temporary as error:
                reason, pause, is_slow = str(error), error.pause, isinstance(error, TooSlow)
            position = self.partial.position
            failures = 1 if position - best >= LEAST_PROGRESS and not is_slow else failures + 1
            best = max(best, position)
            if failures == ATTEMPTS:
                raise self.failure(reason, "run again to go on from what has arrived")
            pause = max(FIRST_PAUSE * 2 ** (failures - 1), pause)
            if pause >= LEAST_EXPLAINED:
                line = f"{self.request.path.name}: {reason}; trying again in {pause:.0f} s"
                tqdm.write(one_line(line), file=sys.stderr)
            if stop.wait(pause):
                raise Abandoned

    def failure(self, reason: str, advice: str) -> UserError:
        """Return the error that ends the download, with what the user can do."""
        advice += f", or {self._hint}" if self._hint else ""
        return UserError(f"cannot download {self.request.url}: {reason}; {advice}")
