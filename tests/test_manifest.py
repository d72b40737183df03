"""The manifest of a bundle: what is written is read back, and nothing foreign is."""

import json
import os
from dataclasses import replace

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.submission.files import files_in, sha256_of
from ann_benchmarks.submission.manifest import (
    BundledDataset,
    BundledFile,
    Manifest,
    read_manifest,
    write_manifest,
)

FILE = "results/mine/10/hnsw/a.hdf5"
MINE = Manifest(
    title="Vector search on mine",
    made="2026-01-31T12:00:00+00:00",
    division="open",
    target_recall=0.95,
    experiment="first",
    mini=True,
    contact="Ä. Person",
    project_version="0.1.0",
    datasets={"mine": BundledDataset(1000, 2, "euclidean", 10, "d11f83fce2a60fbe", ["uniform:0.01"])},
    left_out=["the name of the machine"],
    files={FILE: BundledFile("ab" * 32, 12)},
)


@pytest.fixture
def content(tmp_path):
    """Return what the manifest of a good bundle holds."""
    write_manifest(tmp_path, MINE)
    return json.loads((tmp_path / "manifest.json").read_text())


def write(folder, content):
    (folder / "manifest.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_what_is_written_is_read_back(tmp_path):
    write_manifest(tmp_path, MINE)
    assert read_manifest(tmp_path) == MINE
    text = (tmp_path / "manifest.json").read_text()
    assert text.startswith('{\n "contact": ') and "Ä. Person" in text and json.loads(text)["format"] == 1


def test_what_earlier_versions_said_is_ignored(tmp_path, content):
    write(tmp_path, {**content, "claims": [{"file": FILE}], "commit": "0" * 40})
    assert read_manifest(tmp_path) == MINE


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path):
    for wrong in ({"division": "closed"}, {"target_recall": float("nan")}, {"title": "two\nlines"}):
        with pytest.raises(UserError):
            write_manifest(tmp_path, replace(MINE, **wrong))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../a", "results/../../a", "results//a", "./a", "", "a\\b", "a\nb", "a/", "x" * 2000],
)  # fmt: skip
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path, content, path):
    content["files"] = {path: {"sha256": "ab" * 32, "bytes": 1}}
    write(tmp_path, content)
    with pytest.raises(UserError, match=r"manifest.json: files: '"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("where", "value", "line"),
    [
        (["format"], 2, "its format is 2, and this release reads 1"),
        (["format"], True, "its format is True"),
        (["format"], 1.0, "its format is 1.0"),
        (["title"], "", "its 'title' must be a title"),
        (["title"], 5, "its 'title' is 5"),
        (["title"], "\x1b[31m", "must be a printable line"),
        (["made"], "yesterday", "a time of UTC"),
        (["made"], "2026-01-31T12:00:00", "a time of UTC"),
        (["division"], "opne", "must be published or open"),
        (["mini"], 1, "its 'mini' is 1"),
        (["target_recall"], 1.5, "must be from 0 to 1"),
        (["target_recall"], 10**400, "target_recall"),
        (["target_recall"], None, "target_recall"),
        (["more"], 1, "its 'more' is 1"),
        (["left_out"], "all", "left_out"),
        (["left_out"], [1], "left_out"),
        (["files"], [], r"its 'files' is \[\], which is of another kind"),
        (["files", FILE], None, "and no object"),
        (["files", FILE, "bytes"], -1, "must be from 0"),
        (["files", FILE, "bytes"], True, "'bytes' is True"),
        (["files", FILE, "sha256"], "AB" * 32, "64 hexadecimal"),
        (["datasets", "mine", "rows"], 1e300, "'rows' is 1e"),
        (["datasets", "mine", "fingerprint"], "../../x", "16 hexadecimal"),
        (["datasets", "mine", "filters"], ["a/b"], "must be names of files"),
        (["datasets"], {"../x": {}}, "datasets: '../x'"),
    ],
)
def test_a_value_of_another_kind_is_named(tmp_path, content, where, value, line):
    inner = content
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    write(tmp_path, content)
    with pytest.raises(UserError, match=line) as raised:
        read_manifest(tmp_path)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 1000


def test_a_missing_field_is_named(tmp_path, content):
    for name in ("title", "made", "division", "target_recall"):
        write(tmp_path, {key: value for key, value in content.items() if key != name})
        with pytest.raises(UserError, match=f"it has no '{name}'"):
            read_manifest(tmp_path)
    write(tmp_path, {})
    with pytest.raises(UserError, match="it has no 'format'"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "it is not a manifest"),
        ('{"format": NaN}', "its format is nan"),
        ('{"format": 1' + "0" * 10_000 + "}", "format is 1|not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_json_of_a_manifest_is_refused(tmp_path, text, line):
    write(tmp_path, text)
    with pytest.raises(UserError, match=line):
        read_manifest(tmp_path)


def test_a_folder_without_a_readable_manifest_is_no_bundle(tmp_path):
    with pytest.raises(UserError, match="it has no manifest.json"):
        read_manifest(tmp_path)
    with pytest.raises(UserError, match="is not a folder"):
        read_manifest(tmp_path / "nothing")
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UserError, match="cannot be read"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(UserError, match="it must be a regular file, but is a pipe"):
        read_manifest(tmp_path)
    (tmp_path / "other").mkdir()
    write_manifest(tmp_path / "other", MINE)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").symlink_to("other/manifest.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_manifest(tmp_path)


def test_links_are_seen_and_not_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "folder").symlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to("a/file")
    assert list(files_in(tmp_path)) == ["a/file", "folder", "link"]
    assert sha256_of(tmp_path / "a" / "file").startswith("2d711642b726b044")
    with pytest.raises(UserError, match="cannot be read"):
        sha256_of(tmp_path / "link")
