"""Calls made as another account, in a fork of this process that has given up its rights.

Whatever the account has put into its folders, such a call reaches no further than the account itself.
"""

import gc
import json
import os
import signal
import socket
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from ..errors import PostgresError

PATIENCE_SECONDS = 600  # the account may stop its processes, and with them this call
_MOST_BYTES = 16 << 20  # of an answer


class Descriptor(int):
    """A file descriptor, which a call may return: the caller gets one of its own."""


def call_as(uid: int, gid: int, action: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns when this user and group call it: what JSON can hold, or a Descriptor.

    Its OSError is raised here, too. PostgresError where it raises another exception, or gives no answer.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with warnings.catch_warnings():
            # Of threads: their locks stay locked in the fork, and nothing here takes one.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _answer(theirs, uid, gid, action, arguments)
        theirs.close()
        try:
            return _answer_of(ours)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _answer(
    pipe: socket.socket, uid: int, gid: int, action: Callable[..., Any], arguments: tuple[Any, ...]
) -> NoReturn:
    """Become the account, call, send the answer, and end."""
    with suppress(BaseException):
        gc.disable()  # what is collected here may close a connection that the parent uses
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        become(uid, gid)
        value, answer = None, {}
        try:
            value = action(*arguments)
            answer = {"value": value}
        except OSError as error:
            answer = {"errno": error.errno, "reason": error.strerror or str(error), "file": error.filename}
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        text = json.dumps(answer, default=str).encode()
        socket.send_fds(pipe, [b"."], [value] if isinstance(value, Descriptor) else [])
        pipe.sendall(text)
    os._exit(0)


def become(uid: int, gid: int) -> None:
    """Be this user and group, and a member of no other, from now on; what is made is for nobody else."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.umask(0o077)


def _answer_of(pipe: socket.socket) -> Any:
    pipe.settimeout(PATIENCE_SECONDS)
    content = bytearray()
    try:
        started, descriptors, _, _ = socket.recv_fds(pipe, 1, 1)
        while started and len(content) < _MOST_BYTES and (piece := pipe.recv(1 << 16)):
            content += piece
        answer = json.loads(content)
    except (TimeoutError, ConnectionError, ValueError):
        raise PostgresError("a process of the server's account was ended or stopped: try again") from None
    if "errno" in answer:
        raise OSError(answer["errno"], answer["reason"], answer["file"])
    if "problem" in answer:
        raise PostgresError(f"as the server's account: {answer['problem']}")
    if descriptors:
        os.set_inheritable(descriptors[0], False)
        return Descriptor(descriptors[0])
    return answer["value"]
