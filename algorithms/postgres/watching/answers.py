"""Questions to a server that may not answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import TypeVar

_T = TypeVar("_T")
_ANSWER_SECONDS = 30.0  # far more than a loaded server needs


class NoAnswer(Exception):
    """The server did not answer in time. The thread that sent the request still waits on the connection."""


def answered(ask: Callable[[], _T]) -> _T:
    """Return what `ask` returns, or raise what it raises; NoAnswer if that takes too long."""
    answer: Future[_T] = Future()

    def wait() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=wait, daemon=True).start()
    # Not result(timeout): `ask` may raise a TimeoutError of its own.
    try:
        error = answer.exception(_ANSWER_SECONDS)
    except TimeoutError:
        raise NoAnswer from None
    if error is not None:
        raise error
    return answer.result()
