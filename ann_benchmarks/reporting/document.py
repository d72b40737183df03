"""A document as blocks: read from the text that people write, and written as Markdown or as one HTML page.

The text may hold paragraphs with `code`. Anything else, such as HTML, is plain text. Markdown is CommonMark
with GitHub's tables.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from ann_benchmarks.views.parts import Table, escaped, one_line, table_text


@dataclass(frozen=True)
class Code:
    """A piece of code within a line."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


@dataclass(frozen=True)
class Link:
    """Words that lead somewhere: to an address or to a file of the document."""

    text: str
    target: str


Piece = str | Code | Strong | Link  # plain text may hold anything
Line = Piece | Sequence[Piece]


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a note has less weight."""

    text: Line
    is_note: bool = False


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[Line]


@dataclass(frozen=True)
class Listing:
    """A command or a program, as it is typed; its language by the name that Markdown has for it."""

    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Picture:
    """A picture in a file next to the document."""

    file: str
    caption: str


Block = Heading | Paragraph | Items | Listing | Table | Picture

FOLDER = Path(__file__).parent / "templates"
AT_START = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]))")


def read_text(text: str) -> list[Block]:
    """Return the paragraphs of a text, which empty lines separate."""
    return [
        Paragraph(parsed_line(" ".join(part.split()))) for part in re.split(r"\n\s*\n", text) if part.strip()
    ]


def parsed_line(text: str) -> Line:
    """Return the pieces of a line: what is between backticks is code."""
    parts = enumerate(re.split(r"`([^`]+)`", text))
    return [Code(part) if number % 2 else part for number, part in parts if part]


def pieces(line: Line) -> Sequence[Piece]:
    """Return the pieces of a line."""
    return [line] if isinstance(line, Piece) else line


def html_page(title: str, blocks: Sequence[Block]) -> str:
    """Return one HTML page, which fetches nothing but its pictures; all text is escaped."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(pieces=pieces, style=(FOLDER / "report.css").read_text(encoding="utf-8"))
    named = [(type(block).__name__.lower(), block) for block in blocks]
    # The list of contents.
    sections = [(i, b.text) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 2]
    return environment.get_template("report.html").render(title=title, blocks=named, sections=sections) + "\n"


def markdown_text(blocks: Sequence[Block]) -> str:
    """Return the whole text in Markdown; each character of a text means itself."""
    return "\n\n".join(block_text(block) for block in blocks) + "\n"


def block_text(block: Block) -> str:
    """Return one block, without an empty line after it."""
    match block:
        case Heading():
            return f"{'#' * block.level} {escaped(block.text)}"
        case Paragraph():
            return line_text(block.text)
        case Items():
            return "\n".join(f"- {line_text(item)}" for item in block.items)
        case Listing():
            fence = "`" * max(3, longest_ticks(block.text) + 1)
            return f"{fence}{block.language}\n{block.text}\n{fence}"
        case Picture():
            return f"![{escaped(block.caption)}]({block.file})"
        case Table():
            return table_text(block)


def line_text(line: Line) -> str:
    """Return a line, which begins neither a list nor a heading."""
    text = "".join(map(piece_text, pieces(line)))
    return AT_START.sub(lambda m: f"{m[1]}{m[2]}\\" if m[2].isdecimal() else f"{m[1]}\\{m[2]}", text)


def piece_text(piece: Piece) -> str:
    """Return a piece of a line."""
    match piece:
        case str():
            return escaped(piece)
        case Code():
            text = one_line(piece.text)
            ticks = "`" * (longest_ticks(text) + 1)
            space = " " if text.startswith("`") or text.endswith("`") else ""
            return f"{ticks}{space}{text}{space}{ticks}"
        case Strong():
            return f"**{escaped(piece.text)}**"
        case Link():
            target = "".join(f"%{ord(c):02X}" if c in "<>() \\" else c for c in piece.target)
            return f"[{escaped(piece.text)}]({target})"


def longest_ticks(text: str) -> int:
    """Return the largest number of successive backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
