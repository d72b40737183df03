"""The exception for mistakes that the user can mend, and how any other is written on one line."""

import difflib
from collections.abc import Iterable

LONGEST_LINE = 1000  # characters of a message
LONGEST_QUOTE = 60  # of what it quotes


class UserError(Exception):
    """Something the user can put right; its text is one line that says what is wrong and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


def one_line(text: str) -> str:
    """Write a text on one line of bounded length that leaves a terminal as it is, whatever it quotes."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))
    return _shortened(text, LONGEST_LINE)


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


def closest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, else all of them."""
    known = list(known)
    near = difflib.get_close_matches(shown(word), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}"
