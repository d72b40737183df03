"""Rows as tables: aligned for a terminal, Markdown, CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

RED, GREEN, PLAIN = "\033[31m", "\033[32m", "\033[0m"
COLORS = {
    "slower": RED,
    "faster": GREEN,
    "larger": RED,
    "smaller": GREEN,
    "more": RED,
    "fewer": GREEN,
    "less": GREEN,
}


def figure_text(value: float) -> str:
    """Write a figure with four digits, or all that are before the point."""
    return f"{value:,.0f}" if value >= 999.95 else f"{value:#.4g}".rstrip(".")


def aligned(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: str, colors: bool = False
) -> Iterator[str]:
    """Yield lines whose columns stand below each other; `sides` has an l or r for each."""
    lines = [list(head)]
    for row in rows:
        cells = [cell.splitlines() or [""] for cell in row]
        lines += [[c[i] if i < len(c) else "" for c in cells] for i in range(max(map(len, cells)))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        texts = [
            cell.rjust(width) if sides[i : i + 1] == "r" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        if colors:
            texts = [f"{COLORS[c.strip(' ?')]}{c}{PLAIN}" if c.strip(" ?") in COLORS else c for c in texts]
        yield "  ".join(texts).rstrip()


def markdown(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: str, colors: bool = False
) -> Iterator[str]:
    """Yield the lines of a table in Markdown, which has no colours."""
    yield f"| {' | '.join(head)} |"
    marks = (" ---: " if sides[i : i + 1] == "r" else " --- " for i in range(len(head)))
    yield f"|{'|'.join(marks)}|"
    for row in rows:
        cells = [cell.replace("|", "\\|").replace("\n", "<br>") for cell in row]
        yield f"| {' | '.join(cells)} |"


def csv_text(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()
