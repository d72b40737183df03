"""Bundles, from result files to a folder in which nothing private is found."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.pricing.costs import cost_request
from ann_benchmarks.reporting import chapters
from ann_benchmarks.reporting.chapters import ReportOptions, bundle_results
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.results.records import write_record
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.submission import bundle
from ann_benchmarks.submission.bundle import BundleRequest
from ann_benchmarks.submission.checking.check import private_facts
from ann_benchmarks.submission.facts import HOST, PATH, USER, OwnFact
from ann_benchmarks.submission.files import files_in, sha256_of
from ann_benchmarks.submission.manifest import read_manifest
from ann_benchmarks.submission.private import Private

from .plotting_data import make_result, make_truth, trust
from .programs import ROOT
from .report_data import make_writes

OUT = Path("out")
FACTS = [
    OwnFact(HOST, "quokka7"),
    OwnFact(USER, "xenia"),
    OwnFact(PATH, "/data/xenia"),
    OwnFact(PATH, str(ROOT)),
]
KIND_OF = {"picture": "frontier", "table": "points"}
PRIVATE = (b"quokka7", b"xenia", b"10.0.0.5", b"10.0.0.6", b"/home/bob", b"@shop.example")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of two servers at two addresses, with private facts in attributes and arrays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chapters, "facts_here", lambda: FACTS)
    monkeypatch.setattr(chapters, "worth_showing", lambda what, *_: [{"kind": KIND_OF[what]}])
    truth = make_truth("mine")
    for address in ("10.0.0.5", "10.0.0.6"):
        mark = "" if address == "10.0.0.5" else f"at-{address}-5432"
        for i, recall in enumerate((0.9, 0.96, 0.99)):
            seconds = 1e-3 * 2**i
            series = {"algorithm": "hnsw", "clients": 1, **({"environment": mark} if mark else {})}
            attrs = {
                "clients": 1,
                "run_seconds": [seconds, seconds * 1.01, seconds * 1.02],
                "qps_low": 0.9 / seconds,
                "qps_high": 1.1 / seconds,
                "series": json.dumps(series),
                "server": "external",
                "server_address": f"{address}:5432",
                "postgres_version": "18.6.3.1",
                "cpu": "Some CPU",
                "command_line": "python run.py --definitions /home/bob/own --local",
                "settings": json.dumps({"jit": "off", "log_directory": "/data/xenia/log"}),
                "given_settings": json.dumps({"cluster_name": "quokka7"}),
                "plan": json.dumps({"Node Type": "Limit", "Schema": "xenia"}),
            }
            folder = "hnsw-c1" + (f"@{mark}" if mark else "")
            path = make_result("mine", folder, f"x{i}", truth, recall, seconds, **attrs | {"algo": "hnsw-c1"})
            with h5py.File(path, "a") as file:
                file.attrs["attributes"] = json.dumps(
                    {
                        key: value.tolist() if hasattr(value, "tolist") else value
                        for key, value in file.attrs.items()
                    }
                )
                file["more/notes"] = np.array([b"by xenia", b"on quokka7"])
                file["more"].attrs["mail"] = "xenia@shop.example"
    return truth


def made(**options):
    how = {"folder": OUT, "contact": "Xenia <xenia@shop.example>", **options}
    bundle_results(BundleRequest(**how), "mine")
    return read_manifest(OUT)


def left_behind():
    return [path.name for path in Path().iterdir() if path.name.startswith(".out")]


def test_a_whole_bundle(results, capsys):
    record = replace(make_writes(), path=Path("results/mine/10/hnsw-w/a.workload.json"))
    record.path.parent.mkdir(parents=True)
    write_record(replace(record, attrs=record.attrs | {"command_line": "python /home/bob/run.py"}))
    manifest = made()
    assert {*files_in(OUT)} == {"manifest.json", *manifest.files}
    assert all(
        sha256_of(OUT / name) == file.sha256 and (OUT / name).stat().st_size == file.bytes
        for name, file in manifest.files.items()
    )
    assert {
        "README.md", "truth/mine.hdf5", "report/report.html", "report/1-frontier.png",
        "results/mine/10/hnsw-w/a.workload.json",
        *(f"results/mine/10/hnsw-c1/x{i}.hdf5" for i in range(3)),
        *(f"results/mine/10/hnsw-c1@at-address-2-5432/x{i}.hdf5" for i in range(3)),
    } <= set(manifest.files)  # fmt: skip
    for name in manifest.files:  # the contact is there on purpose
        content = (OUT / name).read_bytes().replace(b"Xenia <xenia@shop.example>", b"")
        assert not [fact for fact in PRIVATE if fact in content], name
    assert (manifest.contact, manifest.division) == ("Xenia <xenia@shop.example>", "open")
    assert "addresses of machines: 2" in str(manifest.left_out)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 and said[0].startswith("left out of out as private: names of hosts: 1")
    assert not left_behind()


def test_the_prices_of_a_report_are_part_of_its_bundle(results):
    shutil.copy(ROOT / "prices/example.yml", "prices-of-xenia.yml")
    costs = cost_request(Path("prices-of-xenia.yml"), None, None)
    bundle_results(BundleRequest(OUT), "mine", options=ReportOptions(costs=costs))
    assert (OUT / "prices.yml").read_bytes() == (ROOT / "prices/example.yml").read_bytes()
    assert "prices.yml" in read_manifest(OUT).files
    for path in filter(Path.is_file, OUT.rglob("*")):
        assert not [word for word in PRIVATE if word in path.read_bytes()], path


def test_the_copies_have_the_same_figures_and_servers(results):
    made()
    servers = {run.path: run for run in load_runs(sorted((OUT / "results").rglob("*.hdf5")))}
    before = load_runs(sorted(Path("results").rglob("*.hdf5")))
    figures = sorted(str(sorted(run.metrics.items())) for run in before)
    assert len(figures) == 6
    assert figures == sorted(str(sorted(run.metrics.items())) for run in servers.values())
    assert {run.series.environment for run in servers.values()} == {
        "at [address-1]:5432",
        "at [address-2]:5432",
    }
    assert {run.attrs["postgres_version"] for run in servers.values()} == {"18.6.3.1"}
    with h5py.File(OUT / "results/mine/10/hnsw-c1/x0.hdf5") as file:
        assert file["more/notes"].asstr()[()].tolist() == ["by [user-1]", "on [host-1]"]
        assert file["times"].dtype == np.float32 and file.attrs["run_seconds"].tolist() == [
            1e-3,
            1.01e-3,
            1.02e-3,
        ]


def test_the_dataset_is_described(results):
    manifest = made(division="published")
    (mine,) = manifest.datasets.values()
    assert (mine.rows, mine.dimension, mine.metric, mine.queries) == (20, 2, "euclidean", 1000)
    assert mine.fingerprint == truth_mark(results)
    with h5py.File(OUT / "truth/mine.hdf5") as file:
        assert np.array_equal(file["distances"], results) and file["neighbors"].shape == results.shape
    readme = (OUT / "README.md").read_text()
    assert "20 rows of 2 dimensions" in readme and "Division: published" in readme


def test_an_older_bundle_is_replaced_and_nothing_else_is(results):
    made()
    (OUT / "results/mine/10/hnsw-c1/x0.hdf5").unlink()  # also one that is not complete
    assert "results/mine/10/hnsw-c1/x0.hdf5" in made().files
    (OUT / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="mine.txt, which is not part of the bundle"):
        made()
    Path("other").mkdir()
    Path("other/file").touch()
    with pytest.raises(UserError, match="something other than a bundle: name another folder with --bundle"):
        made(folder=Path("other"))
    with pytest.raises(UserError, match="is a file"):
        made(folder=Path("other/file"))
    with pytest.raises(UserError, match="the folder you are in"):
        made(folder=Path())


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_ends_on_the_way_leaves_the_older_bundle(results, monkeypatch, error):
    made()
    before = (OUT / "manifest.json").read_text()

    def fail(*args):
        raise error

    monkeypatch.setattr(bundle, "write_manifest", fail)
    with pytest.raises((UserError, KeyboardInterrupt), match="No space left|^$"):
        made()
    assert (OUT / "manifest.json").read_text() == before and not left_behind()


def test_a_killed_process_leaves_nothing_that_stays(results):
    command = [sys.executable, ROOT / "report.py", "--dataset", "mine", "--bundle", "out"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(3000):
        if list(Path().glob(".out.partial-*/results")) or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left_behind() and not OUT.exists()
    made()
    assert not left_behind()


def test_what_cannot_be_bundled_is_one_line(results, tmp_path):
    path = Path("results/mine/10/hnsw-c1/x0.hdf5")
    with h5py.File(path, "a") as file:
        file["out"] = h5py.ExternalLink("/etc/hostname", "x")
    with pytest.raises(UserError, match="x0.hdf5 cannot be copied into the bundle: has a link, 'out'"):
        made()
    path.unlink()
    Path("data/mine.hdf5").rename("data/other.hdf5")
    with pytest.raises(UserError, match="mine"):
        made()


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.md", b"by xenia.", "in its text"),
        ("a.html", b"on qu&#111;kka7", "in its text"),
        ("a.json", b'["\\u0078enia"]', "in its text"),
        ("a.json", json.dumps({"a": json.dumps({"quokka7": 1})}).encode(), "in its text"),
        ("a-xenia.csv", b"", "in the name of the file"),
        ("logs/x.log", b"in /data/xenia/work", "in its text"),
    ],
)
def test_the_last_search_finds_what_is_left(tmp_path, name, content, where):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert where in [where for _, where in private_facts(tmp_path, name, Private(FACTS))]


@pytest.mark.parametrize("where", ["attribute", "array", "name"])
def test_the_last_search_reads_hdf5(tmp_path, where):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["group/plain"] = np.arange(10)
        if where == "attribute":
            file["group/plain"].attrs["by"] = json.dumps({"user": "quokka7 and more"})
        elif where == "array":
            file.create_dataset("texts", data=["on quokka7"] * 100, chunks=True, compression="gzip")
        elif where == "name":
            file["group/xenia"] = 1
    assert private_facts(tmp_path, "a.hdf5", Private(FACTS))


def test_a_leak_stops_the_bundle(results, monkeypatch):
    monkeypatch.setattr(bundle, "readme", lambda *args: "by xenia\n")
    with pytest.raises(UserError, match="the bundle is not written: README.md has names of accounts"):
        made()
    assert not OUT.exists() and not left_behind()


def test_a_dataset_that_is_called_like_its_owner_is_refused(results):
    for folder in ("data", "results"):
        for path in Path(folder).glob("mine*"):
            path.rename(path.with_name(path.name.replace("mine", "xenia-mine")))
    trust(Path("data/xenia-mine.hdf5"))
    with pytest.raises(UserError, match="the name of the dataset xenia-mine says who or where you are"):
        bundle_results(BundleRequest(OUT), "xenia-mine")
    assert not OUT.exists()


def test_the_contact_alone_may_be_private(results):
    made(contact="xenia")
    assert "Contact: xenia" in (OUT / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--contact", "me"], "--contact is for a bundle: add --bundle"),
        (["--division", "open"], "--division is for a bundle"),
        (["--bundle", "out", "-o", "x"], "leave out -o, or --bundle"),
        (["--bundle", "out", "--contact", "a\nb"], "one printable line"),
        (["--bundle", "out", "--division", "closed"], "invalid choice: 'closed'"),
        (["--bundle", ""], "must be the path of a file"),
        (["--bundle", "out", "--algorithm", "nothing"], "no results of 'nothing'"),
    ],
)
def test_the_command_says_what_is_wrong(results, words, line, monkeypatch, capsys):
    from ann_benchmarks.commands import report

    monkeypatch.setattr(sys, "argv", ["report.py", "--dataset", "mine", *words])
    with pytest.raises((UserError, SystemExit)) as raised:
        report.main()
    assert line in str(raised.value) + capsys.readouterr().err
    assert not OUT.exists()
