"""Fetch files over several connections, segment by segment, and go on after failures."""

import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import requests
from tqdm import tqdm

from ann_benchmarks.common.disk import require_space
from ann_benchmarks.common.errors import UserError

from .journal import DownloadRequest, byte_bar
from .partial import Closed, Partial
from .server import IgnoresRanges, Refused, Remote, Temporary, inquire, read_all, read_part

ATTEMPTS = 5  # in a row that bring nothing new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
WORTH_A_LINE = 4.0  # seconds of a pause that the user should know about

Job = Callable[[requests.Session], None]


def fetch_files(files: Sequence[DownloadRequest], connections: int, hint: str) -> None:
    """Do what `fetch` says."""
    missing = [file for file in {file.path: file for file in files}.values() if not file.path.exists()]
    if not missing:
        return
    for folder in {file.path.parent for file in missing}:
        require_space(folder, 0)
    others = f" and {len(missing) - 1:,} other files" if len(missing) > 1 else ""
    print(f"downloading {missing[0].url}{others}", file=sys.stderr)
    _Fetch(missing, max(1, connections), hint).run()


class _Task:
    """One file: what the server has, what is on disk, and the segments that nobody has begun."""

    def __init__(self, request: DownloadRequest) -> None:
        self.request = request
        self.partial = Partial(request)
        self.remote = Remote(None, "")
        # None in it: a job without a segment, for what comes after the last one.
        self.todo: deque[int | None] | None = None
        self.running = 0
        self.counted = 0  # bytes that the progress bar has seen

    @property
    def length(self) -> int | None:
        """Bytes that will be on disk, if known."""
        return self.remote.total if self.request.first_bytes is None else self.request.first_bytes


class _Fetch:
    def __init__(self, files: list[DownloadRequest], connections: int, hint: str) -> None:
        self._tasks = [_Task(request) for request in files]
        self._connections, self._hint = connections, hint
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._explained_until = 0.0
        self._busy: list[_Task] = []  # files that other runs are downloading

    def run(self) -> None:
        try:
            inquiries = deque(partial(self._inquire, task) for task in self._tasks)
            self._work_off(lambda: inquiries.popleft() if inquiries else None)
            self._require_space()
            lengths = [task.length for task in self._tasks]
            name = self._tasks[0].request.path.name if len(lengths) == 1 else f"{len(lengths):,} files"
            total = None if None in lengths else sum(length or 0 for length in lengths)
            self._bar = byte_bar(total, name, initial=sum(task.counted for task in self._tasks))
            with self._bar:
                self._transfer()
        finally:
            self._stop.set()
            for task in self._tasks:
                task.partial.close()

    def _transfer(self) -> None:
        waiting = self._tasks
        while waiting:
            self._busy, self._queue = [], deque(waiting)
            self._work_off(self._next_job)
            waiting = self._busy
            if waiting:  # no lock is held here, so that two runs never wait for each other
                waiting[0].partial.acquire(wait=True)

    def _work_off(self, take: Callable[[], Job | None]) -> None:
        """Run jobs on all connections until there are none, or one fails."""
        outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def work() -> None:
            try:
                with requests.Session() as session:
                    while not self._stop.is_set():
                        with self._lock:
                            job = take()
                        if job is None:
                            break
                        job(session)
                outcomes.put(None)
            except BaseException as error:
                outcomes.put(error)

        # Daemons: an interrupted run does not wait for a server that is silent.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(self._connections)]
        for thread in threads:
            thread.start()
        for _ in threads:
            error = outcomes.get()
            if error is not None:
                raise error

    def _inquire(self, task: _Task, session: requests.Session) -> None:
        request = task.request

        def attempt() -> None:
            task.remote = inquire(session, request.url)
            arrived = task.partial.arrived_before(task.remote)
            if arrived and not task.remote.validator:
                # A page of some proxy, more likely than not: no reason to lose what has arrived.
                raise Temporary(
                    f"the server no longer sends parts of the file (delete {request.journal} to start again)"
                )
            task.counted = max(arrived, 0)

        self._persist(task, attempt, lambda: 0)
        self._check_size(task, task.remote.total)

    def _check_size(self, task: _Task, total: int | None) -> None:
        size, first = task.request.size, task.request.first_bytes
        if total is not None and size not in (None, total):
            reason = f"the server's file has {total:,} bytes instead of {size:,}"
            raise self._failure(task, reason, "try again")
        if total is not None and first is not None and total < first:
            reason = f"the server's file has {total:,} bytes, fewer than the {first:,} requested"
            raise self._failure(task, reason, "try again")

    def _require_space(self) -> None:
        needs: Counter[int] = Counter()  # by the disk
        folders: dict[int, Path] = {}
        for task in self._tasks:
            device = task.request.path.parent.stat().st_dev
            folders[device] = task.request.path.parent
            needs[device] += max((task.length or 0) - task.counted, 0)
        for device, size in needs.items():
            require_space(folders[device], size)

    def _next_job(self) -> Job | None:
        while self._queue:
            task = self._queue[0]
            if task.todo is None and task.partial.acquire():
                missing = task.partial.begin(task.remote)
                task.todo = deque(missing) if missing else deque([None])
                self._count(task, task.partial.arrived - task.counted)
            if task.todo:
                task.running += 1
                return partial(self._work_on, task, task.todo.popleft())
            self._queue.popleft()
            if task.todo is None and not task.request.path.exists():
                self._busy.append(task)
            elif task.todo is None:
                self._count(task, (task.length or 0) - task.counted)
        return None

    def _work_on(self, task: _Task, number: int | None, session: requests.Session) -> None:
        if number is not None:
            self._fetch_segment(task, number, session)
        with self._lock:
            task.running -= 1
            last = not task.running and not task.todo
        if last:
            if not task.remote.validator:
                self._fetch_whole(task, session)
            self._check_sum(task)
            self._name(task)

    def _fetch_segment(self, task: _Task, number: int, session: requests.Session) -> None:
        remote, span = task.remote, task.partial.span(number)
        have, digest = task.partial.resume(number)
        position = span.start + have

        def attempt() -> None:
            nonlocal position
            while position < span.stop:
                for chunk in read_part(session, task.request.url, remote, position, span.stop):
                    task.partial.write(chunk, position, number)
                    digest.update(chunk)
                    position += len(chunk)
                    self._count(task, len(chunk))

        try:
            self._persist(task, attempt, lambda: position)
        except IgnoresRanges:
            with self._lock:  # whoever is the last to notice fetches it in one piece
                task.remote = Remote(task.remote.total, "")
                assert task.todo is not None
                task.todo.clear()
            return
        task.partial.finished(number, digest.hexdigest())

    def _fetch_whole(self, task: _Task, session: requests.Session) -> None:
        position = 0

        def attempt() -> None:
            nonlocal position
            position = 0
            task.partial.restart()
            self._count(task, -task.counted)
            for chunk in read_all(session, task.request.url, task.request.first_bytes):
                task.partial.write(chunk, position)
                position += len(chunk)
                self._count(task, len(chunk))

        self._persist(task, attempt, lambda: position)
        if task.request.first_bytes is None or position < task.request.first_bytes:
            self._check_size(task, position)

    def _check_sum(self, task: _Task) -> None:
        request = task.request
        whole = request.first_bytes is None or request.first_bytes == task.remote.total
        if not request.checksum or not whole:
            return
        kind, _, expected = request.checksum.partition(":")
        found = task.partial.digest(kind)
        if found != expected.lower():
            task.partial.discard()
            reason = f"what arrived is damaged (its {kind} is {found} instead of {expected.lower()})"
            raise self._failure(task, reason, "try again")

    def _name(self, task: _Task) -> None:
        request = task.request
        try:
            task.partial.name()
        except UserError as error:
            if request.partial.exists():
                raise
            reason = str(error).replace(str(request.partial), str(request.path))
            raise self._failure(task, f"what arrived cannot be used: {reason}", "try again") from None

    def _persist(self, task: _Task, attempt: Callable[[], None], progress: Callable[[], int]) -> None:
        """Try until it succeeds, or ATTEMPTS in a row got no further than those before."""
        best, failures = progress(), 0
        while True:
            try:
                return attempt()
            except Refused as refused:
                save = f"save the file as {task.request.path} yourself"
                raise self._failure(task, str(refused), save) from None
            except IgnoresRanges:
                if not task.partial.arrived:
                    raise
                reason, pause = "the server sends the whole file where a part was requested", 0.0
            except Temporary as error:
                reason, pause = str(error), error.pause
            failures = 1 if progress() > best else failures + 1
            best = max(best, progress())
            if failures == ATTEMPTS:
                again = "run again to go on from what has arrived"
                raise self._failure(task, reason, again)
            pause = max(FIRST_PAUSE * 2 ** (failures - 1), pause)
            self._explain(f"{task.request.path.name}: {reason}; trying again in {pause:.0f} s", pause)
            if self._stop.wait(pause):
                raise Closed

    def _explain(self, line: str, pause: float) -> None:
        """Say why a connection waits, once for all those that fail together."""
        with self._lock:
            if pause < WORTH_A_LINE or time.monotonic() < self._explained_until:
                return
            self._explained_until = time.monotonic() + pause
        tqdm.write(line, file=sys.stderr)

    def _failure(self, task: _Task, reason: str, advice: str) -> UserError:
        advice += f", or {self._hint}" if self._hint else ""
        return UserError(f"cannot download {task.request.url}: {reason}; {advice}")

    def _count(self, task: _Task, size: int) -> None:
        with self._lock:
            task.counted += size
            self._bar.update(size)
