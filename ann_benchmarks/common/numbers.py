"""Numbers as people read and write them.

What is written of an unknown number, None or not finite, is a dash. What is read, on a command line or in a
file, has ASCII digits and bounds: never infinity, nor a number that is larger than what it counts can be.
"""

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

from .errors import UserError, shown

GB, MB, KIB = 1 << 30, 1 << 20, 1 << 10
UNKNOWN = "-"
MOST = 2**31 - 1  # of what is counted
LEAST_AMOUNT, MOST_AMOUNT = 1e-6, 1e9  # of what is measured, such as seconds
_MOST_BYTES = 1 << 50
_LONGEST = 64  # characters of a number
MOST_ROWS = 10**12
ROW_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)(?:i?b)?")
_ROWS = re.compile(r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)([kmb]?)")
Read = TypeVar("Read", int, float)


def variance(values: Iterable[float]) -> float:
    """Return the variance of two values or more as a sample's: 0 where all are the same.

    (That of Python's statistics takes thirty times as long, as it computes with fractions.)
    """
    first, *others = values
    shifts = [value - first for value in others]
    mean = math.fsum(shifts) / (len(shifts) + 1)
    return (math.fsum((shift - mean) ** 2 for shift in shifts) + mean**2) / len(shifts)


def figure_text(value: float | None) -> str:
    """Write a figure with four digits, or all that are before the point."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:#.4g}".rstrip(".")


def three_digits(value: float) -> str:
    """Write a figure for a sentence: with three digits or, from 100 on, all that are before the point."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def milliseconds(seconds: float | None) -> str:
    """Write a time in s as a figure in ms."""
    return figure_text(None if seconds is None else seconds * 1e3)


def share_text(value: float | None) -> str:
    """Write a recall with four decimals."""
    return f"{value:.4f}" if value is not None and math.isfinite(value) else UNKNOWN


def percent_text(share: float) -> str:
    """Write a share of rows in percent, with two digits."""
    return f"{plain_number(float(f'{100 * share:.2g}'))}%"


def duration_text(seconds: float) -> str:
    """Write a time that lies ahead: in s up to 100 of them, then in minutes, then in hours."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, unit = (whole // 60, "h") if whole >= 6000 else (whole, "min")
    return f"{minutes // 60}:{minutes % 60:02} {unit}"


def size_text(size: float | None, unit: int = 1) -> str:
    """Write a number of units of bytes with three digits, as GB from one on (2^30 bytes); 0 is unknown."""
    if not size or not math.isfinite(size):
        return UNKNOWN
    size *= unit
    return f"{three_digits(size / GB)} GB" if size >= GB else f"{three_digits(size / MB)} MB"


def plain_number(number: float, _position: int | None = None) -> str:
    """Write a tick's value out, with commas between thousands and without an exponent."""
    return f"{number:,.7g}" if abs(number) < 1e7 else f"{number:.3g}"


def counted(number: int, noun: str) -> str:
    """Put a number before its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def read_whole(text: str) -> int | None:
    """Return a whole number; None for any other text."""
    text = text.strip()
    return int(text) if len(text) <= _LONGEST and _WHOLE.fullmatch(text) else None


def read_number(text: str) -> float | None:
    """Return a finite number; None for any other text."""
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
    """Read any number; UserError for any other text, such as nan."""
    return _within(text, read_number(text), -MOST_AMOUNT, MOST_AMOUNT, "a number")


def seed_number(text: str) -> int:
    """Read what chooses random numbers."""
    return whole(0, 2**63 - 1)(text)


def byte_size(text: str) -> int:
    """Read a number of bytes as Docker writes it, such as 512m or 8g."""
    match = _SIZE.fullmatch(text.strip().lower())
    size = 0 if match is None else int(Decimal(match[1]) * _UNITS[match[2]])
    if not 1 <= size <= _MOST_BYTES:
        raise UserError(f"'{shown(text)}' must be a size, such as 512m or 8g")
    return size


def row_count(text: str) -> int:
    """Read a number of rows, such as 500k, 1.5m, 2_000_000 or 1b."""
    match = _ROWS.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    count = Decimal(0) if match is None else Decimal(match[1].replace("_", "")) * ROW_UNITS[match[2]]
    if not 1 <= count <= MOST_ROWS or count != int(count):
        raise UserError(f"'{shown(text)}' must be a number of rows, such as 500k, 10m or 2_000_000")
    return int(count)


def _within(text: str, number: Read | None, least: Read, most: Read, what: str) -> Read:
    if number is None or not least <= number <= most:
        bounds = "" if number is None or number <= 0 else f", from {least:,} to {most:,}"
        raise UserError(f"'{shown(text)}' is not {what}{bounds}")
    return number
