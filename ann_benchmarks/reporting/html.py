"""A report's blocks as one HTML page, which fetches nothing but the pictures beside it."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from .document import Block, Heading, pieces

FOLDER = Path(__file__).parent / "templates"


def as_html(title: str, blocks: Sequence[Block]) -> str:
    """Return the whole page; all text is escaped."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(pieces=pieces, style=(FOLDER / "report.css").read_text(encoding="utf-8"))
    named = [(type(block).__name__.lower(), block) for block in blocks]
    # The list of contents.
    sections = [(i, b.text) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 2]
    return environment.get_template("report.html").render(title=title, blocks=named, sections=sections) + "\n"
