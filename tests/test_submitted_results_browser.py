import base64
from contextlib import suppress
from statistics import median

import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.website.submissions import create_submissions_site

from .browser import CHROMIUM, Browser
from .programs import PATIENCE, ROOT, until
from .submitted_bundles import MACHINES, begin_bundle, finish_bundle, make_bundle, put_result
from .submitted_points import write_made_up_table
from .test_website import NASTY
from .test_website_browser import DESKTOP, PHONE, opened

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")]

MADE_UP_PRICES = (ROOT / "prices" / "example.yml").read_text()
HOSTILE_REPORT = """<!doctype html><html><head><meta charset="utf-8">
<meta http-equiv="refresh" content="0;url=about:blank"><title>report</title></head>
<body onload="document.title = 'ran'"><script>document.title = 'ran'</script><img src="a.png">
<img src="x" onerror="document.title = 'ran'"><a href="javascript:void(document.title = 'ran')">link</a>
"""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OPENING = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
CELL = "(name) => $('#table tbody tr').map((row) => row.children[heads().indexOf(name)].textContent)"
HELP = f"""{{
  window.heads = () => $('#table thead button').map((b) => b.textContent.replace(/ [▼▲]$/, ''));
  window.cells = {CELL};
  window.head = (name) => $('#table thead button')[heads().indexOf(name)];
  window.setLimit = (label, value) => {{
    const input = $('.recalls label').find((l) => l.textContent === label).querySelector('input');
    input.value = value;
    input.dispatchEvent(new Event('change'));
  }};
}}"""


@pytest.fixture(scope="module")
def browser():
    started = Browser()
    yield started
    started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Three simulated servers with prices, filtered results of one, and a bundle whose texts are hostile."""
    folder = tmp_path_factory.mktemp("table")
    for machine in MACHINES:
        make_bundle(folder / "given" / machine, machine, texts={"prices.yml": MADE_UP_PRICES})
    hostile = folder / "given" / "hostile"
    begin_bundle(hostile)
    begin_bundle(hostile, "d--uniform-1")
    attrs = {"cpu": NASTY, "disk": "\u202egpj.exe\u202c שלום", "name": f"javascript:alert(1) {NASTY}"}
    put_result(hostile, "d", Series("<img src=x onerror=alert(1)>"), "a", 0.97, 9.0, **attrs)
    put_result(hostile, "d", Series("x", filter="uniform:1"), "a", 0.97, 8.0, selectivity=0.01, **attrs)
    (hostile / "report").mkdir()
    (hostile / "report" / "a.png").write_bytes(base64.b64decode(PNG))
    finish_bundle(hostile, NASTY, texts={"report/report.html": HOSTILE_REPORT}, contact="javascript:alert(1)")
    create_submissions_site(folder / "site", [folder / "given"])
    return folder / "site"


def shown(browser, page, fragment="", **window):
    run = opened(browser, page, fragment, **window)
    run(HELP)
    return run


def test_rows_are_filtered_and_sorted_and_the_address_keeps_it(browser, site):
    page = site / "index.html"
    run = shown(browser, page)
    assert run("rows()") == 14  # with a recall of at least 0.95
    assert run("$('.filterbar .count')[0].textContent") == "14 of 26 points"
    first = run("[cells('Bundle')[0], cells('Memory')[0], head('QPS').textContent]")
    assert first == ["A large server", "64 GB", "QPS ▼"]
    run("setLimit('Recall at least', '')")
    assert run("rows()") == 26
    run("{ box('Memory', 1).click(); box('Clients', 0).click(); }")
    run("{ head('Recall').click(); head('Recall').click(); }")
    few = "[cells('Bundle'), cells('Recall'), cells('Memory')]"
    found = run(few)
    assert set(found[0]) == {"A medium server"} and [text[:4] for text in found[1]] == [
        "0.9 ",
        "0.9 ",
        "0.96",
        "0.96",
    ]
    address = run("location.hash")
    assert set(address[1:].split("&")) == {"memory=16+GB", "clients=1", "least=0", "sort=recall"}
    assert shown(browser, page, address)(few) == found
    browser.run("$('.filterbar button').find((b) => b.textContent === 'Reset').click()")
    assert browser.run("[rows(), location.hash]") == [14, "#sort=recall"]


@pytest.mark.parametrize(
    ("facet", "value", "bundles"),
    [
        ("Disk", "nvme", {"A large server"}),
        ("CPU", "8 × Some CPU", {"A medium server"}),
        ("Selectivity", "0.01", {NASTY}),
        ("Extensions", "pgvector 0.8.1, VectorChord 1.0.0", {f"A {machine} server" for machine in MACHINES}),
    ],
)
def test_hardware_versions_and_selectivity_are_filters(browser, site, facet, value, bundles):
    run = shown(browser, site / "index.html")
    legend = {"Selectivity": "Share of rows that pass"}.get(facet, facet)
    choices = f"$('fieldset').find((f) => f.querySelector('legend').textContent === '{legend}')"
    label = f"$('label', {choices}).find((l) => l.children[1].textContent === '{value}')"
    run(f"{label}.querySelector('input').click()")
    assert set(run("cells('Bundle')")) == bundles


def test_prices_limit_what_is_shown(browser, site):
    run = shown(browser, site / "index.html")
    prices = [float(text) for text in run("cells('Price of a month (USD)').filter((t) => t !== '–')")]
    assert len(set(prices)) == 2  # of the large server, none is known
    run(f"setLimit('Price of a month at most', {min(prices)})")
    assert set(run("cells('Bundle')")) == {"A small server"} and "most=" in run("location.hash")
    qps, queries = run(
        "[cells('QPS')[0], cells('Queries per USD')[0]].map((t) => parseFloat(t.replaceAll(',', '')))"
    )
    assert queries == pytest.approx(qps * 730 * 3600 / min(prices), rel=0.01)


def test_cold_stands_beside_warm_with_intervals(browser, site):
    run = shown(browser, site / "index.html", "#memory=4+GB&clients=1&algorithm=vchord")
    assert run("heads().indexOf('Cold QPS') - heads().indexOf('QPS')") == 1
    assert run("heads().indexOf('Cold p99 (ms)') - heads().indexOf('p99 (ms)')") == 1
    assert run("[cells('QPS'), cells('Cold QPS')]") == [["108 (97.2–118.8)"], ["7 (6.3–7.7)"]]
    run("{ navigator.clipboard.writeText = async (text) => (window.copied = text); }")
    run("$('#table .tools button')[1].click()")
    heading, line = (text.split(",") for text in run("copied").splitlines())
    place = heading.index("Cold QPS")
    assert heading[place : place + 3] == ["Cold QPS", "Cold QPS low", "Cold QPS high"]
    assert [float(value) for value in line[place : place + 3]] == [7, 6.3, 7.7]


def test_a_row_opens_its_bundle_and_its_report(browser, site):
    run = shown(browser, site / "index.html", "#bundle=A+large+server")
    run("$('#table tbody a')[0].click()")

    def heading():
        with suppress(AssertionError):  # between two pages
            return browser.run("document.querySelector('h1')?.textContent")

    until(lambda: heading() == "A large server")
    assert browser.run("location.pathname.endsWith('/large.html')")
    back = browser.run("document.querySelector('.links a').getAttribute('href')")
    assert back.startswith("index.html#bundle=A+large+server")
    assert shown(browser, site / "index.html", back.removeprefix("index.html"))("rows()") == 8


def test_nothing_of_a_stranger_runs(browser, site):
    for page in ("index.html", "hostile.html"):
        run = shown(browser, site / page)
        assert run("document.scripts.length") == 2 and run("document.images.length") == (page != "index.html")
        assert NASTY in run("document.body.textContent")
        assert not run("[...document.links].some((link) => link.protocol === 'javascript:')")
    assert not browser.errors
    browser.open(site / "bundles/hostile/report/report.html")
    browser.run("document.querySelector('a').click()")
    assert browser.run("new Promise((done) => setTimeout(() => done(document.title), 200))") == "report"
    assert browser.run("[document.images[0].naturalWidth, location.pathname.endsWith('report.html')]") == [
        1,
        True,
    ]


@pytest.mark.parametrize("page", ["index", "hostile", "large"])
def test_nothing_overflows_on_a_phone(browser, site, page):
    run = shown(browser, site / f"{page}.html", **PHONE)
    run("{ for (const d of $('details')) d.open = true; $('.filterbar button')[0]?.click(); }")
    assert run("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    if page == "index":
        run("$('.filterbar button')[0].click()")
        run("{ $('.scroll')[0].scrollLeft = 600; }")
        left = "$('#table tbody tr')[0].children[0].getBoundingClientRect().left"
        assert run(f"{left} - $('.scroll')[0].getBoundingClientRect().left") < 3  # the bundle stays in sight
    assert not browser.errors


@pytest.mark.parametrize("window", [DESKTOP, PHONE])
def test_long_names_leave_the_rest_in_sight(browser, site, window):
    run = shown(browser, site / "index.html", **window)
    algorithms = run("$('#table tbody tr').map((row) => row.children[1].getClientRects()[0].height)")
    texts = "$('#table tbody tr')[0].children[{0}].querySelector('.few').textContent = '{1}'.repeat(90)"
    run(f"{{ {texts.format(0, 'Name')}; {texts.format(1, 'name_')}; }}")
    place = "heads().indexOf('Parameters')"
    run(f"{{ {texts.format(place, 'parameter=1, ')}; }}")
    boxes = "[0, 1].map((i) => $('#table tbody tr')[0].children[i].getBoundingClientRect())"
    widths = run(f"{boxes}.map((box) => box.width)")
    assert max(widths) <= 14 * 16 and run(f"{boxes}[0].height") <= max(algorithms) + 60  # three lines
    run("$('.card strong')[0].textContent = 'Name'.repeat(90)")
    assert run("$('.card strong')[0].getBoundingClientRect().height") <= 3 * 16 * 1.5 + 1
    assert run("document.documentElement.scrollWidth") == window["width"]


def test_points_from_cold_caches_alone_have_a_table(browser, tmp_path):
    begin_bundle(tmp_path / "cold")
    put_result(tmp_path / "cold", "d", Series("x", clients=1, is_cold=True), "a", 0.97, 9.0)
    finish_bundle(tmp_path / "cold", "Cold")
    create_submissions_site(tmp_path / "site", [tmp_path / "cold"])
    run = shown(browser, tmp_path / "site" / "index.html")
    assert run("[rows(), head('Cold QPS').textContent]") == [1, "Cold QPS ▼"]
    assert run("document.querySelector('.lead').textContent").startswith("1 measured point of 1 bundle.")
    assert "Origin" not in shown(browser, tmp_path / "site" / "cold.html")("document.body.textContent")


def test_a_thousand_points_open_soon(browser, tmp_path):
    page = write_made_up_table(tmp_path)
    assert page.stat().st_size < 600_000
    seconds = []
    for _ in range(3):
        run = shown(browser, page, **DESKTOP)
        seconds.append(run(OPENING) / 1e3)
    assert run("$('.filterbar .count')[0].textContent").endswith("of 1,000 points")
    assert run("[rows(), $('.card').length]") == [100, 20]
    assert median(seconds) < 3 * PATIENCE  # 1 s where nothing else runs
