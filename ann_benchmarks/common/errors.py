"""The exception for mistakes that the user can mend, and how any other is written on one line."""

import difflib
import errno
import os
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right; its text is one line that says what is wrong and what to do."""


def describe(error: BaseException) -> str:
    """Describe on one line what was raised; the project's own exceptions are written to be read alone."""
    text = " ".join(str(error).split())
    is_own = type(error).__module__.startswith("ann_benchmarks.")
    return text if is_own and text else f"{type(error).__name__}: {text}".rstrip(": ")


# What a machine, or a limit on a process, may be short of: by the system's error, and by what libraries make
# of it, which is an ImportError where one of their own cannot be loaded.
_SHORTAGES = {
    errno.ENOMEM: "memory has run out; use less of it, or raise its limit (ulimit -v)",
    errno.EMFILE: "too many files are open; raise their limit (ulimit -n 1024)",
    errno.ENFILE: "too many files are open on this machine; end other programs",
    errno.EAGAIN: "no further process or thread can be started; raise their limit (ulimit -u)",
    errno.ENOSPC: "the disk is full; free some space and run again",
    errno.EDQUOT: "the disk's quota is used up; free some space and run again",
}
_THREAD = "can't start new thread"  # in Python's words


def shortage(error: BaseException | None) -> str | None:
    """Say what there is too little of, and what to do; None where that led to no part of the error."""
    while error is not None:
        text = " ".join(str(error).split())
        if isinstance(error, MemoryError):
            return f"{text}: {_SHORTAGES[errno.ENOMEM]}" if text else _SHORTAGES[errno.ENOMEM]
        if isinstance(error, OSError) and error.errno in _SHORTAGES:
            return _SHORTAGES[error.errno]
        if isinstance(error, ImportError | OSError | RuntimeError):
            if _THREAD in text:
                return _SHORTAGES[errno.EAGAIN]
            for code, advice in _SHORTAGES.items():
                if os.strerror(code) in text:
                    return advice
        error = error.__cause__ or error.__context__
    return None


def closest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, else all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}"
