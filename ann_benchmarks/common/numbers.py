"""Numbers as people read them."""

import math

GB, MB, KIB = 1 << 30, 1 << 20, 1 << 10


def size_text(size: float) -> str:
    """Write bytes with three digits, as GB from one on (2^30 bytes)."""
    return f"{significant(size / GB)} GB" if size >= GB else f"{significant(size / MB)} MB"


def significant(value: float) -> str:
    """Write a number from 1 on with three digits or, if it has more of them, all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def figure_text(value: float) -> str:
    """Write a figure with four digits, or all that are before the point."""
    return f"{value:,.0f}" if value >= 999.95 else f"{value:#.4g}".rstrip(".")


def exact(size: int) -> str:
    """Write bytes as a tier is asked for: whole GB, else MB."""
    return f"{size // GB:,} GB" if size % GB == 0 else f"{size / MB:,.6g} MB"


def plain_number(number: float, _position: int | None = None) -> str:
    """Write a tick's value out, with commas between thousands and without an exponent."""
    return f"{number:,.7g}" if abs(number) < 1e7 else f"{number:.3g}"


def factor(value: float) -> str:
    """Write how many times as much something is."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def in_words(memory: int) -> str:
    """Write bytes for people."""
    return f"{memory / 2**30:.1f} GiB" if memory >= 2**30 else f"{memory / 2**20:.0f} MiB"


UNKNOWN = "-"


def plain(value: float | None) -> str:
    """Write a figure with four digits, or all that are before the point."""
    return figure_text(value) if value is not None and math.isfinite(value) else UNKNOWN


def share(value: float | None) -> str:
    """Write a recall, which is told to the fourth digit."""
    return f"{value:.4f}" if value is not None and math.isfinite(value) else UNKNOWN


def size(kib: float | None) -> str:
    """Write a size that is given in KiB; 0 is one that nobody has told."""
    return size_text(kib * KIB) if kib is not None and math.isfinite(kib) and kib > 0 else UNKNOWN


def milliseconds(seconds: float | None) -> str:
    """Write a time that is given in s, in ms."""
    return plain(None if seconds is None else seconds * 1e3)
