"""Quantities that people write, on a command line or in a file: numbers and sizes, each within bounds.

Digits are ASCII. There is no infinity, and no number that is larger than what it counts can be.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from .errors import UserError, shown

MOST = 2**31 - 1  # of what is counted
LEAST_AMOUNT, MOST_AMOUNT = 1e-6, 1e9  # of what is measured, such as seconds
_MOST_BYTES = 1 << 50
_LONGEST = 64  # characters of a number
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)(?:i?b)?")
Read = TypeVar("Read", int, float)


def read_whole(text: str) -> int | None:
    """Return a whole number, None if the text is none."""
    text = text.strip()
    return int(text) if len(text) <= _LONGEST and _WHOLE.fullmatch(text) else None


def read_number(text: str) -> float | None:
    """Return a finite number, None if the text is none."""
    text = text.strip()
    number = float(text) if len(text) <= _LONGEST and _NUMBER.fullmatch(text) else float("inf")
    return number if abs(number) < float("inf") else None


def whole(least: int = 1, most: int = MOST) -> Callable[[str], int]:
    """Return what reads a whole number within bounds; UserError says which they are."""

    def read(text: str) -> int:
        number = read_whole(text)
        return _within(text, number, least, most, f"a whole number of at least {least:,}")

    return read


def amount(text: str) -> float:
    """Read a number above 0; UserError for one beyond what can be measured."""
    return _within(text, read_number(text), LEAST_AMOUNT, MOST_AMOUNT, "a number above 0")


def finite(text: str) -> float:
    """Read any number; UserError for what is none, such as nan."""
    return _within(text, read_number(text), -MOST_AMOUNT, MOST_AMOUNT, "a number")


def seed_number(text: str) -> int:
    """Read what chooses random numbers."""
    return whole(0, 2**63 - 1)(text)


def byte_size(text: str) -> int:
    """Read a number of bytes as Docker writes it, such as 512m or 8g."""
    match = _SIZE.fullmatch(text.strip().lower())
    size = 0 if match is None else int(Decimal(match[1]) * _UNITS[match[2]])
    if not 1 <= size <= _MOST_BYTES:
        raise UserError(f"'{shown(text)}' is no size: give such as 512m or 8g")
    return size


def _within(text: str, number: Read | None, least: Read, most: Read, what: str) -> Read:
    if number is None or not least <= number <= most:
        bounds = "" if number is None or number <= 0 else f", from {least:,} to {most:,}"
        raise UserError(f"'{shown(text)}' is not {what}{bounds}")
    return number
