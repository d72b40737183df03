"""A report's blocks as Markdown (CommonMark with GitHub's tables)."""

import re
from collections.abc import Sequence

from .document import (
    Block,
    Code,
    Heading,
    Items,
    Line,
    Link,
    Listing,
    Paragraph,
    Picture,
    Strong,
    Table,
    pieces,
)

SPECIAL = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")  # a _ within a word is plain
AT_START = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]))")


def as_markdown(blocks: Sequence[Block]) -> str:
    """Return the whole text."""
    return "\n\n".join(block_text(block) for block in blocks) + "\n"


def block_text(block: Block) -> str:
    """Return one block, without an empty line after it."""
    match block:
        case Heading():
            return f"{'#' * block.level} {escaped(one_line(block.text))}"
        case Paragraph():
            return line_text(block.text)
        case Items():
            return "\n".join(f"- {line_text(item)}" for item in block.items)
        case Listing():
            fence = "`" * max(3, longest_ticks(block.text) + 1)
            return f"{fence}sh\n{block.text}\n{fence}"
        case Picture():
            return f"![{escaped(one_line(block.caption))}]({block.file})"
        case Table():
            return table_text(block)


def table_text(table: Table) -> str:
    """Return a table, with its caption above."""

    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(escaped(one_line(cell)) for cell in cells)} |"

    sides = ["---" if name in table.words else "---:" for name in table.columns]
    lines = [row(table.columns), f"| {' | '.join(sides)} |", *map(row, table.rows)]
    caption = f"{start_escaped(escaped(one_line(table.caption)))}\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def line_text(line: Line) -> str:
    """Return a line of text."""
    return start_escaped("".join(map(piece_text, pieces(line))))


def piece_text(piece: str | Code | Strong | Link) -> str:
    """Return a piece of a line."""
    if isinstance(piece, str):
        return escaped(one_line(piece))
    text = one_line(piece.text)
    match piece:
        case Code():
            ticks = "`" * (longest_ticks(text) + 1)
            space = " " if text.startswith("`") or text.endswith("`") else ""
            return f"{ticks}{space}{text}{space}{ticks}"
        case Strong():
            return f"**{escaped(text)}**"
        case Link():
            target = "".join(f"%{ord(c):02X}" if c in "<>() \\" else c for c in piece.target)
            return f"[{escaped(text)}]({target})"


def escaped(text: str) -> str:
    """Have each character mean itself."""
    return SPECIAL.sub(lambda match: f"\\{match[0]}", text)


def start_escaped(text: str) -> str:
    """Have a line not begin a list or a heading."""
    return AT_START.sub(lambda m: f"{m[1]}{m[2]}\\" if m[2].isdecimal() else f"{m[1]}\\{m[2]}", text)


def one_line(text: str) -> str:
    """Return text without the ends of lines."""
    return " ".join(text.split("\n")).replace("\r", " ")


def longest_ticks(text: str) -> int:
    """Return how many backticks follow each other at most."""
    return max(map(len, re.findall("`+", text)), default=0)
