"""Shards on several hosts, loaded and built at the same time: those of each host by a fork of this process.

A plug-in knows no shards, and keeps in itself what it finds out about its index. So one process can make only
one shard after the other. What a fork has made is on the servers, where this process finds it, as it finds
what an earlier run has made.
"""

import io
import os
import pickle
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from tqdm import tqdm

from ..errors import PostgresError, naming_shard
from .shard import Shard

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_MOST_FORKS = 128  # each has some MB of memory of its own
_LINE, _PHASE, _MADE, _FAILED = "line", "phase", "made", "failed"  # what a fork says of a shard


def by_host(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Return the shards of each host; servers of our own and on Unix sockets are all on this one."""
    hosts: dict[str, list[Shard]] = {}
    for shard in shards:
        server = shard.found_server()
        name = "" if server.is_ours else str(server.connection_parameters().get("host", ""))
        hosts.setdefault("" if name.startswith("/") else name, []).append(shard)
    return list(hosts.values())


def make_at_once(
    hosts: Sequence[Sequence[Shard]], make: Callable[[Shard], bool], enter: Callable[[str], object]
) -> dict[int, bool]:
    """Call `make` for the shards of all hosts, in a fork for each host; return its values by shard number.

    `enter` is called with each phase when the first shard enters it. If a shard cannot be made, its host ends
    there; the other hosts go on, as their work is kept. Then the first error is raised.
    """
    made: dict[int, bool] = {}
    errors: list[Exception] = []
    entered: set[str] = set()
    count = sum(map(len, hosts))
    bar = tqdm(total=count, desc="making shards", unit=" shard", disable=None, leave=False)
    with closing(_said(hosts, make)) as all_said, bar:
        for number, kind, value in all_said:
            if kind == _LINE:
                bar.write(f"shard {number} of {count}: {value}")
            elif kind == _MADE:
                made[number] = value
                bar.update()
            elif kind == _FAILED:
                errors.append(value)
                bar.write(f"{value} (the other hosts go on)")
            elif value not in entered:
                entered.add(value)
                enter(value)
            sys.stdout.flush()
    if errors:
        raise errors[0]
    for shards in hosts:
        for shard in shards:
            if shard.number not in made:
                with naming_shard(shard.number, count):
                    raise PostgresError("the process that made it was killed: give the same command again")
    return made


def _said(
    hosts: Sequence[Sequence[Shard]], make: Callable[[Shard], bool]
) -> Generator[tuple[int, str, Any], None, None]:
    """Yield what forks say: the number of a shard, what kind of message it is, and its value."""
    waiting = list(hosts[::-1])
    forks: dict[Connection, int] = {}
    try:
        while waiting or forks:
            while waiting and len(forks) < _MOST_FORKS:
                _fork(waiting.pop(), make, forks)
            for pipe in wait(list(forks)):
                assert isinstance(pipe, Connection)
                try:
                    yield pipe.recv()
                except (EOFError, OSError):  # the fork has ended
                    pipe.close()
                    os.waitpid(forks[pipe], 0)
                    del forks[pipe]
    finally:
        for pipe, fork in forks.items():
            pipe.close()
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)


def _fork(shards: Sequence[Shard], make: Callable[[Shard], bool], forks: dict[Connection, int]) -> None:
    ours, theirs = Pipe(duplex=False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until it is among those that are ended
    try:
        with warnings.catch_warnings():
            # Python warns of threads, whose locks nobody releases in a fork: those here hold none.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process == 0:
            with suppress(BaseException):
                for pipe in [ours, *forks]:
                    pipe.close()  # else the others would not see that their parent has ended
                _begin(theirs)
                _make(shards, make, theirs)
            os._exit(0)
        forks[ours] = process
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(pipe: Connection) -> None:
    """Be a fork that ends with its parent: Ctrl-C is the parent's, which ends its forks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()


def _end_with(pipe: int) -> None:
    ended = select.poll()
    ended.register(pipe, 0)  # which always reports that the other side is closed
    ended.poll()
    os._exit(1)


def _make(shards: Sequence[Shard], make: Callable[[Shard], bool], pipe: Connection) -> None:
    """Make one shard after the other until one fails; what is printed meanwhile is said."""
    for shard in shards:
        lines = _Lines(shard.number, pipe)
        shard.enter_phase = partial(_say_phase, pipe, shard.number)
        with redirect_stdout(lines), redirect_stderr(lines):
            try:
                with naming_shard(shard.number, shard.count):
                    pipe.send((shard.number, _MADE, make(shard)))
            except Exception as error:
                pipe.send((shard.number, _FAILED, _sendable(error, shard)))
                return


def _sendable(error: Exception, shard: Shard) -> Exception:
    """Return an error, or its text where it cannot be sent as it is."""
    try:
        pickle.loads(pickle.dumps(error))  # our own
    except Exception:
        return RuntimeError(f"shard {shard.number} of {shard.count}: {type(error).__name__}: {error}")
    return error


def _say_phase(pipe: Connection, number: int, phase: str) -> None:
    pipe.send((number, _PHASE, phase))


class _Lines(io.TextIOBase):
    """A stream that says each whole line; it is no terminal, so that there are no bars."""

    def __init__(self, number: int, pipe: Connection) -> None:
        """Take the shard's number, and the pipe."""
        self._number, self._pipe, self._text = number, pipe, ""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Say the lines that are whole now."""
        *lines, self._text = (self._text + text).split("\n")
        for line in lines:
            self._pipe.send((self._number, _LINE, line))
        return len(text)
