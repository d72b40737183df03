"""Fetch files over several connections, segment by segment, and go on after failures."""

import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from ann_benchmarks.common.errors import one_line
from ann_benchmarks.common.files import require_space

from .journal import DownloadRequest, byte_bar
from .partial import Closed
from .server import IgnoresRanges, Refused, Remote, Session, Temporary, TooSlow, inquire, read_all, read_part
from .task import FileTask

ATTEMPTS = 5  # in a row that bring nothing new
LEAST_PROGRESS = 1000  # bytes that count as something new
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled for each one after
WORTH_A_LINE = 4.0  # seconds of a pause that the user should know about

Job = Callable[[Session], None]


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


class _Fetch:
    def __init__(self, files: list[DownloadRequest], connections: int, hint: str) -> None:
        self._tasks = [FileTask(request, hint) for request in files]
        self._connections = connections
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._explained_until = 0.0
        self._busy: list[FileTask] = []  # files that other runs are downloading

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
                with Session() as session:
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

    def _inquire(self, task: FileTask, session: Session) -> None:
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
        task.check_size(task.remote.total)

    def _require_space(self) -> None:
        needs: Counter[int] = Counter()  # by the disk
        folders: dict[int, Path] = {}
        for task in self._tasks:
            device = task.request.path.parent.stat().st_dev
            folders[device] = task.request.path.parent
            needs[device] += max(task.lacking, 0)
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
                self._count(task, task.lacking)
        return None

    def _work_on(self, task: FileTask, number: int | None, session: Session) -> None:
        if number is not None:
            self._fetch_segment(task, number, session)
        with self._lock:
            task.running -= 1
            last = not task.running and not task.todo
        if last:
            if not task.remote.validator:
                self._fetch_whole(task, session)
            task.check_sum()
            task.name()

    def _fetch_segment(self, task: FileTask, number: int, session: Session) -> None:
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

    def _fetch_whole(self, task: FileTask, session: Session) -> None:
        position = 0
        most = task.most()

        def attempt() -> None:
            nonlocal position
            position = 0
            task.partial.restart()
            self._count(task, -task.counted)
            for chunk in read_all(session, task.request.url, task.request.first_bytes):
                if position + len(chunk) > most:
                    raise task.failure(f"the server's file has more than {most:,} bytes", "try again")
                task.partial.write(chunk, position)
                position += len(chunk)
                self._count(task, len(chunk))

        self._persist(task, attempt, lambda: position)
        if task.request.first_bytes is None or position < task.request.first_bytes:
            task.check_size(position)

    def _persist(self, task: FileTask, attempt: Callable[[], None], progress: Callable[[], int]) -> None:
        """Try until it succeeds, or ATTEMPTS in a row got no further than those before."""
        best, failures = progress(), 0
        while True:
            try:
                return attempt()
            except Refused as refused:
                save = f"save the file as {task.request.path} yourself"
                raise task.failure(str(refused), save) from None
            except IgnoresRanges:
                if not task.partial.arrived:
                    raise
                reason, pause, is_slow = "the server sends the whole file, not the part requested", 0.0, False
            except Temporary as error:
                reason, pause = str(error), error.pause
                is_slow = isinstance(error, TooSlow)
            failures = 1 if progress() - best >= LEAST_PROGRESS and not is_slow else failures + 1
            best = max(best, progress())
            if failures == ATTEMPTS:
                again = "run again to go on from what has arrived"
                raise task.failure(reason, again)
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
        tqdm.write(one_line(line), file=sys.stderr)

    def _count(self, task: FileTask, size: int) -> None:
        with self._lock:
            task.counted += size
            self._bar.update(size)
