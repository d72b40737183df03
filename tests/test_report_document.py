"""One content in two forms: nothing in a name becomes markup in either."""

import re

import pytest

from ann_benchmarks.reporting.document import (
    Code,
    Heading,
    Items,
    Link,
    Listing,
    Paragraph,
    Picture,
    Strong,
    Table,
    html_page,
    markdown_text,
    read_text,
)

from .browser import CHROMIUM, Browser
from .page import Page

NASTY = (
    '</script><script>alert(1)</script> & "q" | `x` **b** [a](javascript:alert(1))'
    " <img src=x> _e_ \\ $1$\n# h"
)


def nasty_blocks():
    return [
        Heading(1, NASTY),
        Heading(2, "second"),
        Paragraph(NASTY),
        Items([NASTY, [Strong(NASTY), NASTY, Code(NASTY)]]),
        Listing(NASTY),
        Table(("Name", NASTY), [[NASTY, "1"]], NASTY, frozenset({"Name"})),
        Picture("a.png", NASTY),
    ]


def test_html_escapes_all_text_and_has_no_script():
    text = html_page(NASTY, nasty_blocks())
    page = Page(text)
    assert "script" not in page.tags and page.tags.count("img") == 1
    assert page.text.count("<script>alert(1)</script>") == 12
    assert len(page.ids) == len(set(page.ids)) == 3
    assert set(page.references) == {"a.png"}


def test_html_fetches_nothing_from_elsewhere():
    text = html_page("t", nasty_blocks())
    assert not re.search(r"url\(|@import|<link|<script", text)


def test_markdown_escapes_all_text():
    text = markdown_text(nasty_blocks())
    outside = re.sub(r"(`{1,})(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)  # code means itself
    assert not re.search(r"(?<!\\)<", outside)
    assert not re.search(r"(?<!\\)\[a", outside)
    assert r"\*\*b\*\*" in outside and r"\_e\_" in outside and r"\$1\$" in outside
    assert "\n# h" not in outside
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 and all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)


def test_names_with_underscores_stay_readable_in_markdown():
    assert markdown_text([Paragraph("pgvector_hnsw on 1. May")]) == "pgvector_hnsw on 1. May\n"
    assert (
        markdown_text([Paragraph("1. May"), Paragraph("- a"), Paragraph("# b")])
        == "1\\. May\n\n\\- a\n\n\\# b\n"
    )


def test_both_forms_of_every_block():
    blocks = [
        Heading(2, "Speed"),
        Paragraph(["see ", Link("the page", "https://example.org/a(b)"), " and ", Code("a`b")]),
        Items(["one", "two"]),
        Listing("python run.py"),
        Table(("Index", "QPS"), [["hnsw", "1,200"]], "Points", frozenset({"Index"})),
        Picture("1-frontier.png", "The frontier."),
    ]
    assert markdown_text(blocks) == (
        "## Speed\n\nsee [the page](https://example.org/a%28b%29) and ``a`b``\n\n- one\n- two\n\n"
        "```sh\npython run.py\n```\n\nPoints\n\n| Index | QPS |\n| --- | ---: |\n| hnsw | 1,200 |\n\n"
        "![The frontier.](1-frontier.png)\n"
    )
    text = " ".join(html_page("t", blocks).split())
    for expected in (
        '<h2 id="part-0">Speed</h2>',
        '<p>see <a href="https://example.org/a(b)">the page</a> and <code>a`b</code></p>',
        "<li>two</li>",
        '<p class="caption" id="table-4">Points</p>',
        '<td class="words">hnsw</td><td>1,200</td>',
        '<img src="1-frontier.png" alt="The frontier." loading="lazy">',
    ):
        assert expected in text, expected


def test_authored_text():
    blocks = read_text(
        "Seen by **one**,\nwith `code` and [a link](https://example.org) or [not](javascript:alert).\n\n"
        "# Heading\n\nbefore\n- first\n  goes on\n- second\n\n"
        "```sh\npython x.py\n\n  indented\n```\nafter <b>\n"
    )
    assert [type(block).__name__ for block in blocks] == [
        "Paragraph", "Heading", "Paragraph", "Items", "Listing", "Paragraph",
    ]  # fmt: skip
    line = blocks[0].text
    assert Strong("one") in line and Code("code") in line and Link("a link", "https://example.org") in line
    assert "[not](javascript:alert)" in line
    assert blocks[3].items == [["first goes on"], ["second"]]
    assert blocks[4].text == "python x.py\n\n  indented"
    assert "&lt;b&gt;" in html_page("t", blocks) and r"\<b\>" in markdown_text(blocks)


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_phone_scrolls_a_wide_table_and_not_the_page(tmp_path):
    columns = tuple(f"A column {i}" for i in range(20))
    wide = [Table(columns, [["1,234.5 (1,200 to 1,300)"] * 20]), Paragraph("long" * 200), *nasty_blocks()]
    page = tmp_path / "page.html"
    page.write_text(html_page("t", wide))
    browser = Browser()
    try:
        browser.open(page, width=500)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run(
            "[...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"
        )
        assert browser.run("getComputedStyle(document.querySelector('h1')).fontSize") == "27.2px"
        assert browser.run("document.scripts.length") == 0
    finally:
        browser.close()
