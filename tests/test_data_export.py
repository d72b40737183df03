import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.export import export_results

from .plotting_data import make_result, make_truth
from .programs import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(path="out.csv"):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_parquet_has_the_same_rows_with_types(folder):
    for name, others in (("a", {"clients": 2, "odd": 1.5}), ("b", {"odd": "text", "tier": "1b"})):
        make_result("mine", name, "x", make_truth("mine"), 0.9, 0.01, **others)
    export_results(Path("out.csv"))
    assert export_results(Path("out.parquet")) == 2
    table = pyarrow.parquet.read_table("out.parquet")
    assert table.column_names == list(rows()[0])
    found = {row["algorithm"]: row for row in table.to_pylist()}
    assert (found["a"]["qps"], found["a"]["clients"], found["a"]["tier"], found["a"]["odd"]) == (
        100,
        2,
        None,
        "1.5",
    )
    assert (found["b"]["clients"], found["b"]["tier"], found["b"]["odd"]) == (None, "1b", "text")


def test_odd_values_survive(folder):
    name = 'a, "b"\nc é 日本'
    attrs = {
        "name": name,
        "interval": np.array([0.1, 0.2]),
        "long": np.zeros(1000),
        "text": np.bytes_(b"\xff"),
    }
    make_result("mine", "algo", "x", make_truth("mine"), 0.9, 0.01, **attrs)
    export_results(Path("out.csv"))
    (row,) = rows()
    assert row["parameters"] == 'a, "b" c é 日本'
    assert row["interval"] == "[0.1, 0.2]" and row["text"] == "\ufffd" and "long" not in row


def test_a_missing_dataset_is_neither_downloaded_nor_an_error(folder):
    truth = make_truth("mine")
    make_result("mine", "algo", "x", truth, 0.9, 0.01)
    make_result("sift-128-euclidean", "algo", "x", truth, 0.9, 0.01)
    command = [sys.executable, str(ROOT / "data_export.py"), "--output", "out.csv"]
    # A proxy that does not exist makes any download an error at once.
    environment = {**os.environ, "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (0, "wrote out.csv (results: 1)\n")
    assert len(done.stderr.splitlines()) == 1 and "data/sift-128-euclidean.hdf5" in done.stderr
    assert {path.name for path in Path("data").iterdir()} <= {"mine.hdf5", "mine.checked.json"}
    assert [row["dataset"] for row in rows()] == ["mine"]


def test_mistakes_leave_the_old_file(folder):
    Path("out.csv").write_text("old")
    with pytest.raises(UserError, match="nothing to export"):
        export_results(Path("out.csv"))
    make_result("mine", "algo", "x", make_truth("mine"), 0.9, 0.01)
    with pytest.raises(UserError, match="cannot write out.csv/x"):
        export_results(Path("out.csv/x"))
    assert Path("out.csv").read_text() == "old"
