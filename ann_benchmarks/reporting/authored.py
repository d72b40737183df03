"""Text that people write, in the part of Markdown that a report knows, as blocks.

Paragraphs, lists, headings, fenced code; within a line `code`, **strong** and [links](address). All else, as
HTML, is plain text.
"""

import re
from collections.abc import Iterator

from .document import Block, Code, Heading, Items, Line, Link, Listing, Paragraph, Strong

INLINE = re.compile(
    r"(?P<code>`+)(?P<inside>.+?)(?P=code)|\*\*(?P<strong>.+?)\*\*|\[(?P<words>[^\]]+)\]\((?P<target>[^)\s]+)\)"
)
ADDRESS = re.compile(r"https?://|[^:/?#]*(?:[/?#]|$)")  # one of the web, or one without any other scheme
ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
LEVEL = 3  # of all headings that are written, below those of the report


def read_text(text: str) -> list[Block]:
    """Return the blocks of a text."""
    return [block for part in parts(text) for block in blocks_of(part)]


def parts(text: str) -> Iterator[list[str]]:
    """Yield the lines between empty lines; code between fences stays together."""
    lines: list[str] = []
    fence = False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        if (is_fence and not fence) or (not line.strip() and not fence):
            yield lines
            lines = []
        if line.strip() or fence:
            lines.append(line)
        if is_fence and fence:
            yield lines
            lines = []
        fence ^= is_fence
    yield lines


def blocks_of(lines: list[str]) -> Iterator[Block]:
    """Yield what lines without an empty one between them are."""
    if not lines:
        return
    if lines[0].lstrip().startswith("```"):
        is_closed = len(lines) > 1 and lines[-1].lstrip().startswith("```")
        yield Listing("\n".join(lines[1 : -1 if is_closed else None]))
        return
    paragraph: list[str] = []
    items: list[str] = []
    for line in lines:
        item = ITEM.match(line.lstrip())
        if item:
            items.append(line.lstrip()[item.end() :])
        elif items:
            items[-1] += f" {line.strip()}"
        elif not paragraph and (heading := re.match(r"#{1,6}\s+(.*?)\s*#*\s*$", line)):
            yield Heading(LEVEL, heading[1])
        else:
            paragraph.append(line.strip())
        if item and paragraph:
            yield Paragraph(line_of(" ".join(paragraph)))
            paragraph = []
    if paragraph:
        yield Paragraph(line_of(" ".join(paragraph)))
    if items:
        yield Items([line_of(item) for item in items])


def line_of(text: str) -> Line:
    """Return the pieces of a line."""
    line: list[str | Code | Strong | Link] = []
    end = 0
    for match in INLINE.finditer(text):
        line.append(text[end : match.start()])
        if match["inside"]:
            line.append(Code(match["inside"].strip()))
        elif match["strong"]:
            line.append(Strong(match["strong"]))
        elif ADDRESS.match(match["target"]):
            line.append(Link(match["words"], match["target"]))
        else:
            line.append(match[0])
        end = match.end()
    return [piece for piece in [*line, text[end:]] if piece != ""]
