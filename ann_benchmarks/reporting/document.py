"""A report as blocks, which markdown.py and html.py write each in its own form."""

from collections.abc import Sequence
from dataclasses import dataclass, field


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
    """Words that lead somewhere: an address or a file of the report."""

    text: str
    target: str


Line = str | Code | Strong | Link | Sequence["str | Code | Strong | Link"]  # plain text may hold anything


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a note is one of less weight."""

    text: Line
    is_note: bool = False


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[Line]


@dataclass(frozen=True)
class Listing:
    """A command or a program, as it is typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table of cells; of the columns named in `words` the cells are text, of all others figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Picture:
    """A picture in a file beside the report."""

    file: str
    caption: str


Block = Heading | Paragraph | Items | Listing | Table | Picture


def pieces(line: Line) -> Sequence[str | Code | Strong | Link]:
    """Return the pieces of a line."""
    return [line] if isinstance(line, (str, Code, Strong, Link)) else line
