"""A page of HTML, read without a browser."""

from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The tags, links, identifiers, scripts' data and texts of a page."""

    def __init__(self, source: Path | str) -> None:
        super().__init__()
        self.tags, self.references, self.ids, self.data, self.text = [], [], [], "", ""
        self.inside = (None, None)
        self.feed(source.read_text(encoding="utf-8") if isinstance(source, Path) else source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = (tag, dict(attrs).get("id"))
        for name, value in attrs:
            if name in ("href", "src", "srcset", "action", "data", "poster"):
                self.references.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        if self.inside == ("script", "data"):
            self.data += data
        else:
            self.text += data

    def handle_endtag(self, tag):
        self.inside = (None, None)
