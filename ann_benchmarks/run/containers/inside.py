"""What runs in a container: it takes a request, has a worker process carry it out, and reports on it.

Contenders that take turns are requested in the same process, one request after the other.

It ends when run.py says so, and when run.py is gone: then nothing is at the other end of its input.
"""

import fcntl
import multiprocessing.connection
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

from ann_benchmarks.common.command import repeat_unraised
from ann_benchmarks.common.host import allow_files
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.jobs.events import Failure, Finished, Located, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.job import JobRequest

from ..process import ProcessWorker, answer_question
from ..worker import POLL_SECONDS, Question, failure_of
from .wire import RunRequest, read_request, write_message

_SOME = 65536  # bytes at a time
# A container sees here how many of its processes the kernel has killed: version 2 of groups, then version 1.
_COUNTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


class RunEnded(BaseException):
    """run.py has this end, or has gone."""

    number = signal.SIGTERM


class Messages:
    """The way to run.py: what was standard output. What plug-ins print goes to standard error instead."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def send(self, message: Any, attachment: bytes = b"") -> None:
        """Report to run.py."""
        self._file.write(write_message(message, attachment))
        self._file.flush()


def main() -> None:
    """Carry out the request that comes first."""
    try:
        repeat_unraised(RunEnded, _take_sigterm)
        _take_sigterm()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        allow_files()
        messages = Messages()
        request = read_request(partial(os.read, 0))
        requests: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=_take_requests, args=(requests,), daemon=True).start()
        if isinstance(request, Question):
            messages.send(_answer(request))
        else:
            _run(request, messages, requests)
    except (RunEnded, EOFError, BrokenPipeError):
        sys.exit(128 + signal.SIGTERM)


def _answer(question: Question) -> Finished | Located | Failure:
    try:
        return answer_question(question)
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # a plug-in may raise what ends programs
        return failure_of(error)


def _run(first: RunRequest, messages: Messages, requests: "SimpleQueue[Any]") -> None:
    end_terminal = _have_terminal(*first.terminal) if first.terminal else lambda: None
    worker = ProcessWorker(os.environ)  # the image's variables, and those that it takes of the user's
    is_in_turn = not isinstance(first.request, JobRequest)
    request: Any = first.request
    try:
        while True:
            last = _carry_out(request, worker, messages, first.memory)
            if not is_in_turn or (isinstance(last, Failure) and last.ends_worker):
                break
            messages.send(last)
            if (request := requests.get()) is None:
                break
        if isinstance(last, Finished) or request is None:
            worker.end()
    finally:
        worker.stop()
        end_terminal()
    if request is not None:
        messages.send(last)  # when all that it had started has ended


def _carry_out(request: Any, worker: ProcessWorker, messages: Messages, memory: int) -> Any:
    """Have a worker carry out a request, and report on it; return how that ended."""
    killed = killed_processes()
    answer: Any = None
    with suppress(OSError):  # it has just died: seen below
        worker.send(request)
    while not isinstance(answer, Finished | Failure):
        multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
        try:
            answer = worker.next_message()
        except EOFError:
            answer = worker.death()
        if isinstance(answer, Failure | PointFailed) and killed_processes() > killed:
            killed = killed_processes()
            answer = _blame_memory(answer, memory)
        if isinstance(answer, PointDone | WorkloadDone):
            messages.send(answer, answer.path.read_bytes())
            answer.path.unlink()
        elif answer is not None and not isinstance(answer, Finished | Failure):
            messages.send(answer)
    return answer


def killed_processes() -> int:
    """How many processes of this container were killed because it had reached its limit of memory."""
    for file in _COUNTS:
        with suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
            return int(match[1]) if match else 0
    return 0


def _blame_memory(failure: Any, memory: int) -> Any:
    """Say that it was for memory, which is seldom what a plug-in saw of it."""
    why = (
        f"memory ran out: the kernel killed a process at the container's limit of {size_text(memory)}; give"
        " it more with --memory, or the algorithm less to hold"
    )
    if isinstance(failure, Failure):
        return replace(failure, text=f"{why} ({failure.text})")
    return replace(failure, reason=f"{why} ({failure.reason})")


def _have_terminal(rows: int, columns: int) -> Callable[[], None]:
    """Have what follows print to a terminal, which shows progress, and hand it on. Returns what ends it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # lines end as they are: run.py's own terminal makes them right
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    output = os.dup(2)
    os.dup2(theirs, 1)
    os.dup2(theirs, 2)
    os.close(theirs)

    def hand_on() -> None:
        with suppress(OSError):
            while data := os.read(ours, _SOME):
                os.write(output, data)

    thread = threading.Thread(target=hand_on, daemon=True)
    thread.start()

    def end() -> None:
        os.dup2(output, 1)
        os.dup2(output, 2)
        thread.join(1)  # until nobody has the terminal open: what was printed last has been handed on

    return end


def _take_requests(requests: "SimpleQueue[Any]") -> None:
    """Take what run.py sends; when it has gone, end this process. A thread's work."""
    try:
        with suppress(EOFError):
            while True:
                requests.put(read_request(partial(os.read, 0)))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def _take_sigterm() -> None:
    signal.signal(signal.SIGTERM, _raise_run_ended)


def _raise_run_ended(number: int, frame: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what is put away now is not interrupted
    raise RunEnded


if __name__ == "__main__":
    Path("results").mkdir(exist_ok=True)
    main()
