"""What runs in a container: the process that plug-ins run in, with run.py at the other end of its streams.

It ends when run.py says so, and when run.py is gone: then nothing is at the other end of its input.
"""

import faulthandler
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ann_benchmarks.common.command import open_streams
from ann_benchmarks.common.host import memory_bytes
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.jobs.events import Failure, PointDone, PointFailed, WorkloadDone

from ..process import serve
from .wire import TERMINAL, read_request, write_message

# A container sees here how many of its processes the kernel has killed: version 2 of groups, then version 1.
_COUNTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


class StandardStreams:
    """The pipe to run.py: what were standard input and output.

    Plug-ins, and what they start, have an empty input, and what they print goes to standard error.
    """

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.fdopen(os.dup(1), "wb")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self._requests: SimpleQueue[Any] = SimpleQueue()
        self._killed = killed_processes()
        threading.Thread(target=self._take_requests, daemon=True).start()

    def recv(self) -> Any:
        """Wait for the next request."""
        return self._requests.get()

    def send(self, message: Any) -> None:
        """Report something: of a result the file goes along, and is not kept here."""
        content = b""
        if isinstance(message, PointDone | WorkloadDone):
            content = message.path.read_bytes()
            message.path.unlink()
        if isinstance(message, Failure | PointFailed) and (killed := killed_processes()) > self._killed:
            self._killed = killed
            message = _blame_memory(message)
        self._output.write(write_message(message, content))
        self._output.flush()

    def _take_requests(self) -> None:
        """Take what run.py sends; when it has gone, end this process. A thread's work."""
        try:
            with suppress(EOFError):
                while True:
                    self._requests.put(read_request(partial(os.read, self._input)))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)


def killed_processes() -> int:
    """How many processes of this container were killed because it had reached its limit of memory."""
    for file in _COUNTS:
        with suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
            return int(match[1]) if match else 0
    return 0


def _blame_memory(failure: Any) -> Any:
    """Say that it was for memory, which is seldom what a plug-in saw of it."""
    why = (
        "memory ran out: the kernel killed a process at the container's limit of"
        f" {size_text(memory_bytes())}; give it more with --memory, or the algorithm less to hold"
    )
    if isinstance(failure, Failure):
        return replace(failure, text=f"{why} ({failure.text})")
    return replace(failure, reason=f"{why} ({failure.reason})")


def main() -> None:
    """Serve run.py."""
    open_streams()
    faulthandler.enable()
    if TERMINAL in os.environ:  # standard error goes to one, which shows progress
        sys.stderr.isatty = lambda: True  # type: ignore[method-assign]
    serve(StandardStreams())


if __name__ == "__main__":
    Path("results").mkdir(exist_ok=True)
    main()
