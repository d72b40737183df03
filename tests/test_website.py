import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.atomic import atomic_path
from ann_benchmarks.errors import UserError
from ann_benchmarks.plotting.plot_variants import all_plot_variants
from ann_benchmarks.plotting.website import create_website
from ann_benchmarks.plotting.website.latex import escape
from ann_benchmarks.plotting.website.names import PageNames

from .plotting_data import make_result, make_truth

NASTY = '</script><script>alert(1)</script> & "q" $x_1$'
VARIANTS = list(all_plot_variants)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--window-size=1280,900", "--virtual-time-budget=3000", "--dump-dom"),
]


class Page(HTMLParser):
    """The links, identifiers, scripts' data and texts of a page."""

    def __init__(self, path):
        super().__init__()
        self.references, self.ids, self.data, self.text = [], [], "", ""
        self.tags, self.inside = [], (None, None)
        self.feed(path.read_text(encoding="utf-8"))

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


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("mine", metric="angular")
    make_truth("other-10")
    for i, recall in enumerate((0.8, 0.9, 0.95, 0.99)):
        seconds, angular = 1e-3 * 2**i, {"distance": "angular"}
        nasty = {"algo": NASTY, "name": f"{NASTY}{i}", **angular}
        make_result("mine", "pgvector_hnsw", f"ef={i}", truth, recall, seconds, **angular)
        make_result("mine", "nasty", f"x{i}", truth, recall - 0.1, seconds * 2, **nasty)
        make_result("other-10", "pgvector_hnsw", f"ef={i}", truth, recall, seconds)
    make_result("mine", "pgvector_hnsw", "worse", truth, 0.7, 1.0, **angular)
    make_result("mine", "index", "a", truth, 0.9, 1e-3, batch=True, **angular)
    pages = create_website(Path("site"), VARIANTS, latex=True, scatter=True)
    folder = tmp_path / "site"
    assert pages == len(list(folder.glob("*.html"))) == 7
    return folder


def test_every_link_resolves_and_nothing_is_fetched_from_elsewhere(site):
    for path in site.glob("*.html"):
        page = Page(path)
        assert page.ids and len(page.ids) == len(set(page.ids))
        for reference in page.references:
            file, _, fragment = reference.partition("#")
            assert re.fullmatch(r"[A-Za-z0-9._-]*", file), reference
            target = site / file if file else path
            assert target.is_file(), reference
            assert not fragment or fragment in Page(target).ids, reference
    style = (site / "website.css").read_text()
    assert "url(" not in style and "@import" not in style
    script = (site / "website.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|fetch\(|XMLHttp|import[ (]", script
    )
    assert re.findall(r"https?://[^\"]*", script) == ["http://www.w3.org/2000/svg"]  # a name, not an address


def test_pages_hold_the_data_and_escape_it(site):
    page = Page(site / "mine_10_angular.html")
    data = json.loads(page.data)
    assert {series["name"]: len(series["points"]) for series in data["series"]} == {
        "pgvector_hnsw": 5,
        NASTY: 4,
    }
    assert page.tags.count("script") == 2  # the data and website.js: the name has added none
    assert NASTY in page.text
    metrics = [metric["id"] for metric in data["metrics"]]
    chart = next(chart for chart in data["charts"] if chart["id"] == "recall-time")
    of = [series["name"] for series in data["series"]].index("pgvector_hnsw")
    points = data["series"][of]["points"]
    frontier = [points[i]["values"] for i in chart["frontier"][of]]
    assert [round(v[metrics.index("k-nn")], 2) for v in frontier] == [0.8, 0.9, 0.95, 0.99]
    assert [v[metrics.index("qps")] for v in frontier] == pytest.approx([1000, 500, 250, 125])
    assert len(chart["every"][of]) == 5
    assert (
        "distcomps" not in metrics and "Nothing is recorded for: Recall / Distance computations" in page.text
    )


def test_index_lists_datasets_by_metric_and_algorithms(site):
    text = " ".join(Page(site / "index.html").text.split())
    for expected in ("Angular", "Euclidean", "Angular, batch", "Algorithms, batch", "mine (k = 10)"):
        assert expected in text
    previews = json.loads(Page(site / "index.html").data)["previews"]
    assert all(
        (site / file).is_file() and any(s["points"] for s in series) for file, series in previews.items()
    )


def test_only_the_chosen_plots_without_latex_and_scatter(site):
    create_website(Path("site"), ["recall/p99"])
    text = (site / "mine_10_angular.html").read_text()
    assert [chart["id"] for chart in json.loads(Page(site / "mine_10_angular.html").data)["charts"]] == [
        "recall-p99"
    ]
    assert "pgfplots" not in text and 'data-points="every"' not in text


def test_no_results_and_unwritable_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="nothing to show"):
        create_website(Path("site"), VARIANTS)
    make_result("d", "a", "x", make_truth("d"), 0.9, 1e-3)
    Path("file").write_text("")
    with pytest.raises(UserError, match="cannot write the site to file"):
        create_website(Path("file"), VARIANTS)


def test_page_names_are_safe_and_their_own():
    names = PageNames()
    taken = [
        names.take(title) for title in ("sift_10", "SIFT_10", "index", "../x", "a b", "a_b", "", "é" * 999)
    ]
    assert taken[0] == "sift_10.html"
    assert len({name.lower() for name in taken}) == len(taken)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}\.html", name) for name in taken)
    assert "index.html" not in taken


def test_latex_is_escaped(site):
    assert escape(r"a_b $5% \x{^}~#&") == (
        r"a\_b \$5\% \textbackslash{}x\{\textasciicircum{}\}\textasciitilde{}\#\&"
    )
    text = Page(site / "mine_10_angular.html").text
    assert r"\addlegendentry{pgvector\_hnsw}" in text
    assert r"(0.99, 125)" in text and "only marks" in text


def test_a_failed_write_leaves_the_old_page(site):
    before = (site / "index.html").read_text()
    with pytest.raises(OSError), atomic_path(site / "index.html") as temporary:
        temporary.write_text("half")
        raise OSError
    assert (site / "index.html").read_text() == before


def in_browser(page, script, tmp_path):
    """Run a script on a page in a real browser; return what it puts into `report`."""
    driven = page.with_name("driven.html")
    wrapped = (
        "<script>const report = {}; try {" + script + "} catch (e) { report.error = String(e.stack); }"
        "const out = document.createElement('pre'); out.id = 'data-report';"
        "out.textContent = JSON.stringify(report); document.body.append(out);</script>"
    )
    driven.write_text(page.read_text().replace("</body>", wrapped + "</body>"))
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", driven.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    driven.unlink()
    found = re.search(r'<pre id="data-report">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


INTERACTIONS = """
const $ = (selector) => [...document.querySelectorAll(selector)];
const chart = $('.chart')[0], svg = chart.querySelector(':scope > svg');
const curves = () => chart.querySelectorAll('svg > g g[data-series]').length;
report.drawn = document.documentElement.dataset.drawn;
report.charts = $('.chart > svg').filter((s) => s.querySelector('.mark')).length;
report.curves = curves();
report.rows = $('tbody tr').length;
const head = $('thead button').find((b) => b.textContent.startsWith('Queries per second'));
const column = $('thead button').indexOf(head);
const values = () => $('tbody tr').map((r) => parseFloat(r.children[column].textContent.replaceAll(',', '')));
head.click(); report.descending = values();
head.click(); report.ascending = values();
report.ariaSort = head.parentNode.getAttribute('aria-sort');
const legend = [...chart.querySelectorAll('.legend button')].find((b) => b.textContent.includes('alert(1)'));
legend.click();
report.afterHiding = [curves(), $('tbody tr').length, legend.getAttribute('aria-pressed')];
legend.click();
report.afterShowing = [curves(), $('tbody tr').length, legend.getAttribute('aria-pressed')];
const area = svg.getBoundingClientRect();
const fire = (type, x, y) => svg.dispatchEvent(new PointerEvent(type,
  { clientX: area.left + x, clientY: area.top + y, pointerId: 1, button: 0, bubbles: true }));
const at = svg.querySelector('.mark').getAttribute('transform').match(/[0-9.]+/g).map(Number);
fire('pointermove', at[0] + 3, at[1] + 3);
report.tip = chart.querySelector('.tip').innerText;
const tip = chart.querySelector('.tip').getBoundingClientRect();
report.tipOffset = [Math.min(Math.abs(tip.left - area.left - at[0]), Math.abs(tip.right - area.left - at[0])),
  tip.top - area.top - at[1]];
const ticks = () => [...svg.querySelectorAll('text')].map((t) => t.textContent).join(' ');
const reset = [...chart.querySelectorAll('.tools button')].at(-1);
const whole = ticks();
report.resetBefore = reset.disabled;
fire('pointerdown', 300, 100); fire('pointermove', 500, 200); fire('pointerup', 500, 200);
report.zoomed = ticks() !== whole && !reset.disabled;
reset.click();
report.unzoomed = ticks() === whole && reset.disabled;
chart.querySelectorAll('.tools button')[1].click();
report.linear = ticks() !== whole;
const press = (key) => svg.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
press('ArrowRight'); press('ArrowRight');
report.keyboardTip = !chart.querySelector('.tip').hidden;
report.overflow = document.documentElement.scrollWidth > innerWidth;
"""


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_charts_work_in_a_browser(site, tmp_path):
    report = in_browser(site / "mine_10_angular.html", INTERACTIONS, tmp_path)
    assert report.get("error") is None
    assert report["drawn"] == "yes"
    # Nothing is recorded for distance computations, and with missing neighbours the error is infinite.
    assert report["charts"] == 2 * (len(VARIANTS) - 2)
    assert (report["curves"], report["rows"]) == (2, 9)
    assert report["descending"] == sorted(report["descending"], reverse=True)
    assert report["ascending"] == sorted(report["descending"])
    assert report["ariaSort"] == "ascending"
    assert report["afterHiding"] == [1, 5, "false"]
    assert report["afterShowing"] == [2, 9, "true"]
    assert NASTY in report["tip"] or "pgvector_hnsw" in report["tip"]
    assert "Recall" in report["tip"]
    beside, above = report["tipOffset"]
    assert beside < 30 and -400 < above < 30
    assert report["resetBefore"] and report["zoomed"] and report["unzoomed"]
    assert report["linear"] and report["keyboardTip"] and not report["overflow"]


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_index_draws_previews_in_a_browser(site, tmp_path):
    script = "report.previews = [...document.querySelectorAll('.preview svg')].map((s) => s.children.length);"
    report = in_browser(site / "index.html", script, tmp_path)
    assert len(report["previews"]) == 6 and min(report["previews"]) >= 2


def test_recall_1_is_in_the_data_although_its_relative_error_is_infinite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("zero", distances=np.zeros((4, 10), np.float32))
    make_result("zero", "a", "x", truth, 1.0, 1e-3)
    create_website(Path("site"), VARIANTS)
    data = Page(Path("site/zero_10_euclidean.html")).data
    assert "Infinity" not in data and "NaN" not in data
    assert json.loads(data)["series"][0]["points"][0]["values"][0] == 1.0
