"""What every command has: its streams, the signals that end it, and what it says of its end."""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .errors import UserError, one_line, shortage
from .layout import rename_commands

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOMENT = 0.01  # s

_is_waiting = False
_came: int | None = None  # while signals were to wait


class Ended(KeyboardInterrupt):
    """A signal ends this command. Libraries take it for Ctrl-C, and put away what they hold.

    `outlook` ends the message: what is kept, and what the same command will do.
    """

    outlook = "what is finished is kept, the same command continues"

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end_silently() -> None:
    """Have signals end this process as they end any program, without a word."""
    _handle(signal.SIG_DFL)


def open_streams() -> None:
    """Have standard streams, also where the caller has closed some: no other file may get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


@contextmanager
def signals_raise(is_once: bool = False) -> Iterator[None]:
    """Within the block, signals that end a command raise Ended; those that its caller ignores stay ignored.

    With `is_once`, what is put away after the first is not interrupted by another.
    """

    def once(number: int, frame: Any) -> None:
        _handle(lambda number, frame: None)  # not SIG_IGN, of which Python complains when two come together
        _raise_ended(number, frame)

    handler = once if is_once else _raise_ended
    before, hook = _handle(handler), sys.unraisablehook
    repeat_unraised(Ended, lambda: _handle(handler))
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def repeat_unraised(raised: type[Any], handle: Callable[[], object]) -> None:
    """Have a signal that comes within a finalizer, from which nothing can be raised, come once more.

    `raised` is what its handler raises, with its `number`; `handle` sets the handler again.
    """
    hook = sys.unraisablehook

    def send_again(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, raised):
            hook(unraisable)
            return
        handle()
        threading.Thread(target=_send, args=(unraisable.exc_value.number,), daemon=True).start()

    sys.unraisablehook = send_again


@contextmanager
def signals_wait() -> Iterator[None]:
    """Within the block, signals that end a command wait for its end.

    A process that is begun in it does not get them, until it unblocks them.
    """
    global _is_waiting, _came
    _is_waiting = True
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        _is_waiting = False  # the handlers are for signals that another thread takes
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if _came is not None:
            number, _came = _came, None
            raise Ended(number)


def _send(number: int) -> None:
    time.sleep(_MOMENT)  # the finalizer has ended
    os.kill(os.getpid(), number)


def begin_fork() -> None:
    """Begin in a fork made while signals wait: Ctrl-C is for the parent, whose end is also ours."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _handle(handler: Any) -> dict[signal.Signals, Any]:
    """Set the handler of signals that are not ignored; return those that there were."""
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    return before


def _raise_ended(number: int, frame: Any) -> None:
    global _came
    if not _is_waiting:
        raise Ended(number)
    _came = number


def report_end(error: BaseException) -> int:
    """Say on one line why a command ends, and return its exit status; others than user errors are raised."""
    if isinstance(error, KeyboardInterrupt):
        number = getattr(error, "number", signal.SIGINT)
        word = "interrupted" if number == signal.SIGINT else "terminated"
        print(f"{word}; {getattr(error, 'outlook', Ended.outlook)}", file=sys.stderr)
        return 128 + number
    if isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ENOSPC):
        # What is still to be written would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with suppress(OSError):
            sys.stdout.flush()
    if isinstance(error, BrokenPipeError):
        return 0  # the reader (head, less) has gone; nothing is left to say to it
    text = str(error) if isinstance(error, UserError) else shortage(error)
    if text is None and isinstance(error, OSError):
        # What the system refuses is not ours to foresee everywhere: a name, a right, a disk.
        name = f"{error.filename}: " if error.filename is not None else ""
        text = f"{name}{error.strerror or error}"
    if text is None:
        raise error
    print(f"error: {one_line(rename_commands(text))}", file=sys.stderr)
    return 1
