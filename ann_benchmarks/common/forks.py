"""A function of many items, computed by forks of this process: they begin with all that it has loaded."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TypeVar

from .command import begin_fork, signals_wait

Item = TypeVar("Item")
Value = TypeVar("Value")


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
