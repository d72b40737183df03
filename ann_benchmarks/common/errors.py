"""The exception for mistakes that the user can mend, and how any other is written on one line."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right; its text is one line that says what is wrong and what to do."""


def describe(error: BaseException) -> str:
    """Describe on one line what was raised; the project's own exceptions are written to be read alone."""
    text = " ".join(str(error).split())
    is_own = type(error).__module__.startswith("ann_benchmarks.")
    return text if is_own and text else f"{type(error).__name__}: {text}".rstrip(": ")


def closest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, else all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}"
