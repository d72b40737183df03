"""The pages of a bundle for people: of its title, with their pictures, and without figures of their own.

All figures of points are in results/ alone, where they are checked.
"""

import html
import re

from ann_benchmarks.common.errors import shown

from ..contents import README, readme
from ..files import REPORT, read_text
from .points import OpenedBundle

MARKDOWN, HTML = f"{REPORT}/report.md", f"{REPORT}/report.html"
_ESCAPED = re.compile(r"\\([^\w\s]|_)")  # a character in Markdown
_PICTURE = re.compile(r"\]\(([\w.-]+\.png)\)")


def check_pages(opened: OpenedBundle) -> None:
    """Refuse pages of another report, missing pictures, surplus files, and a README of another manifest."""
    findings, title = opened.findings, opened.manifest.title
    there = {file for file in opened.files if file.startswith(f"{REPORT}/")}
    named = {MARKDOWN, HTML}
    for page in (MARKDOWN, HTML):
        with findings.refusing(page, "report"):
            text = read_text(opened.place(page))
            named |= {f"{REPORT}/{name}" for name in _PICTURE.findall(text)}
            if title not in html.unescape(text) and title not in _ESCAPED.sub(r"\1", text):
                findings.refuse(page, "report", f"does not have the title '{title}' of its manifest")
    for file in named - there - {MARKDOWN, HTML}:
        findings.refuse(file, "report", "is missing")
    for file in there - named:
        findings.refuse(file, "report", f"is neither a page nor a picture of {MARKDOWN}")
    with findings.refusing(README, "report"):
        lines = {*read_text(opened.place(README)).splitlines()}
        for line in readme(opened.manifest).splitlines():
            if line.startswith("- ") and line not in lines:
                findings.refuse(README, "report", f"lacks the line '{shown(line)}' of its manifest")
