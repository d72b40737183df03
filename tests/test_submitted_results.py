"""The table of submitted bundles: its rows, what is left out of it, and texts of strangers."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.website.submissions import bundle_folders, create_submissions_site, plain_text

from .browser import Page
from .bundle_data import copied_bundle, measured, point_files, remake, set_attributes
from .load_bundles import FILTER, copied_loads
from .programs import call_program
from .test_website import NASTY, columns


def rows_of(site: Path) -> list[dict[str, Any]]:
    """The rows of the table as mappings."""
    found = columns(Page(site / "index.html"))
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copied_bundle(tmp_path / "given")


def test_a_row_for_each_point_of_all_bundles(bundle: Path, tmp_path: Path):
    remake(bundle, title="Clients")
    loads = copied_loads(bundle.parent / "loads")
    remake(loads, title="Loads", division="open")
    assert create_submissions_site(tmp_path / "site", [bundle, loads]) == (2, 0)
    rows = rows_of(tmp_path / "site")
    assert Counter(row["bundle"] for row in rows) == {
        "Clients": 4,
        "Loads": len([*loads.glob("results/*/*/*/*")]),
    }
    assert {(row["clients"], row["claim"]) for row in rows[:4]} == {
        (clients, claim) for clients in (1, 2) for claim in ("yes", "no")
    }
    expected = {"algorithm": "part", "dataset": "tiny", "k": 10, "division": "published", "size": "full"}
    assert {name: rows[0][name] for name in expected} == expected
    assert FILTER in {row["filter"] for row in rows}
    assert "jane@example.org" in Page(tmp_path / "site/index.html").text


def test_recall_is_that_of_the_answers_whatever_a_bundle_says(bundle: Path, tmp_path: Path):
    create_submissions_site(tmp_path / "site", [bundle])
    honest = sorted(row["recall"] for row in rows_of(tmp_path / "site"))
    with h5py.File(point_files(bundle)[0], "r+") as file:
        file.attrs["recall"] = 0.99
    remake(bundle)
    create_submissions_site(tmp_path / "site", [bundle])
    assert sorted(row["recall"] for row in rows_of(tmp_path / "site")) == honest


def changed(name: str, content: bytes) -> Callable[[Path], None]:
    """Return what replaces a file, with a manifest that fits again."""

    def change(bundle: Path) -> None:
        (bundle / name).write_bytes(content)
        remake(bundle)

    return change


def linked(bundle: Path) -> None:
    (bundle / "README.md").unlink()
    (bundle / "README.md").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda bundle: (bundle / "README.md").write_text("changed"), "another size or SHA-256"),
        (lambda bundle: (bundle / "README.md").unlink(), "not in the folder"),
        (lambda bundle: (bundle / "manifest.json").unlink(), "is not a bundle"),
        (linked, "is a link"),
        (lambda bundle: changed(point_files(bundle)[0].relative_to(bundle), b"x")(bundle), "cannot be read"),
        (changed("truth/tiny.hdf5", b"no truth"), "cannot be read"),
    ],
)
def test_a_bad_bundle_is_one_line_and_the_rest_is_made(
    bundle: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    said: str,
):
    good = copied_bundle(tmp_path / "good")
    damage(bundle)
    assert create_submissions_site(tmp_path / "site", [bundle.parent, good]) == (1, 1)
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert line.startswith(f"skipped {bundle}") and said in line
    assert len(rows_of(tmp_path / "site")) == 4


def test_the_command_ends_with_1_where_a_bundle_was_left_out(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    words = ["--submissions", "given", "--outputdir", "site"]
    done = call_program("create_website.py", *words)
    assert (done.returncode, done.stdout) == (0, "wrote site/index.html (bundles: 1)\n")
    shutil.copytree(bundle, bundle.parent / "changed")
    (bundle.parent / "changed" / "README.md").write_bytes(b"")
    done = call_program("create_website.py", *words)
    assert done.returncode == 1 and done.stdout.endswith("(bundles: 1)\n")
    assert "error: 1 bundle left out" in done.stderr and "Traceback" not in done.stderr
    done = call_program("create_website.py", *words, "--latex")
    assert done.returncode == 1 and "--latex is for the site of results/" in done.stderr


def test_nothing_is_written_where_no_bundle_can_be_read(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="nothing to show"):
        create_submissions_site(tmp_path / "site", [tmp_path / "empty", tmp_path / "missing"])
    assert not (tmp_path / "site").exists()


def test_bundles_and_results_count_once_and_titles_differ(bundle: Path, tmp_path: Path):
    given = bundle.parent
    assert bundle_folders([given, bundle, given / ".." / "given" / "bundle"]) == [bundle]
    other = shutil.copytree(measured() / "bundle", given / "other")
    set_attributes(point_files(other)[0], disk="another")
    remake(other)
    create_submissions_site(tmp_path / "site", [given])
    rows = rows_of(tmp_path / "site")
    assert len(rows) == 5 and len({row["bundle"] for row in rows}) == 2


def test_texts_of_strangers_stay_texts(bundle: Path, tmp_path: Path):
    attrs = {"cpu": NASTY, "name": f"javascript:alert(1) {NASTY}", "disk": "\u202e" + NASTY + "\u2066"}
    set_attributes(point_files(bundle)[0], **attrs)
    remake(bundle, title=NASTY, contact="javascript:alert(1)")
    create_submissions_site(tmp_path / "site", [bundle])
    page = Page(tmp_path / "site" / "index.html")
    assert page.tags.count("script") == 2 and "img" not in page.tags
    assert not any(reference.startswith("javascript") for reference in page.references)
    assert NASTY in page.text and any(NASTY in row["machine"] for row in rows_of(tmp_path / "site"))
    assert plain_text("a\u202eb\u200f\u061cc") == "abc" and len(plain_text("x" * 10_000)) < 600
