"""The exception for mistakes that the user can mend, and how any other is written on one line."""

import difflib
import errno
import re
from collections.abc import Iterable

LONGEST_LINE = 1000  # characters of a message
LONGEST_QUOTE = 60  # of what it quotes
_TYPO = 0.85  # share of the letters that a word and the one that was meant have in common


class UserError(Exception):
    """Something the user can put right; its text is one line that says what is wrong and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class NoDefinitionRuns(UserError):
    """What every definition of a run needs cannot be had: that is said once, and the run ends."""


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Write a text on one line of bounded length that leaves a terminal as it is, whatever it quotes."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))
    return _shortened(text, longest)


def shown(value: object) -> str:
    """Write what a message quotes, without its middle if that is long."""
    return _shortened(str(value), LONGEST_QUOTE)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length * 2 // 3]} ... {text[-(length // 3) :]}"


def describe(error: BaseException) -> str:
    """Describe on one line what was raised; the project's own exceptions are written to be read alone."""
    text = one_line(str(error))
    is_own = type(error).__module__.startswith("ann_benchmarks.")
    return text if is_own and text else f"{type(error).__name__}: {text}".rstrip(": ")


# What a machine, or a limit on a process, may be short of, and what to do then.
_SHORTAGES = {
    errno.ENOMEM: ("out of memory", "use less data, a larger machine, or a larger limit (ulimit -v)"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n 1024)"),
    errno.ENFILE: ("too many open files on this machine", "end other programs"),
    errno.EAGAIN: (
        "no further process or thread can be started",
        "end others, or raise the limit (ulimit -u)",
    ),
    errno.ENOSPC: ("the disk is full", "free some space and run again"),
    errno.EDQUOT: ("the disk's quota is used up", "free some space and run again"),
}


def shortage(error: BaseException | None) -> str | None:
    """Say what there is too little of, and what to do; None where nothing of it led to the error."""
    while error is not None:
        code, detail = None, ""
        if isinstance(error, MemoryError):
            code, detail = errno.ENOMEM, " ".join(str(error).split())
        elif isinstance(error, OSError) and error.errno in _SHORTAGES:
            code, detail = error.errno, str(error.filename or "")
        elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":
            code = errno.EAGAIN
        if code is not None:
            what, advice = _SHORTAGES[code]
            return f"{what}{f' ({detail})' if detail else ''}: {advice}"
        error = error.__cause__ or error.__context__
    return None


def closest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, else all of them."""
    known = list(known)
    near = nearest(str(word), sorted(known, key=len))
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}"


def nearest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known words that this one is a typo of, that begin with it, or that resemble it."""
    known = list(known)
    longer = [one for one in known if word and re.match(rf"{re.escape(word[:LONGEST_QUOTE])}[-_:]", one)]
    typos, alike = (difflib.get_close_matches(shown(word), known, most, each) for each in (_TYPO, 0.6))
    return list(dict.fromkeys([*typos, *longer, *alike]))[:most]
