"""The search for private facts: a file is copied as into a bundle, and what would be replaced is told."""

import html
from pathlib import Path

from ..bundle import hdf5_content
from ..files import MOST_TEXT_BYTES, read_bytes
from ..private import Private
from .reading import opened_file


def private_facts(folder: Path, name: str, private: Private) -> list[tuple[str, str]]:
    """Return the kind of each private fact in a file and where it stands.

    UserError or an error of DAMAGE where it cannot be read. Pictures have the texts of the report.
    """
    private.found.clear()
    private.text(name)
    facts = {(kind, "in the name of the file") for kind in private.found}
    private.found.clear()
    if name.endswith(".hdf5"):
        with opened_file(folder / name) as file:
            hdf5_content(file, private, has_numbers=False)
    elif not name.endswith(".png"):
        text = read_bytes(folder / name, MOST_TEXT_BYTES).decode(errors="replace")
        # Of UTF-16, every second byte is 0.
        for one in {text, html.unescape(text), text.replace("\0", "")}:
            private.text(one)
            private.value(one)
    return sorted(facts | {(kind, "in its text") for kind in private.found})
