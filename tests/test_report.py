"""Whole reports, from result files to a folder."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.reporting import chapters
from ann_benchmarks.reporting.chapters import ReportOptions, report_results
from ann_benchmarks.reporting.content import Chapter, Report, Shown
from ann_benchmarks.reporting.document import (
    Code,
    Heading,
    Items,
    Listing,
    Paragraph,
    Picture,
    Strong,
    Table,
    html_page,
    markdown_text,
    read_text,
)
from ann_benchmarks.reporting.facts import describe_period, tabulate_facts
from ann_benchmarks.reporting.kinds import make
from ann_benchmarks.reporting.pictures import latency_results
from ann_benchmarks.reporting.report import MARK_FILE, write_report
from ann_benchmarks.results.warnings import warnings_of
from ann_benchmarks.views.workloads import write_chart

from .browser import CHROMIUM, Browser, Page
from .plotting_data import figure_of, make_result, make_truth
from .programs import ROOT
from .report_data import make_run, make_writes

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


def test_authored_text():
    blocks = read_text("Seen **twice**,\nwith `code`\n  here.\n \n# not a heading\n- no list <b>\n")
    assert [block.text for block in blocks] == [
        ["Seen **twice**, with ", Code("code"), " here."], ["# not a heading - no list <b>"],
    ]  # fmt: skip
    assert "&lt;b&gt;" in html_page("t", blocks) and r"\# not a heading - no list \<b\>" in markdown_text(
        blocks
    )


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


# Whole reports, from result files to a folder.


PICTURES = [{"kind": kind} for kind in ("frontier", "latency", "builds", "clients", "tiers")]
TABLES = [{"kind": kind} for kind in ("points", "builds", "tiers", "inserts", "writes")]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Result files of two algorithms, one with a name that means mischief."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("mine")
    for clients in (1, 8):
        for i, recall in enumerate((0.9, 0.96, 0.99)):
            seconds = 1e-3 * 2**i / clients
            for name, algo, slower in (("vchord", "vchord", 1), ("nasty", NASTY, 2)):
                attrs = {
                    "clients": clients,
                    "run_seconds": [seconds * slower * factor for factor in (1, 1.01, 1.02)],
                    "settings": json.dumps({"jit": "off", "work_mem": f"{slower}MB"}),
                    "postgres_version": "17.4",
                    "cpu": f"CPU {NASTY}",
                    "recall_low": recall - 0.01,
                    "recall_high": min(recall + 0.005, 1),
                    "index_reused": True,
                }
                make_result(
                    "mine", f"{name}-c{clients}", f"x{i}", truth, recall, seconds * slower,
                    **attrs | {"algo": f"{algo}-c{clients}", "name": f"{algo}({i})"},
                )  # fmt: skip
    return truth


@pytest.fixture
def without_pictures(monkeypatch):
    """Pictures take seconds, and these tests are of something else."""
    show = chapters.worth_showing
    monkeypatch.setattr(
        chapters, "worth_showing", lambda what, *of: show(what, *of) if what == "table" else []
    )


def read(folder):
    return (folder / "report.md").read_text(), (folder / "report.html").read_text()


def on_buffers(run, size):
    """Return a result as if shared_buffers had been of this size, in GB."""
    memory = run.series.tier_memory.replace("sb1GB", f"sb{size}GB")
    return replace(run, series=run.series.replaced(tier_memory=memory))


def test_a_report_of_one_dataset(results):
    folder = report_results(None, options=ReportOptions(title="Mine & others"))
    assert folder == Path("reports/mine")
    markdown, html = read(folder)
    page = Page(html)
    assert "script" not in page.tags and page.text.count("<script>alert(1)</script>") > 10
    for expected in (
        "In short:", "times as fast as", "with 8 clients", "Not measured:", "k = 10", "17.4", "All indexes",
        "the index was built by an earlier run", "python report.py --dataset mine",
    ):  # fmt: skip
        assert expected in page.text and expected in markdown, expected
    assert "between recall 0.900 and 0.960" in page.text
    assert "vchord: ahead with 1 client, 2 times as fast" in page.text
    pictures = sorted(path.name for path in folder.glob("*.png"))
    kinds = ("builds", "clients", "frontier", "latency")
    assert pictures == [f"1-{kind}.png" for kind in kinds]
    for picture in pictures:
        assert f"]({picture})" in markdown and picture in page.references
        assert (folder / picture).stat().st_size > 5000
    for reference in page.references:
        file = reference.partition("#")[0]
        assert not file or (folder / file).is_file(), reference


def test_only_some_curves_and_a_single_point(results, without_pictures):
    text = Page(read(report_results("mine", ["vchord"]))[1]).text
    assert "alert" not in re.sub(r"CPU [^\n]*", "", text) and "vchord-c8" in text
    folder = report_results("mine", ["vchord-c1"], folder=Path("one"))
    assert "vchord-c8" not in read(folder)[0]
    with pytest.raises(UserError, match="no results of 'vch' on mine: choose from"):
        report_results("mine", ["vch"])


def test_what_there_is_is_named_when_nothing_fits(results, tmp_path, monkeypatch):
    make_result("other", "a", "x", make_truth("other"), 0.9, 1e-3)
    with pytest.raises(UserError, match="give --dataset mine or other"):
        report_results(None)
    with pytest.raises(UserError, match=r"nothing to report for mine with count 5: .* mine \(count 10\)"):
        report_results("mine", count=5)
    with pytest.raises(UserError, match="unknown dataset 'mien'"):
        report_results("mien")
    with pytest.raises(UserError, match="--target-recall must be above 0"):
        report_results("mine", options=ReportOptions(target_recall=2.0))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UserError, match="results/ is empty"):
        report_results(None)


def test_nothing_of_anybody_elses_is_replaced(results, without_pictures):
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="full holds something other than a report"):
        report_results("mine", folder=Path("full"))
    folder = report_results("mine")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes\.txt, which is not part of the report"):
        report_results("mine")
    with pytest.raises(UserError, match="is the folder you are in"):
        report_results("mine", folder=Path())
    Path("file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        report_results("mine", folder=Path("file"))
    Path("empty").mkdir()
    assert (report_results("mine", folder=Path("empty")) / "report.md").is_file()


def test_a_failed_report_leaves_the_old_one(results, without_pictures, monkeypatch):
    folder = report_results("mine")
    before = (folder / "report.md").read_bytes()
    monkeypatch.setattr("ann_benchmarks.reporting.report.write_json", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report_results("mine")
    assert (folder / "report.md").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["mine"]


def test_a_report_that_a_killed_process_had_moved_is_put_back(results, without_pictures):
    folder = report_results("mine")
    folder.rename(folder.with_name(".mine.replaced-99999999"))
    folder.with_name(".mine.partial-99999999").mkdir()
    (folder.parent / "unrelated").mkdir()
    report_results("mine")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["mine", "unrelated"]


def test_an_experiment_asks_for_what_its_results_cannot_show(tmp_path):
    chapter = Chapter(
        "First | step", "Text with `code`.", "python run.py --x", [make_run()], [], [], PICTURES, TABLES
    )
    write_report(Report("An experiment", "About `it`.", "python report.py", [chapter]), tmp_path / "out")
    markdown, html = read(tmp_path / "out")
    assert r"## First \| step" in markdown
    assert "No picture of clients: no result was measured with several numbers of clients." in markdown
    assert "No table of inserts: no result has a workload of inserts." in markdown
    assert "<code>it</code>" in html and "<code>code</code>" in html


def test_a_mistake_in_an_experiment_is_named():
    shown = Shown([make_run()], [], 0.95)
    with pytest.raises(UserError, match="unknown kind of picture 'pie': choose from frontier, tiers"):
        make("picture", {"kind": "pie"}, shown)
    with pytest.raises(UserError, match="the table 'points' has no option 'colour': it has"):
        make("table", {"kind": "points", "colour": "red"}, shown)


def test_warnings_name_the_results():
    runs = [
        make_run("a", index_reused=True, tier="t", tier_ram=100, tier_available=104),
        make_run("b", index_reused=True),
        make_run("c", index_reused=True, index_is_new=True),
        make_run("e", queries_unanswered=5, queries_due=100, queries_counted=10.0),
    ]
    found = dict(warnings_of(runs))
    reused = found["the index was built by an earlier run: its build time is from then"]
    assert reused == ["b-c1: b(ef=1)"]  # the same command has built that of c, and none is built on a tier
    assert "only 10 queries were counted" in "\n".join(found)
    assert not warnings_of([make_run()])


def test_facts_of_old_results_and_damaged_settings():
    blocks = tabulate_facts({"annoy": [{"run_count": 3}, {"settings": "{"}], "b": [{"settings": "[1]"}]})
    assert [block.columns for block in blocks] == [("What", "annoy", "b")]
    assert blocks[0].rows == [["Runs of a point", "3", "-"]]


def test_workloads_side_by_side_are_drawn_to_their_tops():
    slow, fast = make_writes(), make_writes("vchord()", "vchord")
    queries = [10 * count for count in fast.windows["queries"]]
    figure = figure_of(write_chart([slow, replace(fast, windows=fast.windows | {"queries": queries})]))
    panels = [axes for axes in figure.axes if axes.get_title("left")]
    lines = [line.get_ydata() for axes in panels for line in axes.get_lines()]
    assert len(lines) == 2 and all(axes.get_ylim()[1] >= max(map(max, lines)) for axes in panels)
    assert panels[0].get_ylim()[0] == 0


def test_every_experiment_requests_known_kinds(tmp_path):
    for path in sorted((ROOT / "experiments").glob("*.yml")):
        content = yaml.safe_load(path.read_text())
        for step in content["steps"]:
            for shown in (step, step.get("mini") or {}):
                for what in ("picture", "table"):
                    for request in shown.get(f"{what}s", ()):
                        make(what, request, Shown([], [], 0.95, folder=tmp_path))


@pytest.mark.parametrize(
    ("runs", "drawn"),
    [
        (
            [make_run(ram=ram, recall=0.5, tier_disk=d) for ram, d in ((1, "gp3"), (4, "gp3"), (2, "nvme"))],
            ["hnsw-c1-cgroup-gp3-sb1GB-ram4GB", "hnsw-c1-cgroup-nvme-sb1GB-ram2GB"],
        ),
        (
            [on_buffers(make_run(ram="all"), size) for size in (1, 8)],
            ["hnsw-c1-cgroup-sb1GB-ramall", "hnsw-c1-cgroup-sb8GB-ramall"],
        ),
        ([make_run(ram=1), make_run(ram="all"), make_run()], ["hnsw-c1-cgroup-sb1GB-ramall", "hnsw-c1"]),
    ],
)
def test_latencies_of_every_disk_and_every_shared_buffers(runs, drawn):
    assert [run.algorithm for run in latency_results(Shown(runs, [], 0.95))[0]] == drawn


def test_the_same_result_in_two_chapters_is_one_point(tmp_path):
    chapters = [Chapter(title, runs=[make_run()], tables=[{"kind": "points"}]) for title in ("a", "b")]
    write_report(Report("t", "", "", chapters), tmp_path / "out")
    content = json.loads((tmp_path / "out" / MARK_FILE).read_text())
    assert [chapter["points"] for chapter in content["chapters"]] == [[0], [0]]
    assert len((tmp_path / "out" / "points.csv").read_text().splitlines()) == 2


def test_a_report_says_when_its_last_result_ended():
    """Two of an hour each: the second was begun at 4, and ended at 5."""
    begun = [{"started_at": f"2026-01-01T0{hour}:00:00+00:00"} for hour in (3, 4)]
    whole = [attrs | {"ended_at": attrs["started_at"].replace("T04", "T05")} for attrs in begun]
    texts = [block.text for attrs in (whole, begun, begun[:1], [{}]) for block in describe_period(attrs)]
    assert texts == [
        "Measured from 2026-01-01T03:00:00+00:00 to 2026-01-01T05:00:00+00:00.",
        "The first result was begun at 2026-01-01T03:00:00+00:00, the last at 2026-01-01T04:00:00+00:00.",
        "The first result was begun at 2026-01-01T03:00:00+00:00.",
    ]
