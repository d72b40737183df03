import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.website.build import PageNames, create_website
from ann_benchmarks.website.columns import natural
from ann_benchmarks.website.plots import all_plot_variants, escape

from .browser import Page
from .plotting_data import make_result, make_truth

NASTY = '</script><script>alert(1)</script> & "q" $x_1$'
VARIANTS = list(all_plot_variants)


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
    assert script.startswith('"use strict"') and len(list(site.iterdir())) == 9  # 7 pages and these
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|fetch\(|XMLHttp|import[ (]", script
    )
    assert re.findall(r"https?://[^\"]*", script) == ["http://www.w3.org/2000/svg"]  # a name, not an address


def columns(page):
    """The columns of a page's points by name, with a value for each point."""
    points = json.loads(page.data)["points"]
    found = {}
    for column in points["columns"]:
        values = column.get("at" if "words" in column else "values") or [column["same"]] * points["count"]
        found[column["id"]] = [column["words"][i] for i in values] if "words" in column else values
    return found


def test_pages_hold_the_data_and_escape_it(site):
    page = Page(site / "mine_10_angular.html")
    found = columns(page)
    assert Counter(found["series"]) == {"pgvector_hnsw": 5, NASTY: 4}
    assert page.tags.count("script") == 2  # the data and website.js: the name has added none
    assert NASTY in page.text
    own = [i for i, name in enumerate(found["series"]) if name == "pgvector_hnsw"]
    assert sorted(round(found["recall"][i], 2) for i in own) == [0.7, 0.8, 0.9, 0.95, 0.99]
    assert sorted(found["qps"][i] for i in own) == pytest.approx([1, 125, 250, 500, 1000])
    charts = json.loads(page.data)["charts"]
    assert {"id": "recall-time", "x": "recall", "y": "qps", "better": [1, 1]} in charts
    assert {"id": "recall-p99", "x": "recall", "y": "p99", "better": [1, -1]} in charts
    assert "Recall / Distance computations" in page.text.partition("Nothing is recorded for:")[2]


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


def test_recall_1_is_in_the_data_although_its_relative_error_is_infinite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("zero", distances=np.zeros((4, 10), np.float32))
    make_result("zero", "a", "x", truth, 1.0, 1e-3)
    create_website(Path("site"), VARIANTS)
    data = Page(Path("site/zero_10_euclidean.html")).data
    assert "Infinity" not in data and "NaN" not in data
    assert columns(Page(Path("site/zero_10_euclidean.html")))["recall"] == [1]


def test_numbers_in_words_sort_by_size():
    sizes = ["all", "16 GB", "512 MB", "1.5 GB", "2 GB"]
    assert sorted(sizes, key=natural) == ["512 MB", "1.5 GB", "2 GB", "16 GB", "all"]
    assert sorted(["0.10.1", "0.9.2", "0.8"], key=natural) == ["0.8", "0.9.2", "0.10.1"]
