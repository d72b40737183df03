import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import h5py
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series
from ann_benchmarks.website.bundles import bundle_folders, plain_text
from ann_benchmarks.website.submissions import create_submissions_site

from .page import Page
from .programs import call_program
from .submitted_bundles import MACHINES, begin_bundle, finish_bundle, make_bundle, put_result
from .test_website import NASTY, columns

RESULT = Path("results/d/10/x/a.hdf5")


@pytest.fixture(scope="module")
def submissions(tmp_path_factory):
    """Bundles of three simulated servers."""
    folder = tmp_path_factory.mktemp("submissions")
    for machine in MACHINES:
        make_bundle(folder / machine, machine)
    return folder


def small_bundle(folder, title="Small", file="a", recall=0.9, texts=None, series=None, **attrs):
    begin_bundle(folder)
    put_result(folder, "d", series or Series("x"), file, recall, 100.0, **attrs)
    return finish_bundle(folder, title, texts=texts)


def rows_of(site):
    """The rows of the table as mappings."""
    found = columns(Page(site / "index.html"))
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def test_a_row_for_each_point_with_its_machine_and_versions(submissions, tmp_path):
    assert create_submissions_site(tmp_path, [submissions]) == (3, 0)
    rows = rows_of(tmp_path)
    assert Counter(row["bundle"] for row in rows) == {f"A {machine} server": 8 for machine in MACHINES}
    row = next(one for one in rows if one["bundle"] == "A large server" and one["algorithm"] == "vchord")
    expected = {"memory": "64 GB", "cpu": "32 × Some CPU", "disk": "nvme", "machine": "simulated by cgroup"}
    expected |= {
        "server": "PostgreSQL 18.1",
        "extensions": "pgvector 0.8.1, VectorChord 1.0.0",
        "built": "M=16",
    }
    expected |= {"dataset": "d", "k": 10, "division": "published", "size": "full", "load": "plain"}
    assert {name: row[name] for name in expected} == expected
    assert {(row["recall"] > 0.95, row["claim"]) for row in rows} == {(True, "yes"), (False, "no")}


def test_cold_figures_stand_beside_those_of_the_same_point(submissions, tmp_path):
    create_submissions_site(tmp_path, [submissions / "medium"])
    both = [row for row in rows_of(tmp_path) if row["coldqps"] is not None]
    assert [(row["algorithm"], row["clients"], row["recall"], row["coldqps"]) for row in both] == [
        ("vchord", 1, 0.96, pytest.approx(28))
    ]
    assert both[0]["qps"] == pytest.approx(432) and both[0]["load"] == "plain"
    alone = small_bundle(tmp_path / "cold", series=Series("x", is_cold=True))
    create_submissions_site(tmp_path / "alone", [alone])
    (row,) = rows_of(tmp_path / "alone")
    assert row["coldqps"] == pytest.approx(100) and "qps" not in row


def test_recall_is_that_of_the_answers_whatever_a_bundle_says(tmp_path):
    bundle = small_bundle(tmp_path / "b", recall=0.5)
    with h5py.File(bundle / RESULT, "r+") as file:
        file.attrs["recall"] = 0.99
    create_submissions_site(tmp_path / "site", [finish_bundle(bundle, "x")])
    assert [row["recall"] for row in rows_of(tmp_path / "site")] == [0.5]


def test_points_under_filters_are_judged_by_the_truth_under_them(tmp_path):
    bundle = tmp_path / "b"
    begin_bundle(bundle)
    begin_bundle(bundle, "d--uniform-0.01")
    series = Series("x", filter="uniform:0.01")
    put_result(bundle, "d", series, "a", 0.9, 100.0, selectivity=0.01)
    create_submissions_site(tmp_path / "site", [finish_bundle(bundle, "x")])
    (row,) = rows_of(tmp_path / "site")
    assert (row["filter"], row["selectivity"], row["recall"], row["load"]) == (
        "uniform:0.01",
        0.01,
        0.9,
        "plain",
    )


def links_of(page):
    return {unquote(reference.partition("#")[0]) for reference in Page(page).references} - {""}


def test_every_link_leads_to_a_file_of_the_site(submissions, tmp_path):
    create_submissions_site(tmp_path, [submissions])
    pages = list(tmp_path.glob("*.html"))
    assert {page.stem for page in pages} == {"index", *MACHINES}
    assert all((tmp_path / link).is_file() for page in pages for link in links_of(page))
    files = json.loads(Page(tmp_path / "index.html").data)["links"]["files"]
    assert files == {f"A {machine} server": f"{machine}.html" for machine in MACHINES}
    listed = json.loads((submissions / "small/manifest.json").read_text())["files"]
    assert {f"bundles/small/{name}" for name in listed} <= links_of(tmp_path / "small.html")


@pytest.fixture
def bundle(tmp_path):
    return small_bundle(tmp_path / "given" / "bad")


def change(bundle, name, content):
    (bundle / name).write_bytes(content)
    return finish_bundle(bundle, "Small")  # so that the manifest fits again


def make_link(bundle):
    (bundle / "README.md").unlink()
    (bundle / "README.md").symlink_to("/etc/hostname")


def other_truth(bundle):
    with h5py.File(bundle / "truth/d.hdf5", "r+") as file:
        file["distances"][0, 0] = 0.5
    finish_bundle(bundle, "Small")


def no_truth(bundle):
    known = json.loads((bundle / "manifest.json").read_text())
    (bundle / "truth/d.hdf5").write_bytes(b"no truth")
    known["files"]["truth/d.hdf5"] = {"sha256": hashlib.sha256(b"no truth").hexdigest(), "bytes": 8}
    (bundle / "manifest.json").write_text(json.dumps(known))


def without_truth(bundle):
    (bundle / "truth/d.hdf5").unlink()
    finish_bundle(bundle, "Small")


def of_manifest(change):
    def action(bundle):
        content = json.loads((bundle / "manifest.json").read_text())
        change(content)
        (bundle / "manifest.json").write_text(json.dumps(content))

    return action


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda bundle: (bundle / "README.md").write_text("changed"), "has 7 bytes"),
        (lambda bundle: (bundle / "README.md").unlink(), "not in the folder"),
        (lambda bundle: (bundle / "manifest.json").unlink(), "is not a bundle"),
        (lambda bundle: (bundle / "manifest.json").write_text("{"), "is not JSON"),
        (lambda bundle: (bundle / "manifest.json").write_text("[" * 10**5), "nested too deeply"),
        (make_link, "is a link"),
        (lambda bundle: change(bundle, RESULT, b"no result"), "cannot be read"),
        (no_truth, "cannot be read"),
        (other_truth, "with the mark"),
        (without_truth, "has no dataset 'd'"),
        (lambda bundle: change(bundle, "prices.yml", b"no prices"), "prices.yml: [readable]"),
        (lambda bundle: change(bundle, "experiment.yml", b"\0"), "experiment.yml: [readable]"),
        (of_manifest(lambda content: content["files"].update({"../x": {}})), "'../x'"),
        (of_manifest(lambda content: content.update(target_recall=float("nan"))), "NaN"),
    ],
)  # fmt: skip
def test_a_bad_bundle_is_one_line_and_the_rest_is_made(bundle, tmp_path, capfd, damage, said):
    small_bundle(bundle.parent / "good", "Good")
    damage(bundle)
    assert create_submissions_site(tmp_path / "site", [bundle.parent]) == (1, 1)
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert line.startswith(f"skipped {bundle}") and said in line
    assert {row["bundle"] for row in rows_of(tmp_path / "site")} == {"Good"}
    assert not (tmp_path / "site/bundles/bad").exists()


def test_the_command_ends_with_1_where_a_bundle_was_left_out(bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--submissions", "given", "--outputdir", "site"]
    done = call_program("create_website.py", *words)
    assert (done.returncode, done.stdout) == (0, "wrote site/index.html (bundles: 1)\n")
    shutil.copytree(bundle, bundle.parent / "changed")
    (bundle.parent / "changed" / RESULT).write_bytes(b"")
    done = call_program("create_website.py", *words)
    assert done.returncode == 1 and done.stdout.endswith("(bundles: 1)\n")
    assert "error: 1 bundle left out" in done.stderr and "Traceback" not in done.stderr
    done = call_program("create_website.py", *words, "--latex")
    assert done.returncode == 1 and "--latex is for the site of results/" in done.stderr


def test_nothing_is_written_where_no_bundle_can_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="nothing to show"):
        create_submissions_site(tmp_path / "site", [tmp_path / "empty", tmp_path / "missing"])
    assert not (tmp_path / "site").exists()


def test_copies_are_never_made_over_the_bundles_themselves(tmp_path):
    bundle = small_bundle(tmp_path / "bundles" / "mine")
    with pytest.raises(UserError, match="name another --outputdir"):
        create_submissions_site(tmp_path, [bundle])


def test_folders_of_bundles_and_bundles_count_once(submissions):
    given = [submissions, submissions / "small", submissions / "small" / ".." / "large"]
    assert [folder.name for folder in bundle_folders(given)] == ["large", "medium", "small"]


def test_bundles_of_one_title_and_folder_have_pages_of_their_own(tmp_path):
    given = [small_bundle(tmp_path / place / "same", "Same", file=place) for place in ("a", "b", "c")]
    assert create_submissions_site(tmp_path / "site", given) == (3, 0)
    files = json.loads(Page(tmp_path / "site/index.html").data)["links"]["files"]
    assert sorted(files) == ["Same", "Same (2)", "Same (3)"] and len(set(files.values())) == 3
    assert {row["bundle"] for row in rows_of(tmp_path / "site")} == set(files)
    assert all((tmp_path / "site" / file).is_file() for file in files.values())


def test_a_result_in_two_bundles_is_one_row(tmp_path):
    for name in ("a", "b"):
        small_bundle(tmp_path / "given" / name, name)
    create_submissions_site(tmp_path / "site", [tmp_path / "given"])
    assert [row["bundle"] for row in rows_of(tmp_path / "site")] == ["a"]


def test_no_copy_can_run_what_a_stranger_has_written(tmp_path):
    page = '<html><head><META HTTP-EQUIV="refresh" content="0;url=https://example.org"></head><script>x()</script>'
    texts = {
        "report/report.html": page,
        "logs/run.log": "a",
        "logs/x.svg": "<svg onload='x()'/>",
        "report/a.png": "x",
    }
    bundle = small_bundle(
        tmp_path / "b", texts=texts | {"logs/y.HTML": page, "logs/#%.md": "x", "logs/x.svg.txt": "own"}
    )
    create_submissions_site(tmp_path / "site", [bundle])
    copies = tmp_path / "site/bundles/b"
    names = {path.relative_to(copies).as_posix() for path in copies.rglob("*") if path.is_file()}
    assert {
        "logs/x.svg.txt",
        "logs/x.svg.txt.txt",
        "logs/y.HTML.txt",
        "logs/run.log.txt",
        "report/a.png",
        "logs/#%.md",
    } < names
    assert {Path(name).suffix for name in names} == {".html", ".txt", ".md", ".json", ".hdf5", ".png"}
    text = (copies / "report/report.html").read_text()
    assert text.startswith('<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy"')
    assert "default-src 'none'" in text and len(re.findall("http-equiv", text, re.IGNORECASE)) == 1
    assert links_of(tmp_path / "site/b.html") >= {"bundles/b/logs/#%.md", "bundles/b/logs/x.svg.txt.txt"}
    assert (copies / "logs/x.svg.txt").read_text() == "own"


def test_texts_of_strangers_stay_texts(tmp_path):
    attrs = {
        "cpu": NASTY,
        "name": f"javascript:alert(1) {NASTY}",
        "disk": "\u202e" + NASTY + "\u2066",
        "cores": 2,
    }
    bundle = small_bundle(tmp_path / "b", NASTY, series=Series("<img src=x onerror=alert(1)>"), **attrs)
    create_submissions_site(tmp_path / "site", [bundle])
    for name in ("index", "b"):
        page = Page(tmp_path / "site" / f"{name}.html")
        assert page.tags.count("script") == 2 and "img" not in page.tags
        assert not any(reference.startswith("javascript") for reference in page.references)
        assert NASTY in page.text
    (row,) = rows_of(tmp_path / "site")
    assert row["disk"] == NASTY and row["cpu"] == f"2 × {NASTY}"
    assert plain_text("a\u202eb\u200f\u061cc") == "abc" and len(plain_text("x" * 10_000)) < 600
