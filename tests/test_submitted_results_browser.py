"""The table of submitted bundles in a browser."""

from pathlib import Path

import pytest

from ann_benchmarks.website.submissions import create_submissions_site

from .browser import CHROMIUM, Browser
from .bundle_data import copied_bundle, point_files, remake, set_attributes
from .load_bundles import copied_loads
from .test_website import NASTY
from .test_website_browser import PHONE, opened

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")]
HELP = """{
  window.heads = () => $('#table thead button').map((b) => b.textContent.replace(/ [▼▲]$/, ''));
  window.cells = (name) => $('#table tbody tr').map((row) => row.children[heads().indexOf(name)].textContent);
  window.head = (name) => $('#table thead button')[heads().indexOf(name)];
}"""


@pytest.fixture(scope="module")
def browser():
    started = Browser()
    yield started
    started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Bundles of several loads, and one whose texts are hostile."""
    folder = tmp_path_factory.mktemp("table")
    loads, hostile = copied_loads(folder / "loads"), copied_bundle(folder / "hostile")
    remake(loads, title="Loads")
    attrs = {"cpu": NASTY, "name": f"javascript:alert(1) {NASTY}"}
    for path in point_files(hostile):
        set_attributes(path, **attrs)
    remake(hostile, title=NASTY, contact="javascript:alert(1)")
    create_submissions_site(folder / "site", [loads, hostile])
    return folder / "site" / "index.html"


def shown(browser: Browser, page: Path, fragment="", **window):
    run = opened(browser, page, fragment, **window)
    run(HELP)
    return run


def test_rows_are_filtered_and_sorted_and_the_address_keeps_it(browser, site):
    run = shown(browser, site, "#least=0")
    every = run("rows()")
    run(f"box('Bundle', {int(NASTY > 'Loads')}).click()")
    assert 0 < run("rows()") < every
    few = "[cells('Bundle'), cells('Parameters')]"
    found = run(few)
    assert len({*found[0]}) == 1
    assert shown(browser, site, run("location.hash"))(few) == found


def test_nothing_of_a_stranger_runs(browser, site):
    run = shown(browser, site)
    assert run("document.scripts.length") == 2 and run("document.images.length") == 0
    assert NASTY in run("document.body.textContent")
    assert not run("[...document.links].some((link) => link.protocol === 'javascript:')")
    assert not browser.errors


def test_nothing_overflows_on_a_phone(browser, site):
    run = shown(browser, site, **PHONE)
    run("{ for (const d of $('details')) d.open = true; $('.filterbar button')[0]?.click(); }")
    assert run("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    run("$('.filterbar button')[0].click()")
    run("{ $('.scroll')[0].scrollLeft = 600; }")
    left = "$('#table tbody tr')[0].children[0].getBoundingClientRect().left"
    assert run(f"{left} - $('.scroll')[0].getBoundingClientRect().left") < 3  # the bundle stays in sight
    assert not browser.errors
