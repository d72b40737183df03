import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.at_recall import find_at_recall
from ann_benchmarks.results.filtered import filtered_speed
from ann_benchmarks.website import build
from ann_benchmarks.website.build import create_website
from ann_benchmarks.website.columns import server_column
from ann_benchmarks.website.plots import all_plot_variants

from .browser import CHROMIUM, Browser
from .filtered_data import make_filtered
from .plotting_data import make_result, make_truth
from .report_data import make_run
from .test_website import NASTY
from .website_data import SIZES, tier_attrs

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")]

VARIANTS = list(all_plot_variants)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}

# What a test's script asks of a page.
HELPERS = """
window.$ = (selector, root = document) => [...root.querySelectorAll(selector)];
window.plotOf = (selector) => document.querySelector(`${selector} .plot`);
window.curvesOf = (selector) => Object.fromEntries($('g g[data-series]', plotOf(selector))
  .map((g) => [g.dataset.series, $('.mark', g).length]));
window.rows = () => $('#table tbody tr').length;
window.box = (facet, value) => $('fieldset').find((f) => f.querySelector('legend').textContent === facet)
  .querySelectorAll('label')[value].querySelector('input');
window.press = (plot, key) => plot.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
window.fire = (plot, type, x, y, pointerType = 'mouse') => {
  const area = plot.getBoundingClientRect();
  plot.dispatchEvent(new PointerEvent(type,
    { clientX: area.left + x, clientY: area.top + y, pointerId: 1, button: 0, bubbles: true, pointerType }));
};
window.markAt = (plot, i = 0) => $('.mark', plot)[i].getAttribute('transform').match(/[0-9.]+/g).map(Number);
window.setNumber = (i, value) => {
  const input = $('input[type=number]')[i];
  input.value = value;
  input.dispatchEvent(new Event('change'));
};
"""
FRONTIER = "[data-chart=recall-time][data-points=frontier]"
RAM = "[data-compare=ram][data-metric=qps]"
# Names of indexes may be of any length; the other texts of a plot have room.
IS_CUT = """(text) => {
  if (text.previousElementSibling.matches('.guide')) return false;
  const [one, all] = [text, text.closest('svg')].map((shape) => shape.getBoundingClientRect());
  return one.left < all.left - 1 || one.right > all.right + 1;
}"""
EVERYTHING = f"[curvesOf('{FRONTIER}'), curvesOf('{RAM}'), rows()]"


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two algorithms by 1 and 32 clients on three tiers, each at two recalls; three versions.

    `few` has too few queries for a 99th percentile.
    """
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        truth = make_truth("d")
        for algorithm, factor in (("pgvector_hnsw", 1), ("vchord", 2), (NASTY, 1)):
            for clients in (1, 32):
                for i, ram in enumerate(SIZES):
                    for recall in (0.9, 0.96):
                        qps = 100 * factor * clients * (i + 1) * (1.5 - recall)
                        attrs = tier_attrs(
                            clients, ram, qps_low=0.9 * qps, qps_high=1.1 * qps, index_size=4e5
                        )
                        label = f"{algorithm}-c{clients}-cgroup-sb256MB-ram{ram}"
                        folder_name = label.replace("/", "_").replace(NASTY.replace("/", "_"), "nasty")
                        found = {"target_recall": 0.95} if recall > 0.95 else {}
                        attrs |= {"algo": label, "build_arguments": '["euclidean", {"M": 16}]', **found}
                        arguments = f"ef={recall}"
                        make_result("d", folder_name, arguments, truth, recall, 1 / qps, **attrs)
        versions = [("versions", version, "18.1") for version in ("0.7.4", "0.8.1", "0.10.0")]
        for dataset, version, postgres in (
            *versions,
            ("servers", "0.7.4", "17.12"),
            ("servers", "0.8.1", "18.1"),
        ):
            attrs = {"vector_version": version, "postgres_version": postgres, "clients": 1}
            name = f"pgvector_hnsw-{version}"
            make_result(dataset, name, "x", truth, 0.96, 1e-3, algo="pgvector_hnsw", **attrs)
            make_truth(dataset)
        truth = make_truth("few", queries=100)
        for ram in SIZES:
            label = f"ivf-c1-cgroup-sb256MB-ram{ram}"
            make_result("few", label, "x", truth, 0.96, 1e-3, algo=label, **tier_attrs(1, ram))
        create_website(Path("site"), VARIANTS, scatter=True)
    return folder / "site"


def opened(browser, page, fragment="", **window):
    browser.open(page, fragment, **(window or DESKTOP))
    assert not browser.errors
    browser.run("{" + HELPERS + "}")
    return browser.run


def test_a_metric_that_no_result_has_leaves_the_plots_of_others(browser, site):
    run = opened(browser, site / "few_10_euclidean.html")
    assert run(f"curvesOf('{RAM}')") == {"ivf": 3}
    assert run("[$('[data-metric=p99]').every((c) => c.closest('[hidden]')), rows()]") == [True, 3]


def test_recall_by_query_is_drawn_and_follows_the_recall_that_is_compared(browser, site):
    run = opened(browser, site / "d_10_euclidean.html")
    curves = run("curvesOf('[data-recalls]')")
    assert len(curves) == 6 and set(curves.values()) == {10}  # 40 queries find nothing, the others all
    run("press(plotOf('[data-recalls]'), 'ArrowRight')")
    note = "$('[data-recalls] .label').at(-1).textContent"
    assert "next to a recall of 0.95" in run(note) and "nearly equal" in run(note)
    run("setNumber(0, 0.999)")
    assert run("curvesOf('[data-recalls]')") == {} and "0.999" in run(note)


def test_filters_apply_to_every_plot_and_the_table_and_are_in_the_address(browser, site):
    page = site / "d_10_euclidean.html"
    run = opened(browser, page)
    everything = run(EVERYTHING)
    names = {
        f"{name}, {text}"
        for name in ("pgvector_hnsw", "vchord", NASTY)
        for text in ("1 client", "32 clients")
    }
    # The first plot has one load, that with the most memory; the others run over clients and memory.
    assert set(everything[0]) == {name for name in names if name.endswith(", 1 client")}
    note = run(f"$('{FRONTIER} .label')[0].textContent")
    assert note.startswith("Shown: 1 client, 4 GB RAM. For the 30 points under other loads, use the filters")
    assert set(everything[1]) == names and everything[2] == 36
    assert set(everything[1].values()) == {3}  # of each line the fastest that reaches 0.95, at each RAM
    run("{ box('Clients', 1).click(); box('Available RAM', 2).click(); setNumber(0, 0.93); }")
    few = f"[...{EVERYTHING}, $('.filterbar .count')[0].textContent]"
    filtered = run(few)
    at_32 = {name for name in names if "32" in name}
    assert set(filtered[0]) == set(filtered[1]) == at_32 and set(filtered[1].values()) == {1}
    assert filtered[2] == 3 and filtered[3] == "3 of 36 points"
    fragment = run("location.hash")
    assert fragment == "#clients=32&ram=4+GB&least=0.93"
    assert opened(browser, page, fragment)(few) == filtered
    assert browser.run("box('Clients', 1).checked && !box('Clients', 0).checked")
    browser.run("$('.filterbar button').find((b) => b.textContent === 'Reset').click()")
    assert browser.run(EVERYTHING) == everything
    assert browser.run("location.hash") == "" and not browser.errors


def test_an_address_with_nonsense_shows_everything(browser, site):
    run = opened(browser, site / "d_10_euclidean.html", "#clients=7&least=x&by=nothing&at=%zz&<b>=1")
    assert run("rows()") == 36
    assert opened(browser, site / "d_10_euclidean.html", "#points")("rows()") == 36


def test_curves_are_split_and_switched_off(browser, site):
    run = opened(browser, site / "d_10_euclidean.html", "#by=algorithm")
    assert set(run(f"curvesOf('{FRONTIER}')")) == {"pgvector_hnsw", "vchord", NASTY}
    run("{ box('Clients', 0).click(); box('Clients', 1).click(); }")  # both, which is a choice of a load
    assert "whatever their clients, available RAM" in run(f"$('{FRONTIER} .label')[0].textContent")
    run("{ box('Clients', 0).click(); box('Clients', 1).click(); }")
    legend = f"$('{FRONTIER} .legend [data-series=vchord]')[0]"
    run(f"{{ {legend}.focus(); {legend}.click(); }}")
    assert set(run(f"curvesOf('{FRONTIER}')")) == {"pgvector_hnsw", NASTY}
    assert run(f"[rows(), {legend}.getAttribute('aria-pressed'), document.activeElement === {legend}]") == [
        *(24, "false", True)
    ]
    assert run("location.hash") == "#by=algorithm&off=vchord"
    run(f"$('{FRONTIER} .all button')[1].click()")
    assert run(f"[rows(), curvesOf('{FRONTIER}')]") == [0, {}]
    run(f"$('{FRONTIER} .all button')[0].click()")
    assert run("rows()") == 36 and not browser.errors


def test_points_lie_where_their_values_are(browser, site):
    run = opened(browser, site / "d_10_euclidean.html", "#algorithm=vchord&clients=1")
    assert run(f"$('{RAM} .plot > text').map((t) => t.textContent)")[:3] == ["256 MB", "1 GB", "4 GB"]
    heights = run(f"[0, 1, 2].map((i) => markAt(plotOf('{RAM}'), i))")
    (x0, y0), (x1, y1), (x2, y2) = heights
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.3)  # 256 MB, 1 GB and 4 GB on a logarithmic axis
    assert (y0 - y1) / (y0 - y2) == pytest.approx(math.log(2) / math.log(3), abs=0.02)  # QPS of 1 : 2 : 3
    assert run(f"$('{RAM} .bar').length") == 3 and run(f"$('{RAM} .guide').length") == 1
    assert run(f"$('{FRONTIER} .found').length") == 1
    assert opened(browser, site / "d_10_euclidean.html", "#at=0.99")(f"curvesOf('{RAM}')") == {}


def test_details_on_hover_press_and_keys(browser, site):
    run = opened(browser, site / "d_10_euclidean.html", "#algorithm=vchord&clients=1")
    plot, tip = f"plotOf('{RAM}')", f"$('{RAM} .tip')[0]"
    run(f"{plot}.scrollIntoView()")
    run(f"{{ const [x, y] = markAt({plot}); fire({plot}, 'pointermove', x + 3, y + 3); }}")
    said = run(f"{tip}.innerText")
    for expected in ("vchord, 1 client", "(ef=0.96)", "0.96", "256 MB", "M=16", "DataFileRead 60%"):
        assert expected in said
    assert "(97.2–118.8)" in said and "maintenance" not in said and "Some CPU" not in said
    press = f"for (const t of ['down', 'up']) fire({plot}, 'pointer' + t, x, y)"
    run(f"{{ const [x, y] = markAt({plot}); {press}; }}")
    run(f"fire({plot}, 'pointermove', 5, 5)")
    assert "Some CPU, 8 cores, 64 GB" in run(f"{tip}.innerText")  # all of it, and it stays
    run(f"press({plot}, 'Escape')")
    assert run(f"{tip}.hidden")
    run(f"{{ {plot}.focus(); press({plot}, 'ArrowRight'); press({plot}, 'ArrowRight'); }}")
    assert "1 GB" in run(f"{tip}.innerText")
    ticks = f"$('text', {plot}).map((t) => t.textContent).join(' ')"
    before = run(ticks)
    run(f"fire({plot}, 'pointerdown', 120, 40); fire({plot}, 'pointermove', 220, 120)")
    run(f"fire({plot}, 'pointerup', 220, 120)")
    assert run(ticks) != before
    run(f"$('{RAM} .tools button').at(-1).click()")
    assert run(ticks) == before and not browser.errors


def test_the_table_sorts(browser, site):
    run = opened(browser, site / "d_10_euclidean.html")
    head = "$('#table thead button').find((b) => b.textContent.startsWith('Queries per second'))"
    column = f"$('#table thead button').indexOf({head})"
    values = f"$('tbody tr').map((r) => parseFloat(r.children[{column}].textContent.replaceAll(',', '')))"
    run(f"{head}.click()")
    descending = run(values)
    run(f"{head}.click()")
    assert descending == sorted(descending, reverse=True) and run(values) == sorted(descending)
    assert run(f"{head}.parentNode.getAttribute('aria-sort')") == "ascending"
    run("$('#table .tools button')[0].click()")
    assert "Machine" in run("$('#table thead')[0].textContent")
    assert run("$('#table tbody a').map((a) => a.getAttribute('href'))").count("vchord.html") == 12


def test_builds_and_versions(browser, site):
    run = opened(browser, site / "d_10_euclidean.html")
    builds = run("$('.builds li').map((li) => li.innerText)")
    assert len(builds) == 3 and "12.5 s (loading 2.5 s, index 10 s)" in builds[0] and "391 MB" in builds[0]
    assert run("document.getElementById('versions').hidden")
    run = opened(browser, site / "versions_10_euclidean.html")
    plot = "[data-compare=versions][data-metric=qps]"
    assert run(f"$('{plot} .plot > text').map((t) => t.textContent)")[:3] == ["0.7.4", "0.8.1", "0.10.0"]
    assert run(f"curvesOf('{plot}')") == {"pgvector_hnsw": 3}
    assert run("['ram', 'clients'].map((id) => document.getElementById(id).hidden)") == [True] * 2


@pytest.mark.parametrize("name", ["d_10_euclidean", "vchord", "index"])
def test_nothing_overflows_on_a_phone(browser, site, name):
    run = opened(browser, site / f"{name}.html", **PHONE)
    run("{ for (const d of $('details')) d.open = true; $('.filterbar button')[0]?.click(); }")
    run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert run("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    if name == "index":
        assert run("$('.preview svg').every((svg) => svg.querySelector('.curve, .mark'))")
        return
    assert run("!$('.filters')[0].hidden")
    plot = f"plotOf('{FRONTIER}')"
    run(f"{plot}.scrollIntoView()")
    tap = f"for (const t of ['down', 'up', 'leave']) fire({plot}, 'pointer' + t, x, y, 'touch')"
    run(f"{{ const [x, y] = markAt({plot}); {tap}; }}")
    sheet = f"$('{FRONTIER} .tip')[0].getBoundingClientRect()"
    place = run(f"{{ const box = {sheet}; return [box.left, box.right, box.bottom]; }}")
    assert place == [0, 360, 740]  # a sheet at the bottom
    run(f"$('{FRONTIER} .close')[0].click()")
    assert run(f"$('{FRONTIER} .tip')[0].hidden") and not browser.errors


def test_every_page_draws_without_errors_and_in_the_dark(browser, site):
    for page in site.glob("*.html"):
        run = opened(browser, page, **DESKTOP, dark=True)
        assert run("document.documentElement.dataset.drawn") == "yes"
        assert run("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 22)"
        run("{ for (const d of $('details')) d.open = true; }")
        run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
        assert run("$('.chart').every((c) => c.closest('[hidden]') || c.querySelector('.plot .mark'))")
        assert run(f"$('.plot text').filter({IS_CUT}).map((text) => text.textContent)") == []
        assert not browser.errors


def test_a_thousand_points_stay_small_and_readable(browser, tmp_path, monkeypatch):
    """Of 2 algorithms by 5 numbers of clients on 6 tiers."""
    draw = random.Random(1)
    runs = [
        make_run(
            ("vchord", "pgvector_hnsw")[i % 2], [draw.uniform(10, 5000)], draw.uniform(0.6, 0.98),
            clients=4 ** (i // 2 % 5), ram=1 + i // 10 % 6, name=f"Index(m=16, ef_search={i})", dataset="d",
        )
        for i in range(1000)
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "load_runs", lambda *_: runs)
    create_website(Path("site"), VARIANTS)
    page = tmp_path / "site" / "d_10_euclidean.html"
    assert page.stat().st_size < 1.5e6
    run = opened(browser, page)
    shown = run(f"curvesOf('{FRONTIER}')")  # by algorithm and clients, of 60 series; those of one load
    assert 1 < len(shown) <= 5 and len({name.partition(",")[2] for name in shown}) == 1
    assert run("rows()") == 100
    run("box('Clients', 1).click()")
    assert len(run(f"curvesOf('{FRONTIER}')")) > 1
    run("{ box('Clients', 1).click(); box('One curve for each', 0).click(); }")
    assert len(run(f"curvesOf('{FRONTIER}')")) == 60
    assert run(f"$('{FRONTIER} .legend [data-series]').length") == 12
    assert not browser.errors


# Pages compare at equal recall, by the numbers of reports, and on one server.


PG17, PG18 = ({"postgres_version": version, "cpu": "C", "cores": 8} for version in ("17.12", "18.4"))
SHOWN = """
(() => {
  const chart = document.querySelector('[data-chart=recall-time][data-points=frontier]');
  const marks = chart.querySelectorAll('.plot g g[data-series] .mark');
  return [marks.length, chart.querySelector('.label').textContent];
})()
"""


def test_servers_are_named_where_there_are_several():
    runs = [make_run(**PG17), make_run(**PG18), make_run("b", **PG18)]
    assert [server_column(runs).value(run) for run in runs] == ["PostgreSQL 17.12", *["PostgreSQL 18.4"] * 2]
    assert server_column(runs[1:]).value(runs[1]) is None


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        truth = make_truth("d")
        for mark, server, recalls in (("", PG17, (0.9, 0.95)), ("new", PG18, (0.9, 0.95, 0.99))):
            for clients in (1, 4):
                series = Series("hnsw", clients=clients, environment=mark)
                more = {"clients": clients, "series": series.dump_json(), **server}
                for recall in recalls:
                    make_result("d", series.folder, f"{recall}", truth, recall, 1e-3 / (1 - recall), **more)
        create_website(Path("site"), ["recall/time"])
    opened = Browser()
    opened.open(folder / "site" / "d_10_euclidean.html")
    yield opened
    opened.close()


def test_the_first_chart_is_of_one_load_on_one_server(two_servers):
    marks, note = two_servers.run(SHOWN)
    assert marks == 3
    assert note.startswith("Shown: 1 client, PostgreSQL 18.4. For the 7 points under other loads or on other")


def as_point(run):
    bounds = {"recall": [run.attrs["recall_low"], run.attrs["recall_high"]]}
    bounds["qps"] = [run.attrs["qps_low"], run.attrs["qps_high"]]
    exact = {"exact": 1} if run.attrs.get("is_exact") else {}
    return {**run.metrics, **exact, "built": run.attrs["build_arguments"], "bars": bounds}


def test_figures_at_a_recall_are_those_of_reports(two_servers):
    rng = np.random.default_rng(5)
    groups, expected = [], []
    for _ in range(200):
        runs = []
        for i in range(int(rng.integers(1, 6))):
            recall, qps = (
                float(rng.choice([rng.uniform(0.8, 1), 1.0, 0.9498], p=[0.8, 0.1, 0.1])),
                float(rng.uniform(1, 9)),
            )
            index = f'["euclidean", {{"M": {rng.integers(1, 3)}}}]'
            sure = {
                "qps_low": 0.9 * qps,
                "qps_high": 1.2 * qps,
                "recall_low": recall - float(rng.uniform(0, 0.02)),
            }
            sure |= {"recall_high": min(recall + 0.01, 1.0), "build_arguments": index, "name": f"{i}"}
            if recall == 1.0 and rng.random() < 0.5:
                sure["is_exact"] = True
            runs.append(make_run(rates=(qps,), recall=recall, run_count=3, **sure))
        runs = [replace(run, attrs={**run.attrs, "run_seconds": []}) for run in runs]
        found = find_at_recall({"": runs}, 0.95).get("")
        expected.append(found and [runs.index(found.run), found.qps, *found.interval, found.is_bound])
        groups.append([as_point(run) for run in runs])
    assert sum(one is None for one in expected) > 5 and sum(bool(one and one[-1]) for one in expected) > 5
    script = (
        f"{json.dumps(groups)}.map((points) => [points, atRecall(points, 0.95, [])])"
        ".map(([points, at]) => at && [points.indexOf(at.point), at.qps, ...at.bar, at.isBound])"
    )
    for theirs, ours in zip(two_servers.run(script), expected, strict=True):
        assert theirs == (ours and pytest.approx(ours, rel=1e-9))


@pytest.mark.parametrize(("recall", "complete"), [(0.97, 1.0), (0.97, 0.98), (0.97, 0.995), (0.9, 0.99)])
def test_pages_judge_recall_and_completeness_as_reports_do(two_servers, recall, complete):
    run = make_filtered("a", "uniform:0.1", 100, recall, complete)
    known = [run.attrs[f"completeness_{end}"] for end in ("low", "high")]
    bars = {"recall": [run.attrs["recall_low"], run.attrs["recall_high"]], "completeness": known}
    point = {"recall": recall, "completeness": complete, "bars": bars}
    found = two_servers.run(f"withBoth({json.dumps(point)}, 0.95)")
    speed = filtered_speed(run, 0.95)
    assert [found["recall"], *found["bars"]["recall"]] == pytest.approx([speed.recall, *speed.interval])
