"""No fork in the middle of a sample: it would inherit the locks of libraries as they are at that moment."""

import os
import sys
import threading

_PATIENCE_SECONDS = 1.0  # with a server that does not answer

no_fork = threading.Lock()
_is_held = False


def _before() -> None:
    global _is_held
    _is_held = no_fork.acquire(timeout=_PATIENCE_SECONDS)


def _after() -> None:
    global _is_held
    if _is_held:
        _is_held = False
        no_fork.release()


if sys.platform != "win32":
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
