"""Numbers as people read them; what is unknown, None or not finite, is a dash."""

import math

GB, MB, KIB = 1 << 30, 1 << 20, 1 << 10
UNKNOWN = "-"


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


def size_text(size: float | None, unit: int = 1) -> str:
    """Write a number of units of bytes with three digits, as GB from one on (2^30 bytes); 0 is unknown."""
    if not size or not math.isfinite(size):
        return UNKNOWN
    size *= unit
    return f"{three_digits(size / GB)} GB" if size >= GB else f"{three_digits(size / MB)} MB"


def plain_number(number: float, _position: int | None = None) -> str:
    """Write a tick's value out, with commas between thousands and without an exponent."""
    return f"{number:,.7g}" if abs(number) < 1e7 else f"{number:.3g}"
