"""Shards on several hosts, loaded and built at the same time: those of each host by a fork of this process.

A plug-in knows no shards, and keeps in itself what it finds out about its index. So one process can make only
one shard after the other. What a fork has made is on the servers, where this process finds it, as it finds
what an earlier run has made.
"""

import io
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from ..errors import PostgresError
from .shard import Shard

_FORKS = multiprocessing.get_context("fork")
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PHASE, _MADE, _FAILED = "phase", "made", "failed"  # what a fork says of a shard


def hosts_with_shards(shards: Sequence[Shard]) -> list[list[Shard]]:
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
    shards = {shard.number: shard for own in hosts for shard in own}
    with closing(_messages(hosts, make)) as messages:
        for number, kind, value in messages:
            if kind == _MADE:
                made[number] = value
            elif kind == _FAILED:
                errors.append(value)
                print(f"{value} (the other hosts go on)", flush=True)
            elif value not in entered:
                entered.add(value)
                enter(value)
    if errors:
        raise errors[0]
    for number, shard in shards.items():
        if number not in made:
            raise PostgresError(
                f"{shard.title}: the process that made it was killed: give the same command again"
            )
    return made


def _messages(
    hosts: Sequence[Sequence[Shard]], make: Callable[[Shard], bool]
) -> Generator[tuple[int, str, Any], None, None]:
    """Yield what forks say: the number of a shard, what kind of message it is, and its value."""
    forks: dict[Connection, Any] = {}
    try:
        sys.stdout.flush()  # else each fork would print what is left of it
        for shards in hosts:
            ours, theirs = _FORKS.Pipe(duplex=False)
            with closing(theirs), _forking():
                fork = _FORKS.Process(target=_make, args=(shards, make, theirs, [ours, *forks]))
                fork.start()
                forks[ours] = fork
        while forks:
            for pipe in wait(list(forks)):
                assert isinstance(pipe, Connection)
                try:
                    yield pipe.recv()
                except (EOFError, OSError):  # the fork has ended
                    pipe.close()
                    forks.pop(pipe).join()
    finally:
        for pipe, fork in forks.items():
            pipe.close()
            fork.kill()
            fork.join()


@contextmanager
def _forking() -> Iterator[None]:
    """Block the signals that end this process until a fork is among those that are ended with it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        with warnings.catch_warnings():
            # Python warns of threads, whose locks nobody releases in a fork: those here hold none.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _make(
    shards: Sequence[Shard], make: Callable[[Shard], bool], pipe: Connection, others: Sequence[Connection]
) -> None:
    """Be a fork: make one shard after the other until one fails; what is printed meanwhile is said."""
    for other in others:
        other.close()  # else the other forks would not see that their parent has ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's, which ends its forks
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):  # the parent has gone
        for shard in shards:
            shard.enter_phase = partial(_say, pipe, shard.number, _PHASE)
            lines = _Lines(f"{shard.title}: ")
            with redirect_stdout(lines), redirect_stderr(lines):
                try:
                    with shard.naming():
                        message = _MADE, make(shard)
                except Exception as error:
                    _say(pipe, shard.number, _FAILED, _sendable(error, shard))
                    return
            _say(pipe, shard.number, *message)


def _say(pipe: Connection, number: int, kind: str, value: Any) -> None:
    pipe.send((number, kind, value))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _sendable(error: Exception, shard: Shard) -> Exception:
    """Return an error of ours, or the text of another, which may not be one that can be sent."""
    if isinstance(error, PostgresError):
        return error
    return RuntimeError(f"{shard.title}: {type(error).__name__}: {error}")


class _Lines(io.TextIOBase):
    """A stream that prints each whole line behind a name, and not a terminal: bars are not drawn."""

    def __init__(self, name: str) -> None:
        self._name, self._stream, self._text = name, sys.stdout, ""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Print the lines that are whole now, at once: the forks have one standard output."""
        *lines, self._text = (self._text + text).split("\n")
        self._stream.write("".join(f"{self._name}{line}\n" for line in lines))
        self._stream.flush()
        return len(text)
